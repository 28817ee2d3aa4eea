"""The watcher as a process, between an API server over HTTP and a real Redis: what tests of it are played on."""

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
from pathlib import Path
from typing import Any

import redis
import urllib3

from eno.errors import Unreachable
from kube.cluster import Json, Query
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, LEASES, NAMESPACES, SECRETS
from runtime.redis_server import RedisServer
from tests.support.factories import composition_json, entry, inventory, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until

DEADLINE = 40.0
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

    @property
    def complaint(self) -> str:
        """What it said about its end: the lines that are no log."""
        return "".join(line for line in self._log.read_text().splitlines(True) if not line.startswith("{"))

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(DEADLINE)

    def until(self, action: str) -> Json:
        found: list[Json] = eventually(lambda: self.lines(action), f"{action} in the log")
        return found[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.ended()


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

    def lease(self, instance: str = "sexton") -> Json:
        """The spec of the watchers' Lease."""
        spec: Json = self.cluster.get(LEASES, NAMESPACE, f"{instance}-watcher")["spec"]
        return spec

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


@contextmanager
def running_world(directory: Path) -> Iterator[World]:
    """A world in an empty directory. Skips where there is no Redis."""
    kubeconfig = directory / "kubeconfig"
    arguments = ("--kubeconfig", str(kubeconfig), "--audit-log", str(directory / "audit.log"))
    with (
        running_redis(directory) as broker,
        running(directory / "devcluster.log", "devcluster", *arguments) as apiserver,
    ):
        eventually(kubeconfig.exists, "a kubeconfig")
        world = World(directory, kubeconfig, broker, apiserver)
        world.create_namespaces()
        yield world
        world.cluster.close()
        world.redis.close()


def probe(port: int, path: str) -> tuple[int, str]:
    with urllib3.PoolManager(retries=False, timeout=DEADLINE) as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{port}/{path}")
        return answer.status, answer.data.decode()
