"""The threads of a watcher: one that ends takes the process with it, one that is stuck is reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from eno.errors import Forbidden, Retryable
from kube.cluster import Query
from kube.reflector import Stats, Stop
from kube.resources import COMPOSITIONS, SECRETS
from runtime.dispatch import Dispatched, Enqueued
from runtime.messages import Message, TaskName
from runtime.settings import Settings
from tests.unit.watcher.factories import SCOPE, composition
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import CacheSink, Follower
from watcher.keys import Kind
from watcher.process import LOOP_SECONDS, STREAM_SECONDS, Watcher, queries

DEADLINE = 10.0
SYNCED = Stats(synced=True)


class ScriptedStream:
    """A stream that does what the test says and nothing else."""

    def __init__(self, stats: Stats = SYNCED) -> None:
        self.query = Query(COMPOSITIONS)
        self.stats = stats
        self.end = threading.Event()
        self.failure: BaseException | None = None

    def run(self, stop: Stop) -> None:
        while not (self.end.is_set() or stop.wait(0.01)):
            continue
        if self.failure is not None:
            raise self.failure


class Recorder:
    """A queue that takes everything, or fails with a defect."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.arrived = threading.Event()
        self.defect: BaseException | None = None

    def enqueue(self, message: Message) -> Dispatched:
        self.arrived.set()
        if self.defect is not None:
            raise self.defect
        self.sent.append(message)
        return Enqueued()

    def unpark(self, key: str) -> bool:
        raise AssertionError(key)


class World:
    def __init__(self, *streams: ScriptedStream) -> None:
        self.seconds = 0.0
        self.queue = Recorder()
        self.streams = streams or (ScriptedStream(),)
        cache, agenda = Cache(), Agenda()
        self.sink = CacheSink(Kind.COMPOSITION, SCOPE, cache, agenda)
        follower = Follower(
            SCOPE, cache, agenda, self.queue, clock=lambda: datetime.now(UTC), resync=timedelta(hours=1)
        )
        self.watcher = Watcher(self.streams, cache, follower, clock=lambda: self.seconds)


@contextmanager
def running(world: World) -> Iterator[Watcher]:
    world.watcher.start()
    try:
        yield world.watcher
    finally:
        world.watcher.stop(disconnect=lambda: None)


def eventually(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("did not come true in time")


def died(watcher: Watcher) -> bool:
    try:
        watcher.check()
    except Retryable:
        return True
    return False


def test_a_change_is_enqueued_by_the_running_threads() -> None:
    world = World()
    with running(world) as watcher:
        world.sink.changed(composition())
        eventually(lambda: any(message.task is TaskName.RECOVER for message in world.queue.sent))
        watcher.check()


def test_nothing_is_dispatched_before_every_cache_is_synced() -> None:
    late = ScriptedStream(Stats())
    world = World(ScriptedStream(), late)
    world.sink.changed(composition())
    with running(world):
        assert not world.queue.arrived.wait(0.3)
        late.stats = SYNCED
        assert world.queue.arrived.wait(DEADLINE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("failure", [None, ValueError("a defect")], ids=["returned", "raised"])
def test_a_stream_that_ends_takes_the_process_with_it(failure: BaseException | None) -> None:
    world = World()
    world.streams[0].failure = failure
    with running(world) as watcher:
        watcher.check()
        world.streams[0].end.set()
        eventually(lambda: died(watcher))
        with pytest.raises(Retryable, match="thread 'follow compositions': ended unexpectedly") as caught:
            watcher.check()
        assert caught.value.__cause__ is failure
        assert watcher.stuck() == ["thread 'follow compositions' ended"]


def test_a_defect_in_the_dispatch_loop_takes_the_process_with_it() -> None:
    world = World()
    world.queue.defect = ValueError("a defect")
    world.sink.changed(composition())
    with running(world) as watcher:
        eventually(lambda: died(watcher))
        with pytest.raises(Retryable, match="'dispatch'"):
            watcher.check()


def test_threads_that_are_told_to_end_end_without_complaint() -> None:
    world = World()
    with running(world) as watcher:
        eventually(lambda: not watcher.stuck())
    watcher.check()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("follow", "dispatch"))]


def test_stopping_drops_the_connections_that_threads_may_be_reading_from() -> None:
    world = World()
    dropped = threading.Event()
    world.watcher.start()
    world.watcher.stop(disconnect=dropped.set)
    assert dropped.is_set()


def test_a_loop_that_does_not_come_round_is_stuck() -> None:
    world = World()
    world.seconds = LOOP_SECONDS
    assert world.watcher.stuck() == []
    world.seconds = LOOP_SECONDS + 1
    assert world.watcher.stuck() == ["dispatch: nothing for 61 s"]


def test_a_stream_to_which_nothing_happens_is_stuck_until_something_does() -> None:
    world = World()
    world.seconds = STREAM_SECONDS + 1
    assert "stream of compositions.eno.azure.io: nothing for 901 s" in world.watcher.stuck()
    world.streams[0].stats = Stats(synced=True, errors=1)
    assert not [defect for defect in world.watcher.stuck() if defect.startswith("stream")]


def test_readiness_names_what_a_stream_waits_for() -> None:
    refused = Forbidden("list compositions.eno.azure.io", status=403, reason="Forbidden")
    world = World(ScriptedStream(), ScriptedStream(Stats()), ScriptedStream(Stats(last_error=refused)))
    assert world.watcher.unsynced() == [
        "stream of compositions.eno.azure.io: not listed yet",
        "stream of compositions.eno.azure.io: list compositions.eno.azure.io: 403 Forbidden",
    ]


def test_selectors_are_pushed_to_the_server_and_slices_come_as_metadata() -> None:
    settings = Settings.load(composition_namespace="prod", composition_label_selector="team=a")
    found = queries(settings.scope)
    assert (found[Kind.COMPOSITION].namespace, found[Kind.COMPOSITION].label_selector) == ("prod", "team=a")
    assert (found[Kind.SLICE].namespace, found[Kind.SLICE].label_selector) == ("prod", "")
    assert [query.metadata_only for query in found.values()] == [False, True]


def test_all_namespaces_are_followed_only_when_asked_for() -> None:
    settings = Settings.load(all_namespaces=True, pod_namespace="prod")
    assert {query.namespace for query in queries(settings.scope).values()} == {None}
    found = queries(SCOPE)
    assert {found[kind].namespace for kind in (Kind.COMPOSITION, Kind.SLICE)} == {"prod"}


def test_inventories_are_followed_as_metadata_and_only_where_history_is_recovered() -> None:
    query = queries(SCOPE)[Kind.INVENTORY]
    assert (query.resource, query.namespace, query.metadata_only) == (SECRETS, "kube-system", True)
    assert (query.label_selector, query.field_selector) == ("eno.azure.io/inventory-lineage", "type=Opaque")
    assert Kind.INVENTORY not in queries(SCOPE.model_copy(update={"recovery_enabled": False}))
