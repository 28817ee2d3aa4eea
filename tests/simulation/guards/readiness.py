"""Guards of the gate: when a synthesis is ready and reconciled, and when an inventory is settled."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
