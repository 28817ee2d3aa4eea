"""A plan: what goes wrong in a run of a scenario, as one line that replays it.

`scenario/kind/points`, the points separated by commas:

| point | at |
|---|---|
| `c12:after+gone` | a call (counted from the start of the run): a crash, an error reply |
| `x12:deleted` | before a call: what Eno or people do |
| `e3-7:410` | a window of watch events that are not heard of |
| `m4:twice@9` | a message: lost, delivered twice or late, at which delivery |
| `b5:stale=slice@31` | a boundary between two messages: a watcher or Redis restarts, a stale view |
| `w5:recover+gate:abba` | a boundary at which two workers run side by side, and whose turn it is |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.simulation.machine import Faults

_POINT = re.compile(r"([cxmb])(\d+):(.+)")
_WINDOW = re.compile(r"e(\d+)-(\d+):(.+)")
_WORKERS = re.compile(r"w(\d+):(\w+)\+(\w+):([ab]*)")


@dataclass(frozen=True, slots=True)
class Plan:
    """See above. Without points nothing goes wrong."""

    scenario: str
    kind: str
    points: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What it is replayed by."""
        return f"{self.scenario}/{self.kind}/{','.join(self.points)}"

    @classmethod
    def parse(cls, line: str) -> Plan:
        """The inverse of `line`. Raises ValueError."""
        scenario, kind, points = line.strip().split("/", 2)
        return cls(scenario, kind, tuple(point for point in points.split(",") if point))

    def faults(self) -> Faults:
        """For a machine. Raises ValueError."""
        found = Faults()
        targets = {"c": found.calls, "x": found.acts, "m": found.messages, "b": found.boundaries}
        for point in self.points:
            if window := _WINDOW.fullmatch(point):
                found.window = int(window[1]), int(window[2]), window[3]
            elif single := _POINT.fullmatch(point):
                targets[single[1]][int(single[2])] = single[3]
            elif not _WORKERS.fullmatch(point):
                raise ValueError(f"{point!r} is no point of a plan")
        return found

    @property
    def workers(self) -> tuple[int, str, str, str] | None:
        """The boundary, the tasks and the schedule of two workers side by side."""
        found = [match for point in self.points if (match := _WORKERS.fullmatch(point))]
        return (int(found[0][1]), found[0][2], found[0][3], found[0][4]) if found else None
