"""What a task ended as: a value, shown in Flower, counted, and never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from eno.times import format_time


class Kind(StrEnum):
    """The ends a task can come to. Errors are not among them: they are raised."""

    DONE = "done"
    UNCHANGED = "unchanged"
    SUPERSEDED = "superseded"
    MERGED = "merged"
    WAITING = "waiting"
    NOT_IN_SCOPE = "not-in-scope"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An end with its reason. `until` is set when waiting: the instant to look again."""

    kind: Kind
    reason: str = ""
    until: datetime | None = None

    def to_json(self) -> dict[str, str]:
        """As a task result."""
        body = {"outcome": str(self.kind), "reason": self.reason}
        if self.until is not None:
            body["until"] = format_time(self.until)
        return body
