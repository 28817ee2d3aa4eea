"""The loop from events to tasks, on a virtual clock and with a scripted Redis."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from eno.errors import BrokerUnavailable, Retryable
from eno.times import format_time
from kube.cluster import Json
from runtime.dispatch import Dispatched, Enqueued, NotBefore, Parked, Pending, Running
from runtime.messages import Message, TaskName
from tests.unit.watcher.factories import NOW, SCOPE, composition, decision, resource_slice, synthesis
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import BATCH, LONGEST_PAUSE_SECONDS, CacheSink, Follower
from watcher.keys import Kind

RESYNC = timedelta(seconds=30)
DECIDED = composition(version=2, current=synthesis(tombstoneRecoveryStatus=decision()))
READY = composition(
    version=2,
    current=synthesis(tombstoneRecoveryStatus=decision(), ready=format_time(NOW), reconciled=format_time(NOW)),
)
OPTED_OUT = composition(version=2, opt_in=None)


@dataclass
class ScriptedQueue:
    """Answers with what the test sets, by default as a Redis whose worker never takes a message.

    Messages of other tasks than those given are taken at once and not counted.
    """

    tasks: Collection[TaskName] = (TaskName.RECOVER,)
    answer: Dispatched | None = None
    down: bool = False
    held_back: set[str] = field(default_factory=set)
    sent: list[Message] = field(default_factory=list)
    asked: int = 0

    def enqueue_all(self, messages: Sequence[Message]) -> list[Dispatched]:
        if self.down:
            raise BrokerUnavailable("not available", where="Redis 127.0.0.1:6379/0")
        return [self._enqueue(message) for message in messages]

    def _enqueue(self, message: Message) -> Dispatched:
        if message.task not in self.tasks:
            return Enqueued()
        self.asked += 1
        if self.answer is not None:
            return self.answer
        if message in self.sent:
            return Pending()
        self.sent.append(message)
        return Enqueued()

    def unpark(self, key: str) -> bool:
        if key not in self.held_back:
            return False
        self.held_back.discard(key)
        self.answer = None
        return True


class Leading:
    """A leader, until `lost` says otherwise, or it was asked `lost_after` times."""

    def __init__(self) -> None:
        self.lost = False
        self.lost_after: int | None = None
        self.asked = 0

    def require(self) -> None:
        self.asked += 1
        if self.lost or (self.lost_after is not None and self.asked > self.lost_after):
            raise Retryable("no longer leading")


class World:
    """A watcher's insides with the clock and the streams in the test's hands."""

    def __init__(self) -> None:
        self.now = NOW
        self.queue = ScriptedQueue()
        self.leading = Leading()
        self.restart()

    def restart(self) -> None:
        """A new process: nothing is left but Redis."""
        self.cache, self.agenda = Cache(), Agenda()
        self.compositions = CacheSink(Kind.COMPOSITION, SCOPE, self.cache, self.agenda)
        self.slices = CacheSink(Kind.SLICE, SCOPE, self.cache, self.agenda)
        self.follower = Follower(
            SCOPE, self.cache, self.agenda, self.queue, self.leading, clock=lambda: self.now, resync=RESYNC
        )

    def list_compositions(self, *objects: Json) -> None:
        self.compositions.replace([self.compositions.record(obj) for obj in objects], "1")

    def list_slices(self, *objects: Json) -> None:
        self.slices.replace([self.slices.record(obj) for obj in objects], "1")

    def settle(self) -> int:
        """Look at everything that is due now. Returns how often Redis was asked."""
        asked = self.queue.asked
        while self.follower.step() is not None:
            pass
        return self.queue.asked - asked

    def advance(self, delta: timedelta) -> int:
        self.now += delta
        return self.settle()


@pytest.fixture
def world() -> World:
    return World()


def test_a_composition_that_needs_recovery_is_enqueued_once(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    assert [message.log_context()["composition"] for message in world.queue.sent] == ["prod/web"]


def test_a_thousand_events_between_two_looks_ask_redis_once(world: World) -> None:
    for version in range(1000):
        world.compositions.changed(composition(version=version))
    assert world.settle() == 1


def test_a_slice_event_looks_at_the_undecided_owner(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    world.slices.changed(resource_slice())
    assert world.settle() == 1


def test_what_is_unfinished_is_looked_at_again_every_resync_and_not_in_between(world: World) -> None:
    world.list_compositions(composition())
    assert world.settle() == 1
    assert world.advance(RESYNC - timedelta(seconds=1)) == 0
    assert world.advance(timedelta(seconds=1)) == 1
    assert world.advance(RESYNC) == 1


def test_a_flushed_redis_gets_its_message_again_within_one_resync(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    world.queue.sent.clear()
    world.advance(RESYNC)
    assert len(world.queue.sent) == 1


@pytest.mark.parametrize("converged", [READY, OPTED_OUT], ids=["ready", "opted out"])
def test_a_converged_cluster_asks_redis_nothing(world: World, converged: Json) -> None:
    world.queue.tasks = set(TaskName) - {TaskName.RECORD}
    world.list_slices(resource_slice())
    world.list_compositions(converged)
    for _ in range(100):
        world.slices.changed(resource_slice())
        world.compositions.changed(converged)
        assert world.advance(RESYNC) == 0
    world.list_slices(resource_slice())
    world.list_compositions(converged)
    assert world.settle() == 0, "neither does a relist"


def test_a_change_of_a_slice_gates_its_converged_composition_once(world: World) -> None:
    world.queue.tasks = {TaskName.GATE}
    world.list_slices(resource_slice())
    world.list_compositions(READY)
    assert world.settle() == 0
    for version in range(2, 10):
        world.slices.changed(resource_slice(version=version))
    world.compositions.changed(composition(version=3, current=READY["status"]["currentSynthesis"]))
    assert world.settle() == 1
    assert world.advance(10 * RESYNC) == 0
    world.compositions.changed(composition(version=4, current=READY["status"]["currentSynthesis"]))
    assert world.settle() == 0, "a change of the composition alone does not"
    world.list_slices(resource_slice(version=10))
    assert world.settle() == 1, "also one that only a relist shows"


def test_a_change_of_a_slice_is_not_forgotten_in_an_outage_of_redis(world: World) -> None:
    world.queue.tasks = {TaskName.GATE}
    world.list_slices(resource_slice())
    world.list_compositions(READY)
    world.settle()
    world.slices.changed(resource_slice(version=2))
    world.queue.down = True
    world.follower.step()
    world.queue.down = False
    assert world.settle() == 1


def test_a_young_slice_is_taken_up_where_it_stands_by_the_next_process(world: World) -> None:
    world.queue.tasks = {TaskName.CLEANUP}
    created = format_time(NOW - timedelta(seconds=2))
    for _ in range(2):
        world.restart()
        world.list_compositions(READY)
        world.list_slices(resource_slice(), resource_slice("s-2", creationTimestamp=created))
        assert world.settle() == 0
    assert world.advance(timedelta(seconds=3)) == 0
    assert world.advance(timedelta.resolution) == 1
    world.restart()
    world.queue.sent.clear()
    world.list_compositions(READY)
    world.list_slices(resource_slice(), resource_slice("s-2", creationTimestamp=created))
    assert world.settle() == 1, "a wait that ended while nothing ran is acted on at once"


def test_a_slice_that_no_composition_controls_is_reported_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.list_slices(resource_slice("s-1", owner=None, owner_uid=""))
    for _ in range(10):
        world.advance(RESYNC)
    assert [record.getMessage() for record in caplog.records] == ["no composition controls ResourceSlice prod/s-1"]


@pytest.mark.parametrize("after", [DECIDED, OPTED_OUT], ids=["decided", "opted out"])
def test_what_finishes_is_no_longer_looked_at(world: World, after: Json) -> None:
    world.list_compositions(composition())
    world.settle()
    world.compositions.changed(after)
    assert world.settle() == 0
    assert world.advance(10 * RESYNC) == 0


def test_what_is_deleted_is_no_longer_looked_at(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    world.compositions.deleted(composition())
    assert world.advance(10 * RESYNC) == 0


def test_opted_out_and_in_again_is_handled_from_the_live_state(world: World) -> None:
    world.list_compositions(OPTED_OUT)
    assert world.settle() == 0
    world.compositions.changed(composition(version=3))
    assert world.settle() == 1


def test_a_restart_asks_for_everything_unfinished_again(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    world.restart()
    world.list_compositions(composition())
    assert world.settle() == 1
    assert len(world.queue.sent) == 1


def test_a_relist_without_news_asks_redis_nothing(world: World) -> None:
    world.list_compositions(composition())
    world.settle()
    world.list_compositions(composition())
    assert world.settle() == 0


def test_a_missed_event_is_made_up_for_by_the_relist(world: World) -> None:
    world.list_compositions(OPTED_OUT)
    world.settle()
    world.list_compositions(composition(version=3))
    assert world.settle() == 1


def test_a_pause_that_redis_names_is_kept_to(world: World) -> None:
    world.queue.answer = NotBefore(NOW + timedelta(seconds=10))
    world.list_compositions(composition())
    world.settle()
    world.queue.answer = None
    assert world.advance(timedelta(seconds=9)) == 0
    assert world.advance(timedelta(seconds=1)) == 1
    assert len(world.queue.sent) == 1


@pytest.mark.parametrize("kind", [NotBefore, Parked])
def test_a_pause_longer_than_a_resync_is_asked_for_again_since_redis_may_forget_it(
    world: World, kind: type[NotBefore | Parked]
) -> None:
    world.queue.tasks = {TaskName.RECOVER, TaskName.GATE}
    world.queue.answer = kind(NOW + timedelta(minutes=15))
    world.list_slices(resource_slice())
    world.list_compositions(composition())
    world.settle()
    world.queue.answer = None
    assert world.advance(RESYNC) == 2
    assert len(world.queue.sent) == 2


UNTIL = NOW + timedelta(minutes=15)


@pytest.mark.parametrize("answer", [Parked(UNTIL), NotBefore(UNTIL)], ids=["parked", "waiting"])
def test_a_change_of_the_object_ends_parking_and_waiting(world: World, answer: Dispatched) -> None:
    world.queue.answer = answer
    world.queue.held_back = {"recover:uid-1:synthesis-1"}
    world.list_compositions(composition())
    world.settle()
    assert world.queue.sent == []

    world.compositions.changed(composition(version=2))
    world.settle()
    assert len(world.queue.sent) == 1


def test_a_change_during_an_outage_of_redis_ends_parking_all_the_same(world: World) -> None:
    world.queue.answer = Parked(UNTIL)
    world.queue.held_back = {"recover:uid-1:synthesis-1"}
    world.list_compositions(composition())
    world.settle()
    world.queue.down = True
    world.compositions.changed(composition(version=2))
    world.follower.step()
    world.queue.down = False
    world.settle()
    assert len(world.queue.sent) == 1


def test_a_change_that_only_a_relist_shows_ends_parking_too(world: World) -> None:
    world.queue.answer = Parked(UNTIL)
    world.queue.held_back = {"recover:uid-1:synthesis-1"}
    world.list_compositions(composition())
    world.settle()
    world.list_compositions(composition(version=2))
    world.settle()
    assert len(world.queue.sent) == 1


def test_neither_a_restart_nor_a_timer_ends_parking(world: World) -> None:
    world.queue.answer = Parked(NOW + timedelta(minutes=15))
    world.queue.held_back = {"recover:uid-1:synthesis-1"}
    world.list_compositions(composition())
    world.settle()
    world.advance(RESYNC)
    world.restart()
    world.list_compositions(composition())
    world.settle()
    assert world.queue.sent == []


def test_an_outage_of_redis_loses_nothing_and_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.queue.down = True
    world.list_compositions(composition("a", uid="a"), composition("b", uid="b"))
    with caplog.at_level(logging.INFO):
        pauses = [world.follower.step() for _ in range(10)]
        world.compositions.changed(composition("c", uid="c"))
        world.queue.down = False
        world.settle()

    assert all(pause is not None and 0 < pause <= LONGEST_PAUSE_SECONDS for pause in pauses)
    assert sorted(message.log_context()["uid"] for message in world.queue.sent) == ["a", "b", "c"]
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert [action for action in actions if action.startswith("broker")] == ["broker-lost", "broker-found"]


def test_pauses_during_an_outage_grow_up_to_a_limit(world: World) -> None:
    world.queue.down = True
    world.list_compositions(composition())
    pauses = [world.follower.step() for _ in range(8)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_objects_that_call_for_nothing_are_looked_at_during_an_outage(world: World) -> None:
    world.queue.down = True
    world.list_compositions(composition("a"), composition("b", opt_in=None))
    assert world.follower.step() == 0.5
    assert [look.key.name for look in iter(lambda: world.agenda.take(world.now), None)] == ["a"]


def test_a_thousand_objects_ask_redis_ten_times(world: World) -> None:
    world.list_compositions(*(composition(f"web-{number}", uid=f"uid-{number}") for number in range(10 * BATCH)))
    steps = 0
    while world.follower.step() is not None:
        steps += 1
    assert steps == 10
    assert len({message.key for message in world.queue.sent}) == 10 * BATCH


def test_an_object_that_no_message_can_carry_stops_nobody_else(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.list_compositions(composition("a", uid="a", current=synthesis(uuid="x:y")), composition("b", uid="b"))
    world.settle()
    assert [message.log_context()["uid"] for message in world.queue.sent] == ["b"]
    assert {getattr(record, "action", "") for record in caplog.records} == {"object-left-alone"}


def test_a_slice_with_an_owner_that_no_message_can_carry_blocks_nothing_else(world: World) -> None:
    world.list_compositions(composition())
    world.list_slices(resource_slice(), resource_slice("hostile", owner="web", owner_uid="not a uid!"))
    world.settle()
    assert TaskName.RECOVER in {message.task for message in world.queue.sent}


def test_a_malformed_object_stops_nobody_else(world: World) -> None:
    world.list_compositions({"metadata": {"name": "broken", "labels": 7}}, composition())
    world.compositions.changed({})
    world.compositions.deleted({"metadata": None})
    world.settle()
    assert len(world.queue.sent) == 1


@pytest.mark.parametrize("answer", [NotBefore(NOW + timedelta(seconds=10)), Running()], ids=["held back", "running"])
def test_a_changed_slice_of_a_settled_composition_is_remembered_while_its_gate_cannot_be_sent(
    world: World, answer: Dispatched
) -> None:
    world.queue.tasks = {TaskName.GATE}
    world.list_compositions(READY)
    world.list_slices(resource_slice())
    world.settle()
    assert world.queue.sent == []
    world.queue.answer = answer
    world.slices.changed(resource_slice(version=2))
    world.settle()
    world.queue.answer = None
    world.advance(RESYNC)
    assert [message.task for message in world.queue.sent] == [TaskName.GATE]
    assert world.advance(timedelta(minutes=20)) == 0, "and then it is forgotten"


def test_whoever_does_not_lead_enqueues_nothing_not_even_half_of_a_step(world: World) -> None:
    world.list_compositions(composition())
    world.leading.lost = True
    with pytest.raises(Retryable, match="no longer leading"):
        world.follower.step()
    assert world.queue.asked == 0


def test_a_leader_that_lost_while_redis_answered_enqueues_nothing_more(world: World) -> None:
    world.queue.answer = Parked(UNTIL)
    world.queue.held_back = {"recover:uid-1:synthesis-1"}
    world.list_compositions(composition())
    world.settle()
    world.compositions.changed(composition(version=2))
    world.leading.lost_after = world.leading.asked + 1
    with pytest.raises(Retryable):
        world.settle()
    assert world.queue.sent == []


def test_what_calls_for_nothing_is_looked_at_without_asking_who_leads(world: World) -> None:
    world.list_compositions(OPTED_OUT)
    world.settle()
    assert world.leading.asked == 0


def test_what_was_done_is_counted(world: World) -> None:
    world.list_compositions(composition("a", uid="a"), composition("b", uid="b"))
    world.queue.down = True
    world.follower.step()
    world.queue.down = False
    world.settle()
    tally = world.follower.tally
    assert (tally.enqueued[TaskName.RECOVER], tally.broker_errors, tally.looks) == (2, 1, 4)
