"""Corrections are counted in Redis, for all workers, and never for longer than a fight lasts."""

from __future__ import annotations

import logging

import pytest

from eno.readiness import TOLERATED_CORRECTIONS
from runtime.claims import LONGEST_WAIT
from runtime.corrections import MEMORY, WINDOW, CorrectionCounter
from tests.support.hints import Hints, settings

KEY = "gate:uid:uuid"


def counter(hints: Hints) -> CorrectionCounter:
    return CorrectionCounter(hints.settings, hints.redis)


def test_corrections_are_counted_per_key_and_across_workers() -> None:
    hints = Hints()
    assert [counter(hints).note(KEY) for _ in range(4)] == [1, 2, 3, 4]
    assert counter(hints).note("gate:uid:another") == 1


def test_instances_that_share_a_redis_do_not_share_their_counts() -> None:
    hints = Hints()
    counter(hints).note(KEY)
    other = CorrectionCounter(settings(instance="other"), hints.redis)
    assert other.note(KEY) == 1


def test_a_few_corrections_are_forgotten_a_minute_after_the_first() -> None:
    hints = Hints()
    name = hints.keys.corrections(KEY)
    counter(hints).note(KEY)
    hints.redis.pexpire(name, 1000)
    counter(hints).note(KEY)
    assert hints.seconds_left(name) <= 1, "the second does not prolong the window"
    hints.expire(name)
    assert counter(hints).note(KEY) == 1
    assert WINDOW.total_seconds() - 1 < hints.seconds_left(name) <= WINDOW.total_seconds()


def test_a_fight_is_remembered_for_longer_than_the_longest_pause() -> None:
    hints = Hints()
    for _ in range(TOLERATED_CORRECTIONS + 1):
        counter(hints).note(KEY)
    assert hints.seconds_left(hints.keys.corrections(KEY)) > LONGEST_WAIT.total_seconds()
    assert MEMORY > LONGEST_WAIT


def test_without_redis_each_correction_counts_as_the_first_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    hints = Hints()
    counter(hints).note(KEY)
    hints.disconnect()
    with caplog.at_level(logging.WARNING, logger="runtime.corrections"):
        assert counter(hints).note(KEY) == 1
    assert [vars(record)["action"] for record in caplog.records] == ["correction-not-counted"]
    assert "hunter2" not in caplog.text


def test_a_count_that_is_no_number_counts_as_the_first() -> None:
    hints = Hints()
    hints.redis.set(hints.keys.corrections(KEY), "garbage")
    assert counter(hints).note(KEY) == 1
