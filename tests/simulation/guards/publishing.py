"""Guards of the writes of recover: append, overflow slices, the decision's status."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
