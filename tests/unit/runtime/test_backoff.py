from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backoff import LONGEST_ASKED_SECONDS, LONGEST_SECONDS, pause


class Fixed(Random):
    """A source of one number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("failures", "chance", "retry_after", "seconds"),
    [
        pytest.param(1, 1.0, None, 1.0, id="the first pause is at most a second"),
        pytest.param(1, 0.0, None, 0.5, id="and at least half of one"),
        pytest.param(2, 1.0, None, 2.0, id="each failure doubles it"),
        pytest.param(7, 1.0, None, 64.0, id="up to the seventh"),
        pytest.param(8, 1.0, None, 120.0, id="no pause is longer than two minutes"),
        pytest.param(10_000, 0.0, None, 60.0, id="however often it failed"),
        pytest.param(1, 1.0, 30.0, 30.0, id="what the server asked for is not undercut"),
        pytest.param(1, 1.0, 600.0, 600.0, id="not even beyond two minutes"),
        pytest.param(8, 1.0, 30.0, 120.0, id="nor does it shorten a pause"),
        pytest.param(1, 1.0, 1e9, 3600.0, id="a server cannot silence a key for good"),
        pytest.param(1, 1.0, -5.0, 1.0, id="a pause asked for in the past counts as none"),
    ],
)
def test_pauses(failures: int, chance: float, retry_after: float | None, seconds: float) -> None:
    assert pause(failures, rng=Fixed(chance), retry_after=retry_after) == seconds


@given(st.integers(1, 10**6), st.integers(), st.none() | st.floats(0, 1e12))
def test_a_pause_is_never_nothing_and_never_endless(failures: int, seed: int, retry_after: float | None) -> None:
    rng = Random(seed)  # noqa: S311
    assert 0.5 <= pause(failures, rng=rng, retry_after=retry_after) <= LONGEST_ASKED_SECONDS


def test_keys_that_failed_together_come_back_apart() -> None:
    rng = Random(1)  # noqa: S311
    pauses = {round(pause(8, rng=rng), 3) for _ in range(100)}
    assert len(pauses) > 90
    assert max(pauses) - min(pauses) > LONGEST_SECONDS / 3
