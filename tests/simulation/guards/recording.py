"""Guards of record: what is written down, when, and what it replaces."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
