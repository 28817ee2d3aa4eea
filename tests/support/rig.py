"""Sexton as it is deployed, on one machine: API server, Redis, watchers and workers.

Every part is a process of its own, started the way a deployment starts it, ended by its process id, and killed at
the end of the `with` block if it still runs. Times are short where a setting makes them so; nothing else differs
from production.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import redis

from devcluster.audit import Entry, read_entries
from kube.cluster import Json
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import NAMESPACES
from runtime.broker import connect
from runtime.dispatch import Dispatcher
from runtime.messages import TaskName
from runtime.redis_server import RedisServer
from runtime.settings import Settings, variable
from tests.support.factories import NAMESPACE
from tests.support.redis import running_redis
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
SECONDS = 120.0
"""Until which anything happens on a busy machine."""

RESYNC = 2
"""Seconds between two looks of a watcher at what is unfinished."""

UNHURRIED = RateLimits(100_000, 100_000, 100_000)


@dataclass
class Process:
    """A part of the rig. Its log is JSON, one record a line; a part that was restarted has a new one."""

    process: subprocess.Popen[bytes]
    log: Path
    _read: int = 0
    _records: dict[str, list[Json]] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def lines(self, action: str) -> list[Json]:
        """The log's complete records with this action."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            complete, end, _ = log.read().rpartition(b"\n")
        self._read += len(complete) + len(end)
        records = [json.loads(line) for line in complete.split(b"\n") if line.startswith(b"{")]
        for record in records:
            self._records.setdefault(record.get("action", ""), []).append(record)
        return list(self._records.get(action, ()))

    @property
    def text(self) -> str:
        """The whole log."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def consumes(self) -> bool:
        """Whether a worker is ready for messages."""
        return any(line["message"].endswith(" ready.") for line in self.lines("log"))

    def children(self) -> list[int]:
        """Process ids of what it has forked."""
        with suppress(OSError):
            text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
            return [int(pid) for pid in text.split()]
        return []

    def send(self, number: int) -> None:
        """Send a signal to it, and not to what it has forked."""
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, *, seconds: float = SECONDS) -> int:
        """Send a signal and return the exit code."""
        self.send(number)
        return self.process.wait(seconds)

    def kill_all(self) -> None:
        """SIGKILL to it and to everything that it has forked, as when its pod goes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Rig:
    """The parts that there always is one of. Made by `running_rig`."""

    def __init__(self, directory: Path, broker: RedisServer, kubeconfig: Path, **overrides: Any) -> None:
        self.directory = directory
        self.broker = broker
        self.kubeconfig = kubeconfig
        fields = {"broker_url": broker.url, "kubeconfig": kubeconfig, "pod_namespace": NAMESPACE}
        # A worker that is killed between taking a message and noting that it has it leaves nothing but a marker.
        fields = {"pending_timeout": 30, **fields}
        fields |= {"enable_tombstone_recovery": True, "resync_seconds": RESYNC, "log_level": "INFO"}
        fields |= {"requests_per_second": 5000, "burst": 5000, "slice_writes_per_second": 5000}
        self.settings = Settings.load(**fields | overrides)
        self.cluster = HttpCluster(load_connection(str(kubeconfig)), user_agent="rig", limits=UNHURRIED)
        self.redis: redis.Redis = connect(self.settings)
        self.dispatcher = Dispatcher.connect(self.settings)
        self._exits = ExitStack()
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()
        self.dispatcher.close()
        self.redis.close()
        self.cluster.close()

    def watcher(self, **overrides: Any) -> Process:
        """Start a watcher, and return once it has seen every object."""
        watcher = self.start("watcher", ["watcher"], overrides)
        self.until(lambda: watcher.lines("caches-synced"), "the watcher has synced", watcher)
        return watcher

    def worker(self, *, concurrency: int = 2, ready: bool = True, **overrides: Any) -> Process:
        """Start a worker with so many children, and return once it consumes, unless told not to wait."""
        words = ["celery", "-A", "workers", "--quiet", "worker", "-c", str(concurrency)]
        # Several on one machine would have the same name.
        words += ["-n", f"worker-{self._started}@rig", "--without-mingle", "--without-gossip"]
        worker = self.start("worker", words, overrides)
        if ready:
            self.until(lambda: worker.consumes, "the worker consumes", worker)
        return worker

    def start(self, name: str, module: Sequence[str], overrides: dict[str, Any]) -> Process:
        """Start a Python module with the rig's settings, some of them changed."""
        self._started += 1
        settings = self.settings.model_copy(update=overrides)
        given = {name: value for name, value in settings if value != Settings.model_fields[name].default}
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SEXTON_", "POD_"))}
        environment |= {variable(key): str(value) for key, value in given.items() if value is not None}
        log = self.directory / f"{name}-{self._started}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *module],
                env=environment,
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = Process(process, log)
        self._exits.callback(started.kill_all)
        return started

    def until(self, condition: Any, what: str, *parts: Process, seconds: float = SECONDS) -> Any:
        """What the condition returned when it first held, unless one of the parts ends before."""

        def holds() -> Any:
            for part in parts:
                assert part.running, f"{part.log.name} ended: {part.text[-2000:]}"
            return condition()

        return until(holds, what, seconds=seconds)

    def waiting(self) -> int:
        """Messages in the queues, without those that workers hold."""
        return sum(self.dispatcher.lengths().values())

    def drained(self) -> bool:
        """Whether no message waits, and none is unacknowledged."""
        instance = self.settings.instance
        with self.redis.pipeline(transaction=False) as pipe:
            for task in TaskName:
                pipe.llen(task.queue(instance))
            pipe.hlen(f"{instance}.unacked")
            return not any(pipe.execute())

    def let_visibility_pass(self) -> None:
        """Age what workers have not acknowledged, so that those that live take over what dead ones held."""
        index = f"{self.settings.instance}.unacked-index"
        tags = [str(tag) for tag in self.redis.zrange(index, 0, -1)]
        if tags:
            self.redis.zadd(index, dict.fromkeys(tags, 1), xx=True)

    def requests(self, agent: str = "sexton-") -> list[Entry]:
        """What the processes with this user agent have asked the API server for, so far."""
        return [entry for entry in read_entries(self.directory / "audit.log") if entry.userAgent.startswith(agent)]

    def writes(self) -> list[Entry]:
        """What the workers have written to compositions, slices and Secrets."""
        reads = {"get", "list", "watch"}
        kept = {"compositions", "resourceslices", "secrets"}
        return [each for each in self.requests("sexton-worker") if each.verb not in reads and each.resource in kept]

    def restart_broker(self) -> None:
        """Kill Redis, and start an empty one on the same port."""
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.stop()
        self.broker = self._exits.enter_context(running_redis(self.directory, port=self.broker.port))


@contextmanager
def running_rig(directory: Path, **settings: Any) -> Iterator[Rig]:
    """A rig in an empty directory: an API server with the namespace, and Redis. Skips where there is no Redis."""
    kubeconfig = directory / "kubeconfig"
    command = [sys.executable, "-m", "devcluster", "--kubeconfig", str(kubeconfig), "--history", "1000000"]
    command += ["--audit-log", str(directory / "audit.log")]
    with running_redis(directory) as broker, (directory / "devcluster.log").open("wb") as output:
        apiserver = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            until(kubeconfig.exists, "the API server answers", seconds=SECONDS)
            with Rig(directory, broker, kubeconfig, **settings) as rig:
                rig.cluster.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
                yield rig
        finally:
            apiserver.kill()
            apiserver.wait()


def seconds_until(condition: Any, what: str, *, seconds: float = SECONDS) -> float:
    """How long it took until the condition held."""
    started = time.monotonic()
    until(condition, what, seconds=seconds)
    return time.monotonic() - started
