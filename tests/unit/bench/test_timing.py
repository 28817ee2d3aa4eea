"""How durations are compared: in turns, by the least; percentiles and growth against known values."""

from __future__ import annotations

import math

import pytest

from bench import timing


def test_candidates_are_measured_in_turns() -> None:
    order: list[str] = []
    found = timing.alternating({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 3
    assert found.keys() == {"a", "b"}
    assert all(0 <= seconds < 60 for seconds in found.values())


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 1, id="the least"),
        pytest.param(0.5, 50, id="half are not above it"),
        pytest.param(0.95, 95, id="p95"),
        pytest.param(1.0, 100, id="the most"),
    ],
)
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert timing.percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_a_single_value_is_every_percentile() -> None:
    assert timing.percentile([3.0], 0.99) == 3.0


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_finds_the_exponent(exponent: float) -> None:
    points = [(float(x), 3 * float(x) ** exponent) for x in (1_000, 10_000, 100_000)]
    assert timing.growth(points) == pytest.approx(exponent)


def test_n_log_n_grows_a_little_faster_than_n() -> None:
    points = [(float(x), x * math.log(x)) for x in (1_000, 10_000, 100_000)]
    limit = timing.linearithmic_growth(1_000, 100_000)
    assert 1.0 < limit < 1.2
    assert timing.growth(points) == pytest.approx(limit, abs=0.01)
