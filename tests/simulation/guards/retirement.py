"""Guards of retire: which inventories nobody claims."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
