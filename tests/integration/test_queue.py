"""Real Redis, real workers: what a queue does to messages that a handler in a test never meets."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from devcluster.store import Store
from eno.errors import BrokerUnavailable
from kube.cluster import Query
from kube.config import load_connection
from kube.http import HttpCluster
from kube.resources import COMPOSITIONS, NAMESPACES
from runtime.broker import connect
from runtime.dispatch import Dispatcher, Enqueued, Parked
from runtime.messages import Message, RecoverMessage, TaskName
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, composition_json, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import Worker, running_worker

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into processes through /proc")

RECOVER = TaskName.RECOVER.queue("sexton")


@dataclass
class Queue:
    """The broker of one test module, seen from outside."""

    settings: Settings
    client: redis.Redis
    dispatcher: Dispatcher

    def message(self, name: str, **overrides: Any) -> RecoverMessage:
        """A recover message as the watcher sends it."""
        fields = {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}", "synthesis_uuid": "s1"}
        return RecoverMessage.model_validate({"scope": self.settings.scope} | fields | overrides)

    def envelope(self, message: Message) -> dict[str, Any]:
        """A message as the producer puts it into the queue, to forge others from."""
        body = [[], message.payload(), {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
        identity = str(uuid.uuid4())
        return {
            "body": encoded(body),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "py", "task": str(message.task), "id": identity},
            "properties": {
                "correlation_id": identity,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": RECOVER},
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }

    def put(self, envelope: object) -> None:
        """Put anything into the recover queue."""
        self.client.lpush(RECOVER, envelope if isinstance(envelope, str) else json.dumps(envelope))

    def close(self) -> None:
        """Drop the connections."""
        self.dispatcher.close()
        self.client.close()

    @property
    def drained(self) -> bool:
        """Whether nothing is queued and nothing unacknowledged."""
        return not self.client.llen(RECOVER) and not self.client.hlen("sexton.unacked")


def encoded(body: object) -> str:
    return base64.b64encode(json.dumps(body).encode()).decode()


def queue_for(settings: Settings) -> Queue:
    return Queue(settings, connect(settings), Dispatcher.connect(settings))


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a development cluster that knows compositions and the namespace."""
    store = Store(seed="queue")
    load_definitions(store, [definitions.development_directory()])
    path = tmp_path_factory.mktemp("devcluster") / "kubeconfig"
    with Server(store).running() as server:
        write_kubeconfig(path, server.url)
        client = HttpCluster(load_connection(str(path)), user_agent="sexton/test")
        client.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
        client.close()
        yield path


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory, kubeconfig: Path) -> Iterator[Queue]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        queue = queue_for(settings_for(server.url, kubeconfig))
        yield queue
        queue.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, queue: Queue) -> Iterator[Worker]:
    with running_worker(tmp_path_factory.mktemp("worker"), queue.settings) as worker:
        yield worker


def settings_for(url: str, kubeconfig: Path, **overrides: Any) -> Settings:
    fields = {"broker_url": url, "kubeconfig": kubeconfig, "pod_namespace": NAMESPACE}
    return Settings.load(enable_tombstone_recovery=True, **fields, **overrides)


def add_composition(kubeconfig: Path, name: str) -> dict[str, Any]:
    """A composition whose synthesis has its history, and so needs no recovery."""
    client = HttpCluster(load_connection(str(kubeconfig)), user_agent="sexton/test")
    current = synthesis("s1", tombstoneRecoveryRequired=False)
    body = composition_json(name, uid=None, current=current)
    created = client.create(COMPOSITIONS, NAMESPACE, body)
    updated = client.update(COMPOSITIONS, NAMESPACE, name, created | {"status": body["status"]}, subresource="status")
    client.close()
    return updated


def test_a_message_makes_a_worker_recover(queue: Queue, worker: Worker, kubeconfig: Path) -> None:
    uid = add_composition(kubeconfig, "shop")["metadata"]["uid"]
    message = queue.message("shop", uid=uid)
    assert queue.dispatcher.enqueue(message) == Enqueued()
    until(lambda: worker.lines("task-ended"), "the task ended")
    (line,) = worker.lines("task-ended")
    assert (line["composition"], line["outcome"]) == (f"{NAMESPACE}/shop", "done")
    client = HttpCluster(load_connection(str(kubeconfig)), user_agent="sexton/test")
    status = client.get(COMPOSITIONS, NAMESPACE, "shop")["status"]["currentSynthesis"]
    client.close()
    assert status["tombstoneRecoveryStatus"]["reason"] == "NotNeeded"
    until(lambda: queue.drained, "the message was acknowledged")
    assert queue.dispatcher.enqueue(message) == Enqueued()


def forged(queue: Queue) -> list[object]:
    """One of each kind of message that no producer of ours sends."""
    good = queue.envelope(queue.message("forged"))

    def body(value: object) -> dict[str, Any]:
        return good | {"body": encoded(value)}

    def headers(**changes: object) -> dict[str, Any]:
        return good | {"headers": good["headers"] | changes}

    return [
        "not JSON",
        "5",
        "[]",
        "{}",
        '{"__type__": "datetime", "__value__": 5}',
        "[" * 100_000,
        good | {"properties": {}},
        good | {"properties": good["properties"] | {"delivery_info": []}},
        good | {"headers": ["task"]},
        good | {"headers": None},
        good | {"body": "!!!"},
        good | {"content-type": "application/x-python-serialize"},
        good | {"headers": good["headers"] | {"compression": "application/x-gzip"}},
        good | {"body": base64.b64encode(b"[" * 100_000).decode()},
        body({"args": [], "kwargs": {}}),
        body([["positional"], {}, {}]),
        body([[], {"self": 1}, {}]),
        body([[], {"namespace": NAMESPACE}, {}]),
        body([[], queue.message("forged").payload() | {"manifest": "{}"}, {}]),
        body([[], queue.message("forged", scope=None, namespace="kube-system").payload(), {}]),
        body([[], {}, {"chain": [{"task": "sexton.recover"}]}]),
        headers(task="celery.backend_cleanup"),
        headers(id=None),
        headers(eta="2099-01-01T00:00:00", expires=1, timelimit=["x"], stamped_headers=5, retries="many"),
        "x" * 10_000_000,
        good
        | {"body": base64.b64encode(pickle.dumps({"a": 1})).decode(), "content-type": "application/x-python-pickle"},
        good | {"body": encoded([[], {"namespace": "x" * 10_000_000}, {}])},
        good | {"body": base64.b64encode(b'{"a":' * 50_000).decode()},
        good | {"body": "\ud800"},
        body([[], queue.message("forged").payload() | {"name": "UPPER/../case"}, {}]),
        body([[], queue.message("forged").payload() | {"uid": ["a"], "synthesis_uuid": {"$ne": ""}}, {}]),
        body([[], queue.message("forged").payload() | {"namespace": None}, {}]),
        body([[], queue.message("forged").payload() | {"scope": {"recovery_enabled": "yes"}}, {}]),
        body([[], queue.message("forged", namespace="elsewhere").payload(), {}]),
        body([[], queue.message("gone", uid="of-one-that-was-deleted").payload(), {}]),
        {**headers(task="sexton.retire"), "body": encoded([[], {"namespace": NAMESPACE, "lineage": "0" * 31}, {}])},
        {
            **headers(task="sexton.cleanup"),
            "body": encoded([[], {**queue.message("f").payload(), "slices": "all"}, {}]),
        },
    ]


def test_no_message_ends_a_worker_changes_anything_or_takes_more_than_a_line(
    queue: Queue, worker: Worker, kubeconfig: Path
) -> None:
    until(lambda: queue.drained, "what came before is over")
    before, version = len(verdicts(worker)), newest(kubeconfig)
    envelopes = forged(queue)
    for envelope in envelopes:
        if isinstance(envelope, dict) and envelope.get("properties"):
            envelope = envelope | {"properties": envelope["properties"] | {"delivery_tag": str(uuid.uuid4())}}
        queue.put(envelope)
    last = queue.message("after-the-forged")
    queue.dispatcher.enqueue(last)
    ended = f"{NAMESPACE}/after-the-forged"
    until(lambda: any(line.get("composition") == ended for line in worker.lines("task-ended")), "a task after them")
    until(lambda: queue.drained, "all were acknowledged")
    assert worker.process.poll() is None
    assert "Traceback" not in worker.log.read_text(encoding="utf-8")
    assert len(verdicts(worker)) - before == len(envelopes) + 1
    assert newest(kubeconfig) == version
    assert max(map(len, worker.log.read_bytes().split(b"\n"))) < 3000


def verdicts(worker: Worker) -> list[dict[str, Any]]:
    """The lines that say what became of a message."""
    return [line for action in ("message-rejected", "task-unknown", "task-ended") for line in worker.lines(action)]


def newest(kubeconfig: Path) -> str:
    """The version of the newest object in the cluster."""
    client = HttpCluster(load_connection(str(kubeconfig)), user_agent="sexton/test")
    found = client.list_page(Query(COMPOSITIONS)).resource_version
    client.close()
    return found


def test_a_task_of_another_version_is_dropped_with_one_line(queue: Queue, worker: Worker) -> None:
    message = queue.message("newer")
    envelope = queue.envelope(message)
    envelope["headers"]["task"] = "sexton.newer"
    queue.put(envelope)
    until(lambda: any("sexton.newer" in line["message"] for line in worker.lines("task-unknown")), "it was seen")
    until(lambda: queue.drained, "it was acknowledged")
    assert queue.dispatcher.enqueue(message) == Enqueued()


@needs_proc
def test_clients_are_made_after_the_fork(tmp_path: Path, queue: Queue) -> None:
    """A connection that parent and child share mixes up their answers."""
    settings = queue.settings.model_copy(update={"instance": "forking"})
    forking = queue_for(settings)
    with running_worker(tmp_path, settings) as worker:
        assert connections(queue, "forking-hints") == []
        forking.dispatcher.enqueue(queue.message("forked"))
        until(lambda: worker.lines("task-ended"), "a task ended")
        (child,) = worker.children()
        made = {socket_at(port) for port in connections(queue, "forking-hints")} & open_sockets(child)
        assert made != set()
        assert made & open_sockets(worker.process.pid) == set()
    forking.close()


def connections(queue: Queue, name: str) -> list[int]:
    """The local ports of the clients that gave this name to Redis."""
    return [int(line["addr"].rpartition(":")[2]) for line in queue.client.client_list() if line["name"] == name]


def socket_at(port: int) -> str:
    """The socket that is bound to a local port, as a process' file descriptors show it."""
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return next(f"socket:[{row[9]}]" for row in table if int(row[1].rpartition(":")[2], 16) == port)


def open_sockets(pid: int) -> set[str]:
    links = (str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    return {link for link in links if link.startswith("socket:")}


def test_a_worker_ends_cleanly_and_takes_nothing_along(tmp_path: Path, queue: Queue) -> None:
    settings = queue.settings.model_copy(update={"instance": "leaving"})
    leaving = queue_for(settings)
    with running_worker(tmp_path, settings) as worker:
        started = time.monotonic()
        assert worker.stop() == 0
        assert time.monotonic() - started < 10
    leaving.dispatcher.enqueue(queue.message("left-behind"))
    assert leaving.dispatcher.lengths()[TaskName.RECOVER] == 1
    leaving.close()


def test_a_worker_comes_back_to_a_redis_that_was_killed(tmp_path: Path, kubeconfig: Path) -> None:
    with running_redis(tmp_path) as first:
        settings = settings_for(first.url, kubeconfig)
        queue = queue_for(settings)
        with running_worker(tmp_path, settings) as worker:
            os.kill(first.pid, signal.SIGKILL)
            first.stop()
            with pytest.raises(BrokerUnavailable):
                queue.dispatcher.enqueue(queue.message("shop"))
            with running_redis(tmp_path, port=first.port):
                queue.dispatcher.enqueue(queue.message("shop"))
                until(lambda: worker.lines("task-ended"), "it consumes again", seconds=40)
                until(lambda: queue.drained, "its message was acknowledged")
                assert worker.stop() == 0
        queue.close()


@needs_proc
def test_a_message_that_kills_its_worker_every_time_is_parked(tmp_path: Path) -> None:
    """The API server of this test accepts connections and never answers, so a task runs until it is killed."""
    with socket.create_server(("127.0.0.1", 0)) as silent, running_redis(tmp_path) as server:
        path = tmp_path / "kubeconfig"
        write_kubeconfig(path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        settings = settings_for(server.url, path, max_attempts=2)
        queue = queue_for(settings)
        key = queue.message("killer").key
        with running_worker(tmp_path, settings) as worker:
            queue.dispatcher.enqueue(queue.message("killer"))
            for attempt in (1, 2):
                until(lambda: queue.dispatcher.describe(key).attempts == attempt, f"start {attempt}")  # noqa: B023
                os.kill(worker.children()[0], signal.SIGKILL)
            until(lambda: worker.lines("task-ended"), "it was refused")
            until(lambda: queue.drained, "its message was acknowledged")
        assert isinstance(queue.dispatcher.enqueue(queue.message("killer")), Parked)
        (parked,) = queue.dispatcher.parked()
        assert (parked.key, parked.reason) == (key, "attempts")
        queue.close()


def test_a_flushed_redis_takes_new_messages(queue: Queue, worker: Worker) -> None:
    queue.client.flushall()
    assert queue.dispatcher.enqueue(queue.message("after-the-flush")) == Enqueued()
    ended = f"{NAMESPACE}/after-the-flush"
    until(lambda: any(line["composition"] == ended for line in worker.lines("task-ended")), "it was executed")
