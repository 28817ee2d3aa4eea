"""What a measurement yields, as values: lines of a table, curves of a plot, and the notes that explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Bound(StrEnum):
    """On which side of an aim a figure has to be."""

    AT_MOST = "≤"
    AT_LEAST = "≥"


@dataclass(frozen=True, slots=True)
class Aim:
    """`value` bounds the figure itself, or its ratio to the peer's where `of_ratio` is set."""

    bound: Bound
    value: float
    of_ratio: bool = False

    def met(self, figure: float) -> bool:
        """Whether the figure is on the right side."""
        return figure <= self.value if self.bound is Bound.AT_MOST else figure >= self.value


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was done: our figure, and the peer's or the bound's beside it, in the same unit."""

    what: str
    ours: float
    unit: str
    beside: str = ""
    theirs: float | None = None
    aim: Aim | None = None

    @property
    def ratio(self) -> float | None:
        """Ours by theirs, whichever is the better."""
        return self.ours / self.theirs if self.theirs else None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        if self.aim is None:
            return None
        figure = self.ratio if self.aim.of_ratio else self.ours
        return figure is not None and self.aim.met(figure)

    def to_json(self) -> dict[str, Any]:
        """For machines, with ratio and verdict."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (x, y) by series, for one picture."""

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the benchmark. `details` is whatever else a machine may want to know."""

    key: str
    title: str
    lines: Sequence[Line]
    curves: Sequence[Curve] = ()
    notes: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "key": self.key,
            "title": self.title,
            "lines": [line.to_json() for line in self.lines],
            "curves": [asdict(curve) for curve in self.curves],
            "notes": list(self.notes),
            "details": dict(self.details),
        }
