"""Guards of the watcher: what it derives from what it knows, and when."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
