"""How durations are taken, compared and summed up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence


def alternating(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least seconds of each candidate over `rounds`, taken in turns so that noise hits all alike.

    The least, not the mean: what disturbs a run only ever makes it slower.
    """
    best = dict.fromkeys(candidates, math.inf)
    for _ in range(rounds):
        for name, candidate in candidates.items():
            best[name] = min(best[name], seconds(candidate))
    return best


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` (0 to 1) of all values do not exceed. There must be at least one."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def growth(points: Sequence[tuple[float, float]]) -> float:
    """The exponent k of y = c · x^k, fitted to positive points by least squares of their logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return covariance / sum((x - mean_x) ** 2 for x, _ in logs)


def linearithmic_growth(least: float, most: float) -> float:
    """The exponent that n log n shows between two sizes: what `growth` finds for it."""
    return growth([(least, least * math.log(least)), (most, most * math.log(most))])
