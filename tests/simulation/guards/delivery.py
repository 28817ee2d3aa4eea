"""Guards of the queue: messages, claims, attempts, and what a worker does with what it is handed."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
