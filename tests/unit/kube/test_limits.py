"""Rate limits on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from eno.errors import UsageError
from kube.limits import RateLimits, TokenBucket


class VirtualTime:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def bucket(rate: float = 2.0, burst: float = 3) -> tuple[TokenBucket, VirtualTime]:
    time = VirtualTime()
    return TokenBucket(rate, burst, clock=time.clock, sleep=time.sleep), time


def test_a_burst_passes_at_once_and_no_more() -> None:
    tokens, time = bucket(rate=2, burst=3)
    for _ in range(3):
        tokens.acquire()
    assert time.slept == []
    tokens.acquire()
    assert time.slept == [0.5]


def test_the_rate_holds_over_time() -> None:
    tokens, time = bucket(rate=2, burst=3)
    for _ in range(3 + 20):
        tokens.acquire()
    assert time.now == pytest.approx(100 + 20 / 2)


def test_an_idle_bucket_fills_up_to_the_burst_only() -> None:
    tokens, time = bucket(rate=2, burst=3)
    time.now += 3600
    for _ in range(4):
        tokens.acquire()
    assert time.slept == [0.5]


def test_callers_that_wait_at_the_same_time_wait_for_different_instants() -> None:
    slept: list[float] = []
    tokens = TokenBucket(1, 1, clock=lambda: 0.0, sleep=slept.append)
    for _ in range(4):
        tokens.acquire()
    assert slept == [1.0, 2.0, 3.0]


def test_a_clock_that_jumps_back_gives_no_tokens_and_takes_none() -> None:
    tokens, time = bucket(rate=1, burst=1)
    tokens.acquire()
    time.now -= 1000
    tokens.acquire()
    assert time.slept == [1.0]


BAD = {
    "no calls": {"requests_per_second": 0},
    "no burst": {"burst": 0},
    "negative slice writes": {"slice_writes_per_second": -1.0},
    "not a number": {"requests_per_second": float("nan")},
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_a_limit_that_lets_nothing_pass_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be above 0"):
        RateLimits(**arguments)
