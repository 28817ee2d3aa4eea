"""Guards against API servers: what a reply, a stream or its end may mean."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = ()
