"""When a worker counts as stuck, and when it takes tasks: on a virtual clock."""

from __future__ import annotations

import pytest

from runtime.broker import UNREACHABLE, Finding
from workers.pulse import Load, Pulse

STALL, LIMIT = 90.0, 300.0
AWAY = [Finding(UNREACHABLE, "Redis is away", "start it")]
UNFIT = [Finding("eviction-policy", "Redis may evict the queues", "set noeviction")]


class Patient:
    """A pulse and its clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pulse = Pulse(stall=STALL, limit=LIMIT, clock=lambda: self.now)

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        return self.pulse.stuck()


@pytest.fixture
def patient() -> Patient:
    return Patient()


def test_a_consumer_that_is_answered_lives(patient: Patient) -> None:
    for _ in range(10):
        patient.pulse.answered()
        assert patient.after(STALL) == []


def test_a_consumer_that_asks_for_nothing_is_stuck_although_its_loop_turns(patient: Patient) -> None:
    """celery#8030: connected, answering pings, consuming nothing."""
    for _ in range(9):
        patient.pulse.turned(Load(room=True))
        patient.pulse.checked([])
        assert patient.after(10) == []
    patient.pulse.turned(Load(room=True))
    assert patient.after(1) == ["consumer: nothing for 91 s, although Redis answers"]


def test_a_worker_without_room_lives_as_long_as_its_loop_turns(patient: Patient) -> None:
    for _ in range(9):
        patient.pulse.turned(Load(room=False))
        assert patient.after(STALL) == []
    assert patient.after(1) != []


def test_a_redis_that_is_away_is_no_lack_of_progress_and_its_return_is_given_time(patient: Patient) -> None:
    for _ in range(100):
        patient.pulse.checked(AWAY)
        assert patient.after(5) == []
    patient.pulse.checked([])
    assert patient.after(STALL - 5) == []
    assert patient.after(1) != []


def test_a_redis_that_is_merely_unfit_excuses_nothing(patient: Patient) -> None:
    patient.now += STALL + 1
    patient.pulse.checked(UNFIT)
    assert patient.pulse.stuck() != []


def test_a_worker_that_never_consumed_is_stuck(patient: Patient) -> None:
    assert patient.after(STALL) == []
    assert patient.after(1) != []


def test_a_pool_of_which_every_process_outlives_the_hard_limit_is_stuck(patient: Patient) -> None:
    started = patient.now

    def after(seconds: float) -> list[str]:
        patient.now = started + seconds
        patient.pulse.turned(Load(room=False, latest_start=started))
        return patient.pulse.stuck()

    assert after(LIMIT + STALL) == []
    assert after(LIMIT + STALL + 1) == ["pool: every process has run its task for 391 s; 300 s are allowed"]


def test_a_worker_that_ends_is_not_hurried(patient: Patient) -> None:
    patient.pulse.draining = True
    assert patient.after(STALL * 10) == []


def test_readiness_takes_a_look_at_redis_and_a_connection(patient: Patient) -> None:
    pulse = patient.pulse
    assert pulse.unready() == ["Redis has not been looked at yet"]
    pulse.checked([])
    assert pulse.unready() == ["consumer: not connected"]
    pulse.consuming = True
    assert pulse.unready() == []
    pulse.checked(UNFIT)
    assert pulse.unready() == ["Redis may evict the queues"]
    pulse.checked([])
    pulse.draining = True
    assert pulse.unready() == ["ending: takes no new tasks"]
