"""The watcher as a process, between an API server over HTTP and a real Redis."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import urllib3

from eno.errors import Unreachable
from eno.inventory.secrets import lineage
from eno.objects import OPT_IN_ANNOTATION
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.scope import Scope
from eno.times import format_time
from kube.cluster import Json, Query
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from runtime.redis_server import RedisServer
from tests.support.factories import (
    STAMP,
    SYNTHESIZER,
    composition_json,
    decided,
    entry,
    inventory,
    manifest,
    slice_json,
    synthesis,
)
from tests.support.redis import running_redis
from tests.support.waiting import until

DEADLINE = 20.0
NAMESPACE = "prod"
RESYNC = 1
"""Seconds."""


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """What the condition returned when it first held."""
    return until(condition, what, seconds=DEADLINE)


class Running:
    """A Python module as a process; its stderr is a file of JSON lines."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SEXTON_", "POD_"))}
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stderr=stderr, stdout=subprocess.DEVNULL, env=environment
            )

    def lines(self, action: str) -> list[Json]:
        """The log lines with this action, so far."""
        complete = self._log.read_text().split("\n")[:-1]
        parsed = [json.loads(line) for line in complete if line.startswith("{")]
        return [line for line in parsed if line["action"] == action]

    def until(self, action: str) -> Json:
        found: list[Json] = eventually(lambda: self.lines(action), f"{action} in the log")
        return found[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[Running]:
    started = Running(log, *arguments)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


class World:
    """An API server, a Redis, and watchers that come and go."""

    def __init__(self, directory: Path, kubeconfig: Path, broker: RedisServer, apiserver: Running) -> None:
        self.directory, self.kubeconfig, self.broker, self.apiserver = directory, kubeconfig, broker, apiserver
        limits = RateLimits(requests_per_second=1000, burst=1000, slice_writes_per_second=1000)
        self.cluster = HttpCluster(load_connection(str(kubeconfig)), user_agent="test", limits=limits)
        self.redis = redis.Redis.from_url(broker.url, decode_responses=True)
        self.audit = directory / "audit.log"
        self._logs = 0

    @property
    def port(self) -> str:
        """The API server's."""
        return self.cluster.server.rpartition(":")[2]

    @contextmanager
    def watching(self, *flags: str, synced: bool = True) -> Iterator[Running]:
        """A watcher that recovers in NAMESPACE."""
        self._logs += 1
        log = self.directory / f"watcher-{self._logs}.log"
        arguments = ["watcher", "--kubeconfig", str(self.kubeconfig), "--broker-url", self.broker.url]
        arguments += ["--pod-namespace", NAMESPACE, "--enable-tombstone-recovery"]
        arguments += ["--resync-seconds", str(RESYNC), *flags]
        with running(log, *arguments) as watcher:
            if synced:
                watcher.until("caches-synced")
            yield watcher

    def answers(self) -> bool:
        """Whether the API server does."""
        try:
            self.cluster.list_page(Query(NAMESPACES))
        except Unreachable:
            return False
        return True

    def create_namespaces(self) -> None:
        for name in (NAMESPACE, "dev"):
            self.cluster.create(NAMESPACES, None, {"metadata": {"name": name}})

    def create(self, name: str, *, namespace: str = NAMESPACE, **fields: Any) -> str:
        """A composition whose current synthesis lacks history, unless `fields` say otherwise. Returns its UID."""
        current = fields.pop("current", synthesis(f"synthesis-of-{name}"))
        body = composition_json(name, namespace=namespace, uid=None, current=current, **fields)
        created = self.cluster.create(COMPOSITIONS, namespace, body)
        self.cluster.merge_patch(COMPOSITIONS, namespace, name, {"status": body["status"]}, subresource="status")
        return str(created["metadata"]["uid"])

    def remember(self, name: str, **annotations: str) -> None:
        """An inventory of a composition in NAMESPACE, in one Secret."""
        (secret,) = inventory([entry()], name=name, namespace=NAMESPACE)
        secret["metadata"]["annotations"] |= annotations
        for key in ("uid", "resourceVersion"):
            del secret["metadata"][key]
        self.cluster.create(SECRETS, "kube-system", secret)

    def annotate(self, name: str, **annotations: str) -> None:
        patch = {"metadata": {"annotations": annotations}}
        self.cluster.merge_patch(COMPOSITIONS, NAMESPACE, name, patch)

    def messages(self, instance: str = "sexton") -> list[str]:
        """The names of the compositions that recover messages wait for, oldest first."""
        return [payload["name"] for payload in self.payloads(instance)]

    def payloads(self, instance: str = "sexton", *, task: str = "recover") -> list[Json]:
        """What the messages of one task say, oldest first."""
        waiting = self.redis.lrange(f"{instance}.{task}", 0, -1)
        return [_payload(str(body)) for body in reversed(waiting)]

    def settle(self) -> None:
        """Wait until everything that happened before has been looked at: the agenda is worked off in order."""
        name = f"fence-{time.monotonic_ns()}"
        # Of another lineage: whoever is still to be recovered claims all history of its own.
        self.create(name, synthesizer="fence")
        eventually(lambda: name in self.messages(), f"a message for {name}")

    def considered(self) -> list[str]:
        """The messages without those that `settle` made."""
        self.settle()
        return [name for name in self.messages() if not name.startswith("fence-")]


def _payload(body: str) -> Json:
    """The keyword arguments of a Celery message (protocol 2): the second element of its body."""
    arguments: Json = json.loads(base64.b64decode(json.loads(body)["body"]))[1]
    return arguments


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ("--kubeconfig", str(kubeconfig), "--audit-log", str(tmp_path / "audit.log"))
    with (
        running_redis(tmp_path) as broker,
        running(tmp_path / "devcluster.log", "devcluster", *arguments) as apiserver,
    ):
        eventually(kubeconfig.exists, "a kubeconfig")
        world = World(tmp_path, kubeconfig, broker, apiserver)
        world.create_namespaces()
        yield world
        world.cluster.close()
        world.redis.close()


def test_a_composition_that_needs_recovery_gets_exactly_one_message(world: World) -> None:
    with world.watching():
        uid = world.create("web")
        for number in range(30):
            world.annotate("web", touched=str(number))
        assert world.considered() == ["web"]
    (message,) = [each for each in world.payloads() if each["name"] == "web"]
    assert message == {
        "namespace": NAMESPACE,
        "name": "web",
        "uid": uid,
        "synthesis_uuid": "synthesis-of-web",
        "scope": Scope(composition_namespace=NAMESPACE, recovery_namespace=NAMESPACE, recovery_enabled=True).model_dump(
            mode="json"
        ),
    }


def test_what_was_there_before_the_watcher_is_found(world: World) -> None:
    world.create("web")
    with world.watching():
        assert world.considered() == ["web"]


def test_what_is_decided_opted_out_or_out_of_scope_gets_none(world: World) -> None:
    finished = synthesis("u", tombstoneRecoveryStatus=decided("NotNeeded", "u"))
    with world.watching("--all-namespaces"):
        world.create("decided", current=finished)
        world.create("unsynthesized", current=synthesis("u", synthesized=None))
        world.create("opted-out", opted_in=False)
        world.create("elsewhere", namespace="dev")
        assert world.considered() == []


def test_a_selector_is_kept_to(world: World) -> None:
    with world.watching("--composition-label-selector", "team=a"):
        world.create("web")
        patch = {"metadata": {"labels": {"team": "a"}}}
        world.create("api")
        world.cluster.merge_patch(COMPOSITIONS, NAMESPACE, "api", patch)
        eventually(lambda: world.messages() == ["api"], "a message for what is selected alone")


def test_opting_in_later_is_enough(world: World) -> None:
    with world.watching():
        world.create("web", opted_in=False)
        assert world.considered() == []
        world.annotate("web", **{OPT_IN_ANNOTATION: "true"})
        assert world.considered() == ["web"]


def test_after_a_restart_there_is_a_second_message_only_where_the_marker_is_gone(world: World) -> None:
    world.create("kept")
    world.create("gone")
    with world.watching() as watcher:
        assert sorted(world.considered()) == ["gone", "kept"]
        assert watcher.end() == 0
    (marker,) = [key for key in world.redis.scan_iter("sexton:pending:recover:*") if key.endswith(":synthesis-of-gone")]
    world.redis.delete(marker)
    with world.watching():
        assert sorted(world.considered()) == ["gone", "gone", "kept"]


def test_a_flushed_redis_has_every_message_again_within_a_resync(world: World) -> None:
    with world.watching():
        for number in range(20):
            world.create(f"web-{number}")
        eventually(lambda: len(world.messages()) == 20, "20 messages")
        world.redis.flushall()
        started = time.monotonic()
        eventually(lambda: len(set(world.messages())) == 20, "20 messages again")
        assert time.monotonic() - started < 2 * RESYNC + 3


def test_changes_while_redis_is_away_are_enqueued_when_it_is_back(world: World) -> None:
    with world.watching() as watcher:
        world.broker.stop()
        for number in range(5):
            world.create(f"web-{number}")
        watcher.until("broker-lost")
        with running_redis(world.directory, port=world.broker.port):
            eventually(lambda: sorted(world.messages()) == [f"web-{number}" for number in range(5)], "5 messages")
            watcher.until("broker-found")
        assert len(watcher.lines("broker-lost")) == 1
        assert watcher.end() == 0


def test_a_relist_repairs_what_the_watch_of_a_rewound_api_server_never_shows(world: World) -> None:
    """A watch from a version that the new history has not reached yet stays silent: only a relist helps."""
    with world.watching("--relist-seconds", "2") as watcher:
        for number in range(20):
            world.create(f"lost-{number}", opted_in=False)
        world.settle()
        world.apiserver.end()
        watcher.until("reflector.wait")
        with running(world.directory / "second.log", "devcluster", "--port", world.port):
            eventually(world.answers, "an answer from the second API server")
            world.create_namespaces()
            world.create("web")
            eventually(lambda: "web" in world.messages(), "a message for web")
        assert watcher.process.poll() is None


def test_two_instances_share_a_redis_without_disturbing_each_other(world: World) -> None:
    with world.watching(), world.watching("--instance", "other"):
        world.create("web")
        eventually(lambda: world.messages() == world.messages("other") == ["web"], "one message each")


def test_slices_cross_the_wire_as_metadata(world: World) -> None:
    large = slice_json("large", [manifest(name="x", padding="y" * 200_000)], namespace=NAMESPACE, owner="web")
    del large["metadata"]["resourceVersion"]
    world.cluster.create(RESOURCE_SLICES, NAMESPACE, large)
    with world.watching():
        world.settle()
    requests = [json.loads(line) for line in world.audit.read_text().splitlines()]
    lists = [each for each in requests if each["verb"] == "list" and each["userAgent"].startswith("sexton-watcher/")]
    (of_slices,) = [each["bytesOut"] for each in lists if each["resource"] == "resourceslices"]
    assert of_slices < 5_000


READY = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided("NotNeeded", "u")}


def test_a_ready_synthesis_is_recorded_until_it_is_stored(world: World) -> None:
    with world.watching():
        world.create("web", current=synthesis("u", **READY))
        (message,) = eventually(lambda: world.payloads(task="record"), "a record message")
        assert (message["name"], message["synthesis_uuid"]) == ("web", "u")


def test_an_inventory_that_no_object_points_to_is_found_by_every_new_watcher(world: World) -> None:
    world.remember("web")
    for _ in range(2):
        world.redis.flushall()
        with world.watching():
            (message,) = eventually(lambda: world.payloads(task="retire"), "a retire message")
            assert (message["namespace"], message["lineage"]) == (NAMESPACE, lineage(NAMESPACE, SYNTHESIZER))


@pytest.mark.parametrize("passed", [0, 3600], ids=["while it runs", "while nothing runs"])
def test_a_grace_that_ends_is_acted_on(world: World, passed: int) -> None:
    world.remember("web", **{UNCLAIMED_SINCE_ANNOTATION: format_time(datetime.now(UTC) - timedelta(seconds=passed))})
    with world.watching("--retirement-grace", "6"):
        if not passed:
            world.settle()
            assert world.payloads(task="retire") == []
        eventually(lambda: world.payloads(task="retire"), "a retire message")


def test_a_claimed_inventory_calls_for_nothing_until_its_composition_goes(world: World) -> None:
    world.remember("web")
    world.create("web", current=synthesis("u", tombstoneRecoveryStatus=decided("NotNeeded", "u")))
    with world.watching():
        world.settle()
        assert world.payloads(task="retire") == []
        world.cluster.delete(COMPOSITIONS, NAMESPACE, "web")
        eventually(lambda: world.payloads(task="retire"), "a retire message")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_in_order(world: World, number: int) -> None:
    with world.watching() as watcher:
        started = time.monotonic()
        assert watcher.end(number) == 0
        assert time.monotonic() - started < 2


def test_probes_tell_progress_from_readiness(world: World) -> None:
    with world.watching("--health-port", "0") as watcher:
        port = watcher.until("probes-started")["port"]
        assert probe(port, "healthz") == (200, "ok\n")
        assert probe(port, "readyz") == (200, "ok\n")
        world.broker.stop()
        assert probe(port, "healthz") == (200, "ok\n")
        status, text = probe(port, "readyz")
        assert status == 503
        assert "Redis" in text


def test_an_api_server_that_cannot_be_reached_is_waited_for(world: World) -> None:
    nowhere = world.directory / "nowhere"
    nowhere.write_text(world.kubeconfig.read_text().replace(world.port, "1"))
    flags = ("--kubeconfig", str(nowhere), "--health-port", "0")
    with world.watching(*flags, synced=False) as watcher:
        port = watcher.until("probes-started")["port"]
        watcher.until("reflector.wait")
        assert probe(port, "healthz") == (200, "ok\n")
        status, text = probe(port, "readyz")
        assert status == 503
        assert "stream of compositions.eno.azure.io" in text
        assert watcher.end() == 0


def probe(port: int, path: str) -> tuple[int, str]:
    with urllib3.PoolManager(retries=False, timeout=DEADLINE) as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{port}/{path}")
        return answer.status, answer.data.decode()
