"""How long to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import ApiError, ServerError, Throttled
from kube.backoff import Backoff

DELAYS: dict[str, tuple[int, float | None, float, float]] = {
    "nothing failed": (0, None, 0.5, 0.0),
    "the first failure, no jitter": (1, None, 0.0, 0.5),
    "the first failure, half the jitter": (1, None, 0.5, 0.75),
    "the second doubles": (2, None, 0.0, 1.0),
    "the fourth": (4, None, 0.0, 4.0),
    "the limit": (10, None, 0.0, 30.0),
    "the limit, after a very long outage": (10**9, None, 0.0, 30.0),
    "the server asks for longer": (1, 7.0, 0.0, 7.0),
    "the server asks for longer, with jitter above it": (1, 7.0, 0.5, 7.5),
    "the server asks for less than the step": (5, 1.0, 0.0, 8.0),
    "the server asks for more than the limit": (1, 600.0, 0.0, 600.0),
}


@pytest.mark.parametrize(("failures", "asked", "draw", "expected"), DELAYS.values(), ids=DELAYS)
def test_the_delay_after_a_failure(failures: int, asked: float | None, draw: float, expected: float) -> None:
    error: ApiError = Throttled("x", retry_after=asked) if asked else ServerError("x")
    assert Backoff(first=1.0, limit=60.0).delay(failures, error, draw) == expected


def test_without_an_error_there_is_still_a_delay() -> None:
    assert Backoff().delay(1, None, 0.0) == 0.5


@given(st.integers(1, 200), st.none() | st.floats(0.1, 3600), st.floats(0, 1, exclude_max=True))
def test_no_delay_undercuts_what_the_server_asked_for_nor_goes_far_beyond(
    failures: int, asked: float | None, draw: float
) -> None:
    delay = Backoff().delay(failures, Throttled("x", retry_after=asked), draw)
    assert (asked or 0) <= delay <= max(60.0, (asked or 0) + 1)
