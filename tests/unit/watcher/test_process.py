"""The threads of a watcher: one that ends takes the process with it, one that is stuck is reported."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from eno.errors import ApiError, Forbidden, Retryable, SextonError, Throttled, Unreachable
from kube.cluster import Cluster, Page, Query, WatchEvent
from kube.election import JITTER, LONGEST_DURATION, LONGEST_PAUSE, Timing
from kube.reflector import Stats, Stop
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS, Resource
from runtime.dispatch import Dispatched, Enqueued
from runtime.messages import Message, TaskName
from runtime.settings import LEASE_SPREAD, Settings
from tests.unit.watcher.factories import SCOPE, composition
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import CacheSink, Follower
from watcher.keys import Kind
from watcher.process import LEASE_SECONDS, LOOP_SECONDS, STREAM_SECONDS, Watcher, assemble, queries

DEADLINE = 10.0
SYNCED = Stats(synced=True)
FOLLOWED = Query(COMPOSITIONS)


class ScriptedStream:
    """A stream that does what the test says and nothing else."""

    def __init__(self, stats: Stats = SYNCED, query: Query = FOLLOWED) -> None:
        self.query = query
        self.stats = stats
        self.end = threading.Event()
        self.failure: BaseException | None = None

    def run(self, stop: Stop) -> None:
        while not (self.end.is_set() or stop.wait(0.01)):
            continue
        if self.failure is not None:
            raise self.failure


class ScriptedCandidate:
    """A leader from the start, unless the test says otherwise."""

    title = "lease prod/a"

    def __init__(self) -> None:
        self.leads = True
        self.answered = True
        self.obstacle: ApiError | None = None
        self.failure: BaseException | None = None
        self.beat = True
        self.end = threading.Event()
        self.released = threading.Event()

    def require(self) -> None:
        if not self.leads:
            raise Retryable("no longer leading", where=self.title)

    def run(self, stop: Stop, beat: Callable[[], None]) -> None:
        while not (self.end.is_set() or stop.wait(0.01)):
            beat()
        if self.failure is not None:
            raise self.failure

    def release(self) -> None:
        self.released.set()


class Recorder:
    """A queue that takes everything, or fails with a defect."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.arrived = threading.Event()
        self.defect: BaseException | None = None
        self.hangs: threading.Event | None = None

    def enqueue_all(self, messages: Sequence[Message]) -> list[Dispatched]:
        self.arrived.set()
        if self.hangs is not None:
            self.hangs.wait(DEADLINE)
        if self.defect is not None:
            raise self.defect
        self.sent.extend(messages)
        return [Enqueued()] * len(messages)

    def unpark(self, key: str) -> bool:
        raise AssertionError(key)


class World:
    def __init__(self, *streams: ScriptedStream) -> None:
        self.seconds = 0.0
        self.candidate = ScriptedCandidate()
        self.examined: list[ApiError] = []
        self.queue = Recorder()
        self.streams = streams or (ScriptedStream(),)
        cache, agenda = Cache(), Agenda()
        self.agenda = agenda
        self.sink = CacheSink(Kind.COMPOSITION, SCOPE, cache, agenda)
        follower = Follower(
            SCOPE, cache, agenda, self.queue, self.candidate, clock=lambda: datetime.now(UTC), resync=timedelta(hours=1)
        )
        self.watcher = Watcher(
            self.streams, cache, follower, self.candidate, examine=self.examine, clock=lambda: self.seconds
        )

    def examine(self, query: Query, error: ApiError) -> None:
        assert query is self.streams[0].query
        self.examined.append(error)
        if isinstance(error, Forbidden):
            raise error


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
    except SextonError:
        return True
    return False


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "action", "") for record in caplog.records]


def test_a_change_is_enqueued_by_the_running_threads() -> None:
    world = World()
    with running(world) as watcher:
        world.sink.changed(composition())
        eventually(lambda: any(message.task is TaskName.RECOVER for message in world.queue.sent))
        watcher.check()


def test_nothing_is_dispatched_before_compositions_and_slices_are_listed() -> None:
    late = ScriptedStream(Stats())
    world = World(ScriptedStream(), late)
    world.sink.changed(composition())
    with running(world):
        assert not world.queue.arrived.wait(0.3)
        late.stats = SYNCED
        assert world.queue.arrived.wait(DEADLINE)


def test_an_outage_downstream_delays_only_what_needs_inventories(caplog: pytest.LogCaptureFixture) -> None:
    late = ScriptedStream(Stats(), Query(SECRETS))
    world = World(ScriptedStream(), late)
    world.sink.changed(composition())
    with caplog.at_level(logging.INFO), running(world) as watcher:
        eventually(lambda: any(message.task is TaskName.GATE for message in world.queue.sent))
        assert watcher.unsynced() == ["stream of secrets: not listed yet"]
        assert "caches-synced" not in actions(caplog)
        late.stats = SYNCED
        eventually(lambda: "caches-synced" in actions(caplog))
        assert watcher.unsynced() == []


def test_whoever_stands_by_enqueues_nothing_until_it_leads_and_then_everything() -> None:
    world = World()
    world.candidate.leads = False
    world.sink.replace([world.sink.record(composition(name, uid=name)) for name in ("a", "b")], "1")
    with running(world) as watcher:
        assert not world.queue.arrived.wait(0.3)
        assert watcher.unsynced() == []
        world.candidate.leads = True
        eventually(lambda: {message.log_context()["uid"] for message in world.queue.sent} == {"a", "b"})


def test_taking_over_looks_at_what_had_been_looked_at_before() -> None:
    world = World()
    world.sink.replace([world.sink.record(composition())], "1")
    while world.watcher.follower.step() is not None:
        pass
    world.queue.sent.clear()
    with running(world):
        eventually(lambda: any(message.task is TaskName.RECOVER for message in world.queue.sent))


def test_a_leader_that_lost_ends_although_nothing_is_due() -> None:
    world = World()
    with running(world) as watcher:
        eventually(lambda: watcher._leading)
        world.candidate.leads = False
        eventually(lambda: died(watcher))
        with pytest.raises(Retryable, match="lease prod/a: no longer leading"):
            watcher.check()
    assert not world.queue.sent


def test_what_the_lease_ends_with_is_what_the_process_ends_with(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.candidate.failure = Forbidden("get leases", status=403)
    world.candidate.end.set()
    with running(world) as watcher:
        eventually(lambda: bool(watcher.stuck()))
        with pytest.raises(Forbidden) as caught:
            watcher.check()
    assert caught.value is world.candidate.failure
    assert "thread-failed" not in actions(caplog), "it is said in one line"


def test_the_lease_is_released_once_nothing_is_dispatched_any_more() -> None:
    world = World()
    connected: list[bool] = []
    world.watcher.start()
    world.watcher.stop(disconnect=lambda: connected.append(world.candidate.released.is_set()))
    assert connected == [True], "and before the connections are dropped"


def test_the_lease_is_not_released_while_a_thread_hangs_that_might_still_enqueue() -> None:
    world = World()
    goes_on = threading.Event()
    world.queue.hangs = goes_on
    world.sink.changed(composition())
    world.watcher.start()
    assert world.queue.arrived.wait(DEADLINE)
    world.watcher.stop(disconnect=lambda: None)
    assert not world.candidate.released.is_set()
    goes_on.set()


def test_what_stands_in_the_way_of_a_first_list_is_examined_once() -> None:
    away, refused = Unreachable("list compositions"), Forbidden("list compositions", status=403)
    world = World(ScriptedStream(Stats(last_error=away)))
    for _ in range(3):
        world.watcher._turn()
    assert world.examined == [away]
    with running(world) as watcher:
        watcher.check()
        world.streams[0].stats = Stats(last_error=refused)
        eventually(lambda: died(watcher))
        assert world.examined == [away, refused]
        with pytest.raises(Forbidden):
            watcher.check()


def test_what_goes_wrong_after_the_first_list_is_waited_for() -> None:
    world = World(ScriptedStream(Stats(synced=True, last_error=Forbidden("list compositions", status=403))))
    world.sink.changed(composition())
    with running(world) as watcher:
        assert world.queue.arrived.wait(DEADLINE)
        watcher.check()
        assert world.examined == []


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


def test_a_pause_that_the_server_asked_for_is_no_lack_of_progress() -> None:
    world = World(ScriptedStream(Stats(last_error=Throttled("list", status=429, retry_after=3600))))
    world.seconds = STREAM_SECONDS + 3600
    assert not [defect for defect in world.watcher.stuck() if defect.startswith("stream")]
    world.seconds += 1
    assert "stream of compositions.eno.azure.io: nothing for 4501 s" in world.watcher.stuck()


def test_a_lease_that_nobody_looks_at_is_stuck() -> None:
    world = World()
    world.seconds = LEASE_SECONDS + 1
    assert "lease: nothing for 901 s" in world.watcher.stuck()
    with running(world) as watcher:
        eventually(lambda: not [defect for defect in watcher.stuck() if defect.startswith("lease")])


def test_a_watcher_that_does_not_know_who_leads_is_not_ready() -> None:
    world = World()
    world.candidate.answered = False
    assert world.watcher.unsynced() == ["lease prod/a: not read yet"]
    world.candidate.obstacle = Unreachable("get leases")
    assert world.watcher.unsynced() == ["lease prod/a: get leases: failed"]


def test_any_lease_times_that_the_settings_take_are_taken_by_the_election() -> None:
    for times in ({}, {"lease_duration": 600, "lease_renew_deadline": 599, "lease_retry_period": 499}):
        settings = Settings.load(**times)
        Timing(settings.lease_duration, settings.lease_renew_deadline, settings.lease_retry_period)
    assert LEASE_SPREAD == 1 + JITTER
    assert LEASE_SECONDS > LONGEST_DURATION + LONGEST_PAUSE * LEASE_SPREAD


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


class Empty:
    """An API server that has nothing. It notes what is listed, and for how long the one watch may be silent."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.listed: list[Resource] = []
        self.seconds: list[int] = []

    def list_page(self, query: Query, **_: object) -> Page:
        self.listed.append(query.resource)
        return Page([], "1")

    def watch(self, _: Query, *, timeout_seconds: int, **__: object) -> Iterator[WatchEvent]:
        self.seconds.append(timeout_seconds)
        self.stop.set()
        return iter(())


def test_inventories_are_followed_downstream_and_silence_is_noticed_within_a_resync() -> None:
    settings = Settings.load(pod_namespace="prod", enable_tombstone_recovery=True, resync_seconds=30)
    stop = threading.Event()
    up, down = Empty(stop), Empty(stop)
    clusters = [cast("Cluster", each) for each in (up, down)]
    for stream in assemble(settings, settings.scope, *clusters, Recorder(), ScriptedCandidate()).streams:
        stop.clear()
        stream.run(stop)
    assert (up.listed, down.listed) == ([COMPOSITIONS, RESOURCE_SLICES], [SECRETS])
    assert set(up.seconds + down.seconds) == {15}


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
