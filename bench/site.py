"""The processes of one measurement, all on loopback: API server, delay, Redis, workers, watcher, peers.

They are started the way a deployment starts them, with the product's own settings; only the rate limits, which
are there to spare a real API server, are lifted for all alike.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from bench import inputs
from bench.timeline import Timeline
from console.stage import Child, Stage
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from runtime.redis_server import RedisServer, start_redis
from runtime.settings import Settings, variable

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
WORKER_AGENT, WATCHER_AGENT, ENO_AGENT = "sexton-worker/", "sexton-watcher/", "bench-eno"
PEER_AGENT = "bench-peer"

FAR = 20.0
"""Milliseconds that every request to a distant API server takes longer."""

START_SECONDS = 120.0
UNLIMITED = RateLimits(requests_per_second=100_000, burst=100_000, slice_writes_per_second=100_000)


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server: how to reach it, and what it was asked."""

    kubeconfig: Path
    child: Child
    timeline: Timeline

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        return urlsplit(load_connection(str(self.kubeconfig)).server).port or 0


class Site:
    """Starts processes and ends them with its `with` block. `environment` is what Sexton's processes see."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._started = 0

    def api_server(self, families: Iterable[inputs.Family]) -> ApiServer:
        """With these compositions, ready."""
        file, kubeconfig, timeline = (self._file(name) for name in ("families", "kubeconfig", "timeline"))
        inputs.write(file, families)
        options = ("--families", str(file), "--kubeconfig", str(kubeconfig), "--timeline", str(timeline))
        child = self._start("apiserver", "bench.apiserver", *options)
        self._until("API server", kubeconfig.exists)
        file.unlink()
        return ApiServer(kubeconfig, child, Timeline(timeline))

    def delayed(self, server: ApiServer, milliseconds: float) -> ApiServer:
        """The same server, farther away."""
        kubeconfig = self._file("delayed")
        options = ("--port", str(server.port), "--milliseconds", str(milliseconds), "--kubeconfig", str(kubeconfig))
        child = self._start("delay", "bench.delay", *options)
        self._until("delaying proxy", kubeconfig.exists)
        return replace(server, kubeconfig=kubeconfig, child=child)

    def redis(self) -> RedisServer:
        """A Redis of its own."""
        server = start_redis(self.stage.directory)
        self.stage.adopt(server.pid, server.stop)
        return server

    def worker(self, environment: Mapping[str, str], concurrency: int, *queues: str, app: str = "workers") -> Child:
        """One worker with a pool of that many processes, ready to consume."""
        options = ["-A", app, "worker", "--concurrency", str(concurrency), "-l", "INFO"]
        options += ["--queues", ",".join(queues), "--without-gossip", "--without-mingle"]
        child = self._start("worker", "celery", *options, environment=environment)
        self._until("worker", lambda: b" ready." in child.log.read_bytes())
        return child

    def watcher(self, environment: Mapping[str, str]) -> Child:
        """Started, not necessarily synced."""
        return self._start("watcher", "watcher", environment=environment)

    def python(self, module: str, *options: str, environment: Mapping[str, str]) -> Child:
        """Any other process of a measurement."""
        return self._start(module.rpartition(".")[2], module, *options, environment=environment)

    def wait_for(self, what: str, look: Callable[[], T | None], seconds: float) -> T:
        """What `look` finds. Raises Terminal when the time is over, or when a process ended."""
        return self.stage.wait_for(what, look, deadline=time.monotonic() + seconds)

    def stop(self, *children: Child) -> None:
        """End them in good order."""
        self.stage.stop(children)

    def _start(self, name: str, module: str, *options: str, environment: Mapping[str, str] | None = None) -> Child:
        self._started += 1
        command = [sys.executable, "-m", module, *options]
        surroundings = _inherited() if environment is None else environment
        (child,) = self.stage.start({f"{name}-{self._started}": command}, surroundings)
        return child

    def _file(self, name: str) -> Path:
        self._started += 1
        return self.stage.directory / f"{name}-{self._started}"

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        self.wait_for(what, lambda: condition() or None, START_SECONDS)


@contextmanager
def site() -> Iterator[Site]:
    """An empty site."""
    with Stage() as stage:
        yield Site(stage)


def settings(server: ApiServer, redis: RedisServer | None = None, **changes: str) -> dict[str, str]:
    """The settings of every Sexton process, by name; limits are lifted."""
    return {
        "kubeconfig": str(server.kubeconfig),
        **({"broker_url": redis.url} if redis else {}),
        "instance": "bench",
        "pod_namespace": inputs.NAMESPACE,
        "enable_tombstone_recovery": "true",
        "requests_per_second": f"{UNLIMITED.requests_per_second:.0f}",
        "burst": f"{UNLIMITED.burst:.0f}",
        "slice_writes_per_second": f"{UNLIMITED.slice_writes_per_second:.0f}",
        **changes,
    }


def environment(fields: Mapping[str, str], **more: str) -> dict[str, str]:
    """The environment of a Sexton process with these settings."""
    return _inherited() | {variable(name): value for name, value in fields.items()} | more


def connect(server: ApiServer, agent: str) -> HttpCluster:
    """A client of our own, without limits."""
    connection = replace(load_connection(str(server.kubeconfig)), proxy="")
    return HttpCluster(connection, user_agent=agent, limits=UNLIMITED)


def resident(child: Child) -> float:
    """MiB of memory that the process itself holds."""
    status = Path(f"/proc/{child.process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """Processor seconds of a process and of its living children so far."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    ticks = 0
    for each in (str(pid), *children.split()):
        # The name, in parentheses, may hold blanks.
        fields = Path(f"/proc/{each}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _inherited() -> dict[str, str]:
    """Nothing of the settings and proxies of whoever started the benchmark, and the sources to import from."""
    foreign = {"KUBECONFIG", "NO_PROXY", *map(variable, Settings.model_fields)}
    kept = {name: value for name, value in os.environ.items() if name.upper() not in foreign}
    return kept | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONPATH": str(ROOT)}
