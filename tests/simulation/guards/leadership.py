"""Guards of the lease: who may enqueue."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
