from datetime import timedelta

import pytest

from eno.errors import BrokerUnavailable, Refused
from runtime.broker import Keys
from runtime.dispatch import Enqueued, NotBefore, Parked, Pending, Running
from runtime.messages import MESSAGES, TaskName
from runtime.sender import celery_configuration
from tests.support.hints import NOW, Hints, message, settings


def test_a_message_is_sent_once_while_it_is_pending() -> None:
    hints = Hints()
    assert hints.dispatcher.enqueue(message()) == Enqueued()
    assert hints.dispatcher.enqueue(message()) == Pending()
    assert hints.outbox.sent == [message()]


def test_keys_do_not_stand_in_each_others_way() -> None:
    hints = Hints()
    messages = [message("web"), message("db"), message("web", synthesis_uuid="s2")]
    assert [hints.dispatcher.enqueue(each) for each in messages] == [Enqueued()] * 3


def test_instances_do_not_stand_in_each_others_way() -> None:
    blue, green = Hints(instance="blue"), Hints(instance="green")
    green.redis.connection_pool.connection_kwargs["server"] = blue.redis.connection_pool.connection_kwargs["server"]
    assert blue.dispatcher.enqueue(message()) == Enqueued()
    assert green.dispatcher.enqueue(message()) == Enqueued()


def test_a_lost_message_blocks_its_key_for_no_longer_than_the_marker_lives() -> None:
    hints = Hints(pending_timeout=60)
    hints.dispatcher.enqueue(message())
    marker = hints.keys.pending(message().key)
    assert 0 < hints.seconds_left(marker) <= 60
    hints.expire(marker)
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_message_that_could_not_be_sent_is_not_pending() -> None:
    hints = Hints()
    hints.outbox.broken = True
    with pytest.raises(BrokerUnavailable):
        hints.dispatcher.enqueue(message())
    hints.outbox.broken = False
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_failed_send_leaves_a_marker_alone_that_somebody_set_meanwhile() -> None:
    hints = Hints()
    marker = hints.keys.pending(message().key)

    def lose_the_marker_and_fail(_: object) -> None:
        hints.redis.set(marker, "somebody else's")
        raise BrokerUnavailable("not available")

    hints.outbox.send = lose_the_marker_and_fail  # type: ignore[method-assign]
    with pytest.raises(BrokerUnavailable):
        hints.dispatcher.enqueue(message())
    assert hints.redis.get(marker) == "somebody else's"


def test_many_messages_are_answered_one_by_one() -> None:
    hints = Hints()
    hints.begin(message("running"), "one")
    hints.begin(message("failed")).fail(retry_after=30)
    hints.begin(message("parked")).park(Refused("patch", status=400))
    hints.dispatcher.enqueue(message("pending"))
    hints.outbox.sent.clear()
    names = ["new", "running", "failed", "parked", "pending", "new", "other"]
    answers = hints.dispatcher.enqueue_all([message(name) for name in names])
    assert [type(answer) for answer in answers] == [Enqueued, Running, NotBefore, Parked, Pending, Pending, Enqueued]
    assert hints.outbox.sent == [message("new"), message("other")]
    assert hints.dispatcher.enqueue_all([]) == []


def test_the_round_trips_do_not_grow_with_the_messages() -> None:
    """One tells what stands against each key, one sets the markers."""
    hints = Hints()
    trips: list[int] = []
    pipeline = hints.redis.pipeline

    def counting(*args: object, **kwargs: object) -> object:
        pipe = pipeline(*args, **kwargs)
        execute = pipe.execute

        def count() -> object:
            trips.append(len(pipe))
            return execute()

        pipe.execute = count
        return pipe

    hints.redis.pipeline = counting  # type: ignore[method-assign]
    hints.dispatcher.enqueue_all([message(f"web-{number}") for number in range(100)])
    assert [length for length in trips if length] == [300, 200]
    assert len(hints.outbox.sent) == 100


def test_none_of_many_messages_that_could_not_be_sent_is_pending() -> None:
    hints = Hints()
    messages = [message("web"), message("db")]
    hints.outbox.broken = True
    with pytest.raises(BrokerUnavailable):
        hints.dispatcher.enqueue_all(messages)
    hints.outbox.broken = False
    assert hints.dispatcher.enqueue_all(messages) == [Enqueued()] * 2


def test_a_request_during_an_execution_is_a_message_after_it() -> None:
    hints = Hints()
    claim = hints.begin(message())
    assert hints.dispatcher.enqueue(message()) == Running()
    assert hints.seconds_left(hints.keys.again(message().key)) > 0
    claim.done()
    assert hints.outbox.sent == [message()]


def test_a_thousand_requests_during_an_execution_are_one_message_after_it() -> None:
    hints = Hints()
    claim = hints.begin(message())
    assert {hints.dispatcher.enqueue(message()) for _ in range(1000)} == {Running()}
    assert hints.outbox.sent == []
    claim.done()
    assert hints.outbox.sent == [message()]


def test_a_request_is_not_lost_when_the_execution_ends_at_the_same_moment() -> None:
    """The lock is seen; then it goes, and its holder looks for the flag before it is set."""
    hints = Hints()
    claim = hints.begin(message())
    pipeline = hints.redis.pipeline
    moments: list[object] = []

    def ending_in_between(*args: object, **kwargs: object) -> object:
        moments.append(None)
        if len(moments) == 2:
            hints.redis.pipeline = pipeline  # type: ignore[method-assign]
            claim.done()
        return pipeline(*args, **kwargs)

    hints.redis.pipeline = ending_in_between  # type: ignore[method-assign]
    assert hints.dispatcher.enqueue(message()) == Enqueued()
    assert hints.outbox.sent == [message()]


def test_without_redis_the_error_names_the_host_and_no_password() -> None:
    hints = Hints()
    hints.disconnect()
    with pytest.raises(BrokerUnavailable, match=r"Redis broker\.example:6380/3: not available") as caught:
        hints.dispatcher.enqueue(message())
    assert "hunter2" not in str(caught.value)
    assert hints.outbox.sent == []


def test_a_key_that_failed_is_not_enqueued_before_its_time() -> None:
    hints = Hints()
    at = hints.begin(message()).fail(retry_after=30)
    answer = hints.dispatcher.enqueue(message())
    assert isinstance(answer, NotBefore)
    assert abs(answer.at - at) < timedelta(seconds=1)
    hints.expire(hints.keys.not_before(message().key))
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_parked_key_waits_a_quarter_of_an_hour() -> None:
    hints = Hints()
    hints.begin(message()).park(Refused("patch", status=400))
    answer = hints.dispatcher.enqueue(message())
    assert isinstance(answer, Parked)
    assert timedelta(minutes=14) < answer.until - NOW <= timedelta(minutes=15)
    hints.expire(hints.keys.not_before(message().key))
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_change_of_the_object_unparks_its_key() -> None:
    hints = Hints()
    hints.begin(message()).park(Refused("patch", status=400))
    assert hints.dispatcher.unpark(message().key)
    assert hints.dispatcher.parked() == []
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_change_of_the_object_ends_a_wait() -> None:
    hints = Hints()
    hints.begin(message()).wait(NOW + timedelta(seconds=60))
    assert hints.dispatcher.unpark(message().key)
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_change_of_the_object_does_not_shorten_the_pause_after_a_failure() -> None:
    hints = Hints()
    hints.begin(message()).fail(retry_after=30)
    assert not hints.dispatcher.unpark(message().key)
    assert isinstance(hints.dispatcher.enqueue(message()), NotBefore)


def test_a_person_who_asks_now_is_not_told_to_wait() -> None:
    hints = Hints()
    hints.begin(message()).fail(retry_after=30)
    hints.dispatcher.forget(message().key)
    assert hints.dispatcher.enqueue(message()) == Enqueued()
    hints.dispatcher.forget(message().key)
    assert hints.dispatcher.enqueue(message()) == Enqueued()


def test_parked_keys_are_listed_with_their_reason() -> None:
    hints = Hints()
    hints.begin(message("db")).park(Refused("patch compositions apps/db", status=400, reason="BadRequest"))
    hints.now += timedelta(seconds=5)
    hints.begin(message("web")).park(Refused("patch compositions apps/web", status=400))
    first, second = hints.dispatcher.parked()
    assert first.key == message("db").key
    assert first.reason == "terminal"
    assert first.message == "patch compositions apps/db: 400 BadRequest"
    assert first.since == NOW
    assert first.context["composition"] == "apps/db"
    assert second.since == NOW + timedelta(seconds=5)
    assert second.until is not None


def test_a_parked_key_whose_object_is_gone_is_forgotten_in_the_end() -> None:
    hints = Hints()
    hints.begin(message()).park(Refused("patch", status=400))
    assert hints.seconds_left(hints.keys.parked(message().key)) <= 3600
    assert hints.seconds_left(hints.keys.parked_index) <= 3600
    hints.now += timedelta(hours=2)
    hints.expire(hints.keys.parked(message().key))
    assert hints.dispatcher.parked() == []
    assert hints.redis.zcard(hints.keys.parked_index) == 0


def test_a_key_is_described_for_people() -> None:
    hints = Hints()
    key = message().key
    hints.begin(message(), "first").fail(retry_after=30)
    hints.dispatcher.forget(key)
    hints.dispatcher.enqueue(message())
    state = hints.dispatcher.describe(key)
    assert (state.pending, state.running, state.parked, state.attempts, state.not_before) == (
        True,
        False,
        False,
        0,
        None,
    )
    hints.begin(message(), "second")
    state = hints.dispatcher.describe(key)
    assert (state.pending, state.running, state.attempts) == (False, True, 1)


def test_queue_lengths_are_told_per_task() -> None:
    hints = Hints()
    hints.redis.lpush(TaskName.RECOVER.queue("sexton"), "a", "b")
    assert hints.dispatcher.lengths() == {task: 2 if task is TaskName.RECOVER else 0 for task in MESSAGES}


def test_every_key_carries_the_instance_and_ends_by_itself() -> None:
    hints = Hints(instance="blue")
    hints.dispatcher.enqueue(message("pending"))
    hints.begin(message("running"), "one")
    hints.claims.begin(message("running"), "two")
    hints.begin(message("failed")).fail()
    hints.begin(message("waiting")).wait(NOW + timedelta(hours=5))
    hints.begin(message("parked")).park(Refused("patch", status=400))
    names = hints.redis.keys()
    assert len(names) >= 9
    assert [name for name in names if not name.startswith("blue:")] == []
    assert [name for name in names if hints.redis.pttl(name) <= 0] == []


def test_two_instances_share_no_name_in_redis() -> None:
    blue, green = (celery_configuration(settings(instance=name)) for name in ("blue", "green"))
    options = ("unacked_key", "unacked_index_key", "unacked_mutex_key")
    for name in options:
        assert blue["broker_transport_options"][name] != green["broker_transport_options"][name]
    for name in ("task_routes", "control_exchange", "event_exchange", "task_default_queue"):
        assert blue[name] != green[name]
    assert {queue.name for queue in blue["task_queues"]} & {queue.name for queue in green["task_queues"]} == set()
    assert Keys("blue").pending("k") != Keys("green").pending("k")


def test_every_task_goes_to_its_own_queue() -> None:
    routes = celery_configuration(settings())["task_routes"]
    assert routes == {str(task): {"queue": task.queue("sexton")} for task in TaskName}
