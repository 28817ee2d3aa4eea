"""Streams that fail in every way, between a watcher process and an API server: nothing is missed, nothing is stormed.

Each fault has a watcher, a namespace and a proxy of its own. All of them happen at once, so that they take as long
as the slowest: a stream that goes silent, which is noticed just within one resync.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest
import redis

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.server import Server
from devcluster.store import Store
from eno.objects import OPT_IN_ANNOTATION
from kube.config import Connection, load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.reflector import RELIST_GAP
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from runtime.redis_server import RedisServer
from tests.support.assets import HINT, find_assets
from tests.support.factories import composition_json, decided, entry, inventory, slice_json, synthesis
from tests.support.faults import (
    Ahead,
    Answer,
    Cut,
    Drop,
    End,
    Fault,
    Insert,
    Paged,
    Silence,
    Split,
    Stale,
    Truncate,
    expired,
    expired_in_stream,
    throttled,
    throttled_until,
    unavailable,
)
from tests.support.installing import install
from tests.support.proxy import Match, Proxy, Rule, Seen, request
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.watching import Running, probe, running

RESYNC = 30
"""Seconds: the default of a watcher."""

UNHURRIED = RateLimits(100_000, 100_000, 100_000)

PATIENCE = 120.0
"""Seconds that a machine of any speed may take to start a dozen processes at once."""

FOLLOWED = r"/(compositions|resourceslices|secrets)$"
STREAMS = 3

READS = request("GET", FOLLOWED)
WATCHES = request("GET", FOLLOWED, watch=True)
SNOWMAN = "größe-☃"


def lists(seen: Seen) -> bool:
    """A page of a list, and not the question for the server's version."""
    return READS(seen) and seen.query.get("limit", "1") != "1"


def later_pages(seen: Seen) -> bool:
    return READS(seen) and "continue" in seen.query


@dataclass
class Stage:
    """A watcher that follows one namespace through a proxy."""

    namespace: str
    cluster: HttpCluster
    queue: redis.Redis
    proxy: Proxy
    watcher: Running
    unanswered: list[Seen] = field(default_factory=list)
    healed_at: float = 0.0
    handled_at: float = field(default=0.0, init=False)

    def met(self, rule: Rule, times: int = 1, streams: int = STREAMS) -> None:
        """Wait until the fault has happened so often to each stream."""

        def happened() -> bool:
            count = Counter(seen.path for seen in list(rule.played))
            return len([path for path in count if count[path] >= times]) >= streams

        until(happened, "the fault has happened", seconds=PATIENCE)

    def begin(self, match: Match, fault: Fault) -> Rule:
        """Let the fault happen to every stream from now on."""
        rule = self.proxy.rule(match, fault)
        self.proxy.end_streams()
        return rule

    def heal(self) -> None:
        self.proxy.heal()
        self.healed_at = time.monotonic()

    def change(self) -> None:
        """One addition, one modification and one deletion, each of which calls for a task."""
        create(self.cluster, composition(self.namespace, "added"))
        patch = {"metadata": {"annotations": {OPT_IN_ANNOTATION: "true", "note": SNOWMAN}}}
        self.cluster.merge_patch(COMPOSITIONS, self.namespace, "opted-in", patch)
        self.cluster.delete(COMPOSITIONS, self.namespace, "deleted")

    def await_tasks(self) -> None:
        """Wait until all three changes are in the queue."""
        until(self._handled, "a task for each change", seconds=PATIENCE)
        self.handled_at = time.monotonic()

    def _handled(self) -> bool:
        bodies = self.queue.lrange(f"{self.namespace}.recover", 0, -1)
        recovered = {json.loads(base64.b64decode(json.loads(body)["body"]))[1]["name"] for body in bodies}
        return recovered >= {"added", "opted-in"} and self.queue.llen(f"{self.namespace}.retire") > 0


def composition(namespace: str, name: str, **fields: object) -> dict[str, object]:
    return composition_json(name, namespace=namespace, uid=None, **{"current": synthesis(f"of-{name}"), **fields})


def create(cluster: HttpCluster, body: dict[str, object]) -> None:
    head = body["metadata"]
    cluster.create(COMPOSITIONS, head["namespace"], body)
    patch = {"status": body["status"]}
    cluster.merge_patch(COMPOSITIONS, head["namespace"], head["name"], patch, subresource="status")


Scenario: TypeAlias = Callable[[Stage], None]
"""Plays a fault from its begin to its end, with changes in the middle of it."""


def throughout(match: Match, fault: Callable[[], Fault], *, times: int = 1) -> Scenario:
    """Changes during a fault that happens to each stream at least so often."""

    def play(stage: Stage) -> None:
        rule = stage.begin(match, fault())
        if isinstance(rule.fault, Drop):
            stage.unanswered = rule.played
        stage.met(rule)
        stage.change()
        stage.met(rule, times)
        stage.heal()

    return play


def silence(stage: Stage) -> None:
    """New requests are fine at once. The silent connections stay, until the watcher gives up on them."""
    rule = stage.begin(WATCHES, Silence())
    stage.met(rule)
    stage.heal()
    stage.change()


def during_lists(match: Match, fault: Fault) -> Scenario:
    """Changes while lists, which old versions have made necessary, fail."""

    def play(stage: Stage) -> None:
        stage.proxy.rule(lists, Paged())
        rule = stage.proxy.rule(match, fault)
        stage.begin(WATCHES, expired_in_stream())
        stage.met(rule)
        stage.change()
        stage.met(rule, 3)
        stage.heal()

    return play


def stale_list(stage: Stage) -> None:
    """The list that an old version has made necessary is older than the changes."""
    rule = stage.proxy.rule(lists, Stale())
    stage.begin(WATCHES, expired_in_stream())
    stage.met(rule)
    stage.change()
    stage.met(rule, 3)
    stage.heal()


def rewind(stage: Stage) -> None:
    """Versions have been higher up to now."""
    stage.heal()
    stage.proxy.end_streams()
    stage.change()


def soon() -> Answer:
    return throttled_until(datetime.now(UTC) + timedelta(seconds=4))


NOVEL = {"type": "NOVEL", "object": {"note": SNOWMAN}}
SCENARIOS: dict[str, Scenario] = {
    "a stream that goes silent": silence,
    "410 as a status": throughout(WATCHES, expired, times=3),
    "410 inside a stream": throughout(WATCHES, expired_in_stream, times=3),
    "streams that end at once": throughout(WATCHES, End, times=3),
    "streams that break inside an event": throughout(WATCHES, lambda: Cut(half=b'{"type":"ADD'), times=3),
    "429 with seconds": throughout(READS, lambda: throttled(2), times=2),
    "429 with a date": throughout(READS, soon, times=2),
    "500": throughout(READS, unavailable, times=3),
    "no answers": throughout(READS, Drop, times=3),
    "UTF-8 split between all bytes": throughout(WATCHES, Split),
    "an unknown event": throughout(WATCHES, lambda: Insert(NOVEL, goes_on=True)),
    "a continue token that expires": during_lists(later_pages, expired()),
    "a list that is cut off": during_lists(lists, Truncate()),
    "a stale list": stale_list,
    "a rewound history": rewind,
}
ON_THE_REAL_ONE = (
    "410 inside a stream",
    "streams that break inside an event",
    "no answers",
    "UTF-8 split between all bytes",
    "a continue token that expires",
    "a stale list",
    "a rewound history",
)
"""Where it matters how a server goes on after the fault."""


@dataclass(frozen=True)
class Outcome:
    """What is left of a stage. `seconds` from the end of the fault until everything was enqueued.

    `seen` is what got an answer: on a connection that breaks before one comes, a read is sent again at once.
    """

    seconds: float
    seen: list[Seen]
    log: str
    alive: bool
    health: tuple[int, str]


@contextmanager
def stage(directory: Path, connection: Connection, broker: RedisServer, label: str, name: str) -> Iterator[Stage]:
    namespace = f"stream-{label}"
    with ExitStack() as stack:
        cluster = HttpCluster(connection, user_agent="test", limits=UNHURRIED)
        stack.enter_context(closing(cluster))
        prepare(cluster, namespace)
        stack.callback(forget, cluster, namespace)
        queue = stack.enter_context(closing(redis.Redis.from_url(broker.url)))
        proxy = stack.enter_context(Proxy(connection))
        if SCENARIOS[name] is rewind:
            proxy.rule(READS, Ahead(1_000_000))
        flags = ["--kubeconfig", str(proxy.kubeconfig(directory / namespace)), "--broker-url", broker.url]
        flags += ["--instance", namespace, "--pod-namespace", namespace, "--enable-tombstone-recovery"]
        flags += ["--resync-seconds", str(RESYNC), "--health-port", "0"]
        watcher = stack.enter_context(running(directory / f"{namespace}.log", "watcher", *flags))
        until(lambda: watcher.lines("caches-synced"), "the watcher is synced", seconds=PATIENCE)
        yield Stage(namespace, cluster, queue, proxy, watcher)


def prepare(cluster: HttpCluster, namespace: str) -> None:
    """What there is before the watcher, more than one of each kind, and nothing to be done."""
    cluster.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    create(cluster, composition(namespace, "opted-in", opted_in=False))
    finished = synthesis("u", tombstoneRecoveryStatus=decided("NotNeeded", "u"))
    create(cluster, composition(namespace, "deleted", synthesizer="claimed", current=finished))
    for index in range(2):
        body = slice_json(f"slice-{index}", namespace=namespace, owner=None, finalizers=[])
        del body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        cluster.create(RESOURCE_SLICES, namespace, body)
        (secret,) = inventory([entry()], name="deleted", namespace=namespace, synthesizer="claimed", uuid=f"s{index}")
        del secret["metadata"]["uid"], secret["metadata"]["resourceVersion"]
        cluster.create(SECRETS, "kube-system", secret)


def forget(cluster: HttpCluster, namespace: str) -> None:
    """The inventories would be in the way of others: they share one namespace."""
    for index in range(2):
        (secret,) = inventory([entry()], name="deleted", namespace=namespace, synthesizer="claimed", uuid=f"s{index}")
        cluster.delete(SECRETS, "kube-system", secret["metadata"]["name"])


def play(directory: Path, connection: Connection, broker: RedisServer, label: str, name: str) -> Outcome:
    with stage(directory, connection, broker, label, name) as played:
        SCENARIOS[name](played)
        played.await_tasks()
        port = played.watcher.lines("probes-started")[0]["port"]
        return Outcome(
            played.handled_at - played.healed_at,
            [seen for seen in played.proxy.seen if READS(seen) and seen not in played.unanswered],
            (directory / f"{played.namespace}.log").read_text(),
            played.watcher.process.poll() is None,
            probe(port, "healthz"),
        )


DEVCLUSTER, REAL = "devcluster", "kube-apiserver"
Outcomes: TypeAlias = dict[tuple[str, str], Future[Outcome]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """Everything on every server that there is, all at once: most of the time is spent waiting."""
    store = Store(seed="streams")
    load_definitions(store, [definitions.development_directory()])
    directory = tmp_path_factory.mktemp("streams")
    with running_redis(directory) as broker, Server(store).running() as server, ThreadPoolExecutor(32) as threads:
        # The slowest comes first.
        found = {
            (DEVCLUSTER, name): threads.submit(play, directory, Connection(server.url), broker, f"dev-{number}", name)
            for number, name in enumerate(SCENARIOS)
        }
        if find_assets(os.environ):
            connection = load_connection(str(request.getfixturevalue("apiserver").kubeconfig))
            with closing(HttpCluster(connection, user_agent="test", limits=UNHURRIED)) as cluster:
                install(cluster, "default")
            found |= {
                (REAL, name): threads.submit(play, directory, connection, broker, f"real-{number}", name)
                for number, name in enumerate(ON_THE_REAL_ONE)
            }
        yield found


def check(outcome: Outcome) -> None:
    assert outcome.seconds <= RESYNC
    assert outcome.alive
    assert outcome.health == (200, "ok\n")
    assert "Traceback" not in outcome.log
    starts = defaultdict(list)
    for seen in outcome.seen:
        if seen.first_page:
            starts[seen.path].append(seen.at)
    assert len(starts) == STREAMS
    gaps = [later - earlier for instants in starts.values() for earlier, later in pairwise(instants)]
    # Arrivals are less regular than departures.
    assert [gap for gap in gaps if gap < RELIST_GAP - 0.2] == []


CASES = [(DEVCLUSTER, name) for name in SCENARIOS] + [(REAL, name) for name in ON_THE_REAL_ONE]


@pytest.mark.parametrize(("server", "name"), CASES, ids=[f"{name}, {server}" for server, name in CASES])
def test_what_happens_during_a_fault_is_enqueued_within_a_resync_of_its_end(
    outcomes: Outcomes, server: str, name: str
) -> None:
    if (server, name) not in outcomes:
        pytest.skip(HINT)
    outcome = outcomes[server, name].result()
    assert outcome.seconds <= RESYNC
    assert outcome.alive
    assert outcome.health == (200, "ok\n")
    assert "Traceback" not in outcome.log
    starts = defaultdict(list)
    for seen in outcome.seen:
        if seen.first_page:
            starts[seen.path].append(seen.at)
    assert len(starts) == STREAMS
    gaps = [later - earlier for instants in starts.values() for earlier, later in pairwise(instants)]
    # Arrivals are less regular than departures.
    assert [gap for gap in gaps if gap < RELIST_GAP - 0.2] == []


def test_a_rewound_history_is_found_by_one_small_question_per_stream(outcomes: Outcomes) -> None:
    outcome = outcomes[DEVCLUSTER, "a rewound history"].result()
    questions = Counter(seen.path for seen in outcome.seen if seen.query.get("limit") == "1")
    assert set(questions.values()) == {1}
