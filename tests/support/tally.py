"""A meter that remembers what it was told."""

from __future__ import annotations

from collections import Counter

from runtime.metrics import Family


class Tally:
    """See `runtime.metrics.Meter`. Families by name, with the values of their labels."""

    def __init__(self) -> None:
        self.totals: Counter[tuple[str, ...]] = Counter()

    def record(self, family: Family, value: float = 1.0, *labels: str) -> None:
        """Add, also where a histogram would observe."""
        assert len(labels) == len(family.labels), f"{family.name} takes {family.labels}"
        self.totals[family.name, *map(str, labels)] += value  # type: ignore[assignment]
