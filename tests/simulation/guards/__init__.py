"""Every guard of the product, by name. Each must be missed: `python -m tests.simulation --mutants`."""

from __future__ import annotations

from tests.simulation.guards import (
    delivery,
    leadership,
    publishing,
    readiness,
    recording,
    recovery,
    retention,
    retirement,
    servers,
    watching,
)
from tests.simulation.mutation import Guard

ROOMS = (recovery, publishing, recording, readiness, retention, retirement, watching, delivery, servers, leadership)

GUARDS: dict[str, Guard] = {guard.name: guard for room in ROOMS for guard in room.GUARDS}
