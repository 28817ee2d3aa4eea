"""How often foreign readiness was corrected lately, by the clock of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Whoever knows what time it is."""

    now: datetime


@dataclass
class Counted:
    """See `workers.context.Corrections`."""

    clock: Clock
    noted: dict[str, list[datetime]] = field(default_factory=dict)

    def note(self, key: str) -> int:
        """Count one more for the key, and those of the last minute with it."""
        recent = [each for each in self.noted.get(key, []) if self.clock.now - each < timedelta(minutes=1)]
        self.noted[key] = [*recent, self.clock.now]
        return len(self.noted[key])
