import os
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis

from eno.errors import BrokerUnavailable, Refused
from runtime.claims import LOCK, LONGEST_WAIT, RENEWAL, Claim, Merged
from runtime.claims import Refused as RefusedClaim
from runtime.dispatch import Enqueued, Parked, Running
from runtime.holder import Holder
from tests.support.hints import NOW, Hints, message

KEY = message().key


def test_the_marker_is_gone_before_the_first_read() -> None:
    hints = Hints()
    hints.dispatcher.enqueue(message())
    hints.begin(message())
    assert not hints.dispatcher.describe(KEY).pending
    assert hints.dispatcher.enqueue(message()) == Running()


def test_executions_of_one_key_do_not_overlap() -> None:
    hints = Hints()
    hints.begin(message(), "first")
    assert hints.claims.begin(message(), "second") == Merged()
    assert isinstance(hints.claims.begin(message("other"), "third"), Claim)


def test_what_arrives_during_an_execution_is_enqueued_once_after_it() -> None:
    hints = Hints()
    claim = hints.begin(message(), "first")
    assert hints.claims.begin(message(), "second") == Merged()
    assert hints.claims.begin(message(), "third") == Merged()
    claim.done()
    assert hints.outbox.sent == [message()]
    hints.begin(message(), "fourth").done()
    assert hints.outbox.sent == [message()]


def test_the_flag_is_set_before_the_lock_is_tried() -> None:
    """Else a holder that ends between the two would neither see the flag nor be seen."""
    hints = Hints()
    names: list[str] = []
    pipeline = hints.redis.pipeline

    def recording(*args: object, **kwargs: object) -> object:
        pipe = pipeline(*args, **kwargs)
        set_ = pipe.set

        def record(name: str, *rest: object, **options: object) -> object:
            names.append(name)
            return set_(name, *rest, **options)

        pipe.set = record
        return pipe

    hints.redis.pipeline = recording  # type: ignore[method-assign]
    hints.begin(message())
    assert names == [hints.keys.again(KEY), hints.keys.lock(KEY)]


ENDED = 2**30
"""A process id that no system gives out."""


@pytest.mark.parametrize(
    ("holder", "taken"),
    [
        pytest.param(Holder("delivery", pid=ENDED), True, id="its process died"),
        pytest.param(Holder("delivery", pid=os.getppid()), False, id="its process only lost the connection"),
        pytest.param(Holder("delivery", "another-host", ENDED), False, id="nobody here can tell"),
        pytest.param(Holder("another", pid=ENDED), False, id="it was another message's"),
        pytest.param(Holder("delivery"), True, id="it is this very process, which does one thing at a time"),
        pytest.param("garbage", False, id="nobody wrote that"),
    ],
)
def test_a_message_that_comes_back_takes_its_lock_over_when(holder: object, taken: bool) -> None:
    hints = Hints()
    hints.redis.set(hints.keys.lock(KEY), str(holder), px=2000)
    begun = hints.claims.begin(message(), "delivery")
    assert isinstance(begun, Claim) is taken
    expected = Holder("delivery") if taken else holder
    assert hints.redis.get(hints.keys.lock(KEY)) == str(expected)
    assert (hints.seconds_left(hints.keys.lock(KEY)) > 2) is taken


def test_a_killed_worker_blocks_its_key_for_half_a_minute_whatever_the_time_limit() -> None:
    hints = Hints(task_time_limit=700, task_soft_time_limit=600)
    hints.begin(message(), "dead")
    assert hints.claims.begin(message(), "next") == Merged()
    assert 29 < hints.seconds_left(hints.keys.lock(KEY)) <= 30
    hints.expire(hints.keys.lock(KEY))
    assert isinstance(hints.claims.begin(message(), "next"), Claim)


def test_a_worker_that_is_killed_while_it_takes_a_key_blocks_it_for_no_longer_either() -> None:
    hints = Hints()
    pipelines = iter([hints.redis.pipeline])

    def only_once(*args: object, **kwargs: object) -> object:
        for pipeline in pipelines:
            return pipeline(*args, **kwargs)
        raise redis.ConnectionError("gone")

    hints.redis.pipeline = only_once  # type: ignore[method-assign]
    with pytest.raises(BrokerUnavailable):
        hints.claims.begin(message(), "dead")
    assert 29 < hints.seconds_left(hints.keys.lock(KEY)) <= 30


def test_the_lock_of_a_long_execution_is_renewed_until_it_ends() -> None:
    hints = Hints()
    claim = hints.begin(message())
    hints.redis.pexpire(hints.keys.lock(KEY), 2000)
    hints.claims.renew()
    assert hints.seconds_left(hints.keys.lock(KEY)) > LOCK.total_seconds() - 1
    claim.done()
    hints.redis.set(hints.keys.lock(KEY), str(Holder("delivery-1")), px=2000)
    hints.claims.renew()
    assert hints.seconds_left(hints.keys.lock(KEY)) <= 2, "what ended is forgotten"


def test_a_lock_that_somebody_else_has_by_now_is_not_renewed() -> None:
    hints = Hints()
    hints.begin(message(), "late")
    hints.redis.set(hints.keys.lock(KEY), "next", px=2000)
    hints.claims.renew()
    assert hints.seconds_left(hints.keys.lock(KEY)) <= 2


def test_two_renewals_may_fail_before_a_lock_is_lost() -> None:
    assert RENEWAL * 3 < LOCK


def test_what_arrives_early_in_a_long_execution_is_remembered_to_its_end() -> None:
    hints = Hints(task_time_limit=700, task_soft_time_limit=600)
    hints.begin(message(), "first")
    hints.claims.begin(message(), "second")
    assert hints.seconds_left(hints.keys.again(KEY)) > 700
    hints.redis.delete(hints.keys.again(KEY))
    hints.dispatcher.enqueue(message())
    assert hints.seconds_left(hints.keys.again(KEY)) > 700


def test_a_lock_that_expired_and_is_somebody_elses_is_not_released() -> None:
    hints = Hints()
    late = hints.begin(message(), "late")
    hints.expire(hints.keys.lock(KEY))
    hints.begin(message(), "next")
    late.done()
    assert hints.redis.get(hints.keys.lock(KEY)) == str(Holder("next"))


def test_failures_in_a_row_wait_longer_each_time() -> None:
    hints = Hints()
    pauses = []
    for _ in range(8):
        pauses.append((hints.begin(message()).fail() - NOW).total_seconds())
        hints.expire(hints.keys.not_before(KEY))
    bounds = [(1, 0.5), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 32), (120, 60)]
    assert all(low <= pause <= high for pause, (high, low) in zip(pauses, bounds, strict=True))


@pytest.mark.parametrize("end", ["done", "wait"])
def test_a_success_starts_the_pauses_over(end: str) -> None:
    hints = Hints()
    for _ in range(5):
        hints.begin(message()).fail()
    claim = hints.begin(message())
    claim.done() if end == "done" else claim.wait(NOW)
    assert hints.dispatcher.describe(KEY).failures == 0
    assert (hints.begin(message()).fail() - NOW).total_seconds() <= 1


def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    hints = Hints()
    assert hints.begin(message()).fail(retry_after=300) == NOW + timedelta(seconds=300)
    assert 299 < hints.seconds_left(hints.keys.not_before(KEY)) <= 300


@pytest.mark.parametrize(
    ("until", "at"),
    [
        pytest.param(NOW + timedelta(seconds=40), NOW + timedelta(seconds=40), id="until its instant"),
        pytest.param(NOW + timedelta(days=7), NOW + LONGEST_WAIT, id="for two minutes at most"),
        pytest.param(NOW - timedelta(days=7), NOW, id="not at all when the instant has passed"),
    ],
)
def test_a_waiting_key_is_held_back(until: object, at: object) -> None:
    hints = Hints()
    assert hints.begin(message()).wait(until) == at  # type: ignore[arg-type]


def test_a_key_that_never_comes_to_an_end_is_parked() -> None:
    hints = Hints(max_attempts=3)
    for _ in range(3):
        hints.crash(message())
    assert hints.claims.begin(message(), "fourth") == RefusedClaim(NOW + timedelta(minutes=15))
    (parked,) = hints.dispatcher.parked()
    assert (parked.reason, parked.message) == ("attempts", "started 3 times without coming to an end")
    assert isinstance(hints.dispatcher.enqueue(message()), Parked)


def test_a_message_that_kills_its_worker_and_comes_back_at_once_is_parked_too() -> None:
    hints = Hints(max_attempts=3)
    for _ in range(3):
        hints.begin(message(), "same delivery")
    assert isinstance(hints.claims.begin(message(), "same delivery"), RefusedClaim)
    assert not hints.dispatcher.describe(KEY).running


def test_a_parked_killer_gets_one_look_per_quarter_of_an_hour() -> None:
    hints = Hints(max_attempts=1)
    hints.crash(message())
    assert isinstance(hints.claims.begin(message(), "refused"), RefusedClaim)
    hints.expire(hints.keys.not_before(KEY))
    hints.crash(message())
    assert isinstance(hints.claims.begin(message(), "refused"), RefusedClaim)
    assert not hints.dispatcher.describe(KEY).running
    assert hints.dispatcher.parked()[0].since == NOW


def test_a_change_of_the_object_gives_a_key_that_killed_its_workers_a_new_start() -> None:
    hints = Hints(max_attempts=2)
    for _ in range(2):
        hints.crash(message())
    assert isinstance(hints.claims.begin(message(), "third"), RefusedClaim)
    assert hints.dispatcher.unpark(KEY)
    assert isinstance(hints.claims.begin(message(), "fourth"), Claim)


def test_a_look_that_ends_well_unparks_the_key() -> None:
    hints = Hints(max_attempts=1)
    hints.crash(message())
    hints.claims.begin(message(), "refused")
    hints.expire(hints.keys.not_before(KEY))
    hints.begin(message()).done()
    assert hints.dispatcher.parked() == []
    assert not hints.dispatcher.describe(KEY).parked
    assert hints.dispatcher.describe(KEY).attempts == 0


@pytest.mark.parametrize("end", ["done", "fail", "park"])
def test_any_end_clears_the_attempts(end: str) -> None:
    hints = Hints(max_attempts=2)
    for _ in range(5):
        claim = hints.begin(message())
        claim.park(Refused("patch", status=400)) if end == "park" else getattr(claim, end)()
    assert hints.dispatcher.describe(KEY).attempts == 0


def test_a_merged_message_is_no_attempt() -> None:
    hints = Hints()
    hints.begin(message(), "first")
    hints.claims.begin(message(), "second")
    assert hints.dispatcher.describe(KEY).attempts == 1


def test_a_key_parked_again_keeps_its_beginning() -> None:
    hints = Hints()
    hints.begin(message()).park(Refused("patch", status=400))
    hints.now += timedelta(minutes=15)
    hints.begin(message()).park(Refused("patch", status=422))
    (parked,) = hints.dispatcher.parked()
    assert parked.since == NOW
    assert parked.message == "patch: 422"


def test_what_arrives_while_a_key_is_being_parked_is_looked_at() -> None:
    """It may be the very change that the key would wait for."""
    hints = Hints()
    claim = hints.begin(message(), "first")
    hints.claims.begin(message(), "second")
    claim.park(Refused("patch", status=400))
    assert hints.outbox.sent == [message()]
    hints.begin(message(), "third").done()
    assert hints.dispatcher.parked() == []


def test_what_arrives_during_a_failing_execution_waits_with_the_key() -> None:
    hints = Hints()
    claim = hints.begin(message(), "first")
    hints.claims.begin(message(), "second")
    claim.fail(retry_after=30)
    assert hints.outbox.sent == []


@pytest.mark.parametrize("end", ["done", "fail", "park"])
def test_a_flush_at_any_moment_hurts_nothing(end: str) -> None:
    hints = Hints()
    hints.dispatcher.enqueue(message())
    hints.redis.flushall()
    claim = hints.begin(message(), "first")
    hints.redis.flushall()
    claim.park(Refused("patch", status=400)) if end == "park" else getattr(claim, end)()
    hints.redis.flushall()
    assert hints.dispatcher.parked() == []
    assert hints.dispatcher.enqueue(message()) == Enqueued()
    hints.begin(message(), "second").done()


@pytest.mark.parametrize("moment", ["begin", "done", "fail", "park"])
def test_without_redis_every_step_says_so(moment: str) -> None:
    hints = Hints()
    steps: dict[str, Callable[[], object]] = {"begin": lambda: hints.claims.begin(message(), "d")}
    claim = hints.begin(message("other"))
    steps |= {"done": claim.done, "fail": claim.fail, "park": lambda: claim.park(Refused("patch", status=400))}
    hints.disconnect()
    with pytest.raises(BrokerUnavailable):
        steps[moment]()
