"""`sexton backfill` with a real Redis: interrupted, cut off, and given again, it sends every message once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.audit import AuditTrail
from console.cast import Server, start_servers
from console.stage import Stage
from kube.cluster import Cluster
from kube.resources import COMPOSITIONS, NAMESPACES
from runtime.dispatch import Dispatcher
from runtime.messages import TaskName
from runtime.redis_server import RedisServer, start_redis
from runtime.settings import Settings
from tests.support.command import Sexton
from tests.support.factories import composition_json, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until

MANY = 40


def populate(cluster: Cluster, namespace: str, number: int) -> None:
    """Undecided compositions in a namespace of their own."""
    cluster.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    for index in range(number):
        labels = {"labels": {"parity": "odd" if index % 2 else "even"}}
        body = composition_json(f"c-{index:02}", namespace=namespace, uid=None, current=synthesis(), metadata=labels)
        created = cluster.create(COMPOSITIONS, namespace, body)
        created["status"] = body["status"]
        cluster.update(COMPOSITIONS, namespace, created["metadata"]["name"], created, subresource="status")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Stage() as stage:
        upstream, _ = start_servers(stage, time.monotonic() + 60)
        with closing(upstream.connect()) as cluster:
            populate(cluster, "many", MANY)
            populate(cluster, "few", 3)
        yield upstream


@dataclass(frozen=True)
class Town:
    """An API server and a Redis of its own. Nobody consumes."""

    server: Server
    redis: RedisServer

    @property
    def sexton(self) -> Sexton:
        return Sexton({"SEXTON_KUBECONFIG": str(self.server.kubeconfig), "SEXTON_BROKER_URL": self.redis.url})

    @property
    def waiting(self) -> int:
        """Messages in the queue."""
        with closing(Dispatcher.connect(Settings.load(broker_url=self.redis.url))) as dispatcher:
            return dispatcher.lengths()[TaskName.RECOVER]


@pytest.fixture
def town(server: Server, tmp_path: Path) -> Iterator[Town]:
    with running_redis(tmp_path) as redis:
        yield Town(server, redis)


def test_a_dry_run_names_what_would_be_enqueued_and_writes_nothing(town: Town) -> None:
    trail = AuditTrail.since_now(town.server.audit_log)
    found = town.sexton("backfill", "recover", "-n", "few", "--dry-run", "-o", "json")
    document = found.json
    assert (found.code, document["due"], document["enqueued"], town.waiting) == (0, 3, 0, 0)
    assert [each["name"] for each in document["messages"]] == ["c-00", "c-01", "c-02"]
    assert set(trail.calls("sexton-console/")) == {"list"}
    shown = town.sexton("backfill", "recover", "-n", "few", "--dry-run")
    assert "few/c-01" in shown.out
    assert "recover is due for 3 of 3 compositions in namespace few." in shown.out


def test_a_selector_narrows_it(town: Town) -> None:
    document = town.sexton("backfill", "recover", "-n", "few", "-l", "parity=odd", "-o", "json").json
    assert (document["due"], document["enqueued"], town.waiting) == (1, 1, 1)
    assert document["scope"] == "namespace few with labels parity=odd"


def test_gate_reaches_all_namespaces_and_recover_only_its_own(town: Town) -> None:
    assert town.sexton("backfill", "gate", "-A", "--dry-run", "-o", "json").json["due"] == MANY + 3
    refused = town.sexton("backfill", "recover", "-A")
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    own = town.sexton.having(POD_NAMESPACE="few")("backfill", "recover", "-A", "--dry-run", "-o", "json")
    assert own.json["due"] == 3


def test_interrupted_it_goes_on_where_it_stood(town: Town) -> None:
    with town.sexton.begun("backfill", "recover", "-n", "many", "--rate", "5") as running:
        running.until_shown("recover")
        until(lambda: town.waiting >= 3, "some messages are in the queue")
        assert running.interrupt() == 130
        running.until_shown("left: the same command goes on with them.")
        assert "Traceback" not in running.text
    stood = town.waiting
    assert 3 <= stood < MANY

    document = town.sexton("backfill", "recover", "-n", "many", "--rate", "1000", "-o", "json").json

    assert (document["pending"], document["enqueued"], document["left"]) == (stood, MANY - stood, 0)
    assert town.waiting == MANY


def test_the_bar_shows_how_far_it_is_at_which_rate_and_how_long_it_takes(town: Town) -> None:
    with town.sexton.begun("backfill", "recover", "-n", "many", "--rate", "20") as running:
        running.until_shown(f"/{MANY}")
        running.until_shown("/s")
        running.until_shown("0:00:0")
        assert running.process.wait(60) == 0
        running.until_shown(f"{MANY} enqueued.")


def test_the_rate_is_kept(town: Town) -> None:
    began = time.monotonic()
    assert town.sexton("backfill", "recover", "-n", "few", "--rate", "4").code == 0
    assert time.monotonic() - began >= 2 / 4


def test_when_redis_goes_away_it_stops_and_goes_on_once_it_is_back(
    server: Server, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_redis(tmp_path) as redis:
        town, port = Town(server, redis), redis.port
        with town.sexton.begun("backfill", "recover", "-n", "many", "--rate", "5") as running:
            until(lambda: town.waiting >= 2, "some messages are in the queue")
            redis.stop()
            assert running.process.wait(60) == 69
            running.until_shown("left: the same command goes on with them.")
            running.until_shown("not available")
    with start_redis(tmp_path_factory.mktemp("again"), port=port) as again:
        document = Town(server, again).sexton("backfill", "recover", "-n", "many", "--rate", "1000", "-o", "json").json
        # It came back empty, so everything is sent again.
        assert (document["enqueued"], document["left"], Town(server, again).waiting) == (MANY, 0, MANY)


def test_wrong_usage_is_one_line(town: Town) -> None:
    for words in (["burn"], ["gate", "--rate", "0"], ["gate"]):
        found = town.sexton("backfill", *words)
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1), words


def test_the_summary_is_one_document(town: Town) -> None:
    found = town.sexton("backfill", "recover", "-n", "few", "-o", "json")
    assert json.loads(found.out) == {
        "task": "recover",
        "scope": "namespace few",
        "looked_at": 3,
        "due": 3,
        "dry_run": False,
        "enqueued": 3,
        "pending": 0,
        "running": 0,
        "not_before": 0,
        "parked": 0,
        "left": 0,
        "findings": [],
    }
