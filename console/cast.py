"""The processes of the demo: two API servers, Redis, workers and the watcher, on loopback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from console.stage import Child, Stage
from eno.errors import UsageError
from kube.cluster import Query, list_all
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, NAMESPACES
from runtime.messages import TaskName
from runtime.redis_server import start_redis
from runtime.settings import Settings, variable

NAMESPACE = "demo"
RECOVERER, KEEPER = "worker-1", "worker-2"
WORKERS: Mapping[str, tuple[TaskName, ...]] = {
    RECOVERER: (TaskName.RECOVER,),
    KEEPER: (TaskName.GATE, TaskName.RECORD, TaskName.CLEANUP, TaskName.RETIRE),
}
"""The worker processes, and the tasks that each consumes. Apart, so that one can be looked at without the other."""

STAND_IN = "eno-stand-in"

# A whole cluster's life is played in seconds, without an etcd that slice writes could endanger.
_UNHURRIED = RateLimits(requests_per_second=10_000, burst=10_000, slice_writes_per_second=10_000)


@dataclass(frozen=True, slots=True)
class Server:
    """An API server of the demo: how to reach it, and where it writes down every request."""

    name: str
    kubeconfig: Path
    audit_log: Path

    def connect(self, user_agent: str = STAND_IN) -> HttpCluster:
        """By default as the stand-in for Eno. Never through a proxy: the server is on this machine."""
        connection = replace(load_connection(str(self.kubeconfig)), proxy="")
        return HttpCluster(connection, user_agent=user_agent, limits=_UNHURRIED)


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is on stage. `settings` are those of every Sexton process, and of the plan that is shown."""

    stage: Stage
    upstream: Server
    downstream: Server
    settings: Settings
    environment: Mapping[str, str]

    def start_workers(self, *names: str) -> tuple[Child, ...]:
        """Start these worker processes, or all; each executes one of its tasks at a time."""
        commands = {name: [*_python("celery"), *_worker(name, self.settings.instance)] for name in names or WORKERS}
        return self.stage.start(commands, self.environment)

    def start_watcher(self) -> tuple[Child, ...]:
        """Start the watcher."""
        return self.stage.start({"watcher": _python("watcher")}, self.environment)


def require_devcluster() -> None:
    """Raises UsageError, naming what to install, when the API servers could not be started."""
    try:
        importlib.import_module("devcluster.server")
    except ImportError as error:
        raise UsageError(f"the package {error.name} is not installed", hint="pip install 'sexton[demo]'") from error


def assemble(stage: Stage, deadline: float) -> Cast:
    """Start Redis and the two API servers, and return once they answer.

    Raises UsageError when there is no Redis program, Terminal when something does not start by `deadline`
    (`time.monotonic()` seconds).
    """
    redis = start_redis(stage.directory)
    stage.adopt(redis.pid, redis.stop)
    upstream, downstream = start_servers(stage, deadline)
    fields = {
        "kubeconfig": str(upstream.kubeconfig),
        "downstream_kubeconfig": str(downstream.kubeconfig),
        "broker_url": redis.url,
        "instance": "demo",
        "pod_namespace": NAMESPACE,
        "composition_namespace": NAMESPACE,
        "enable_tombstone_recovery": "true",
        **{name: str(int(value)) for name, value in asdict(_UNHURRIED).items()},
    }
    return Cast(stage, upstream, downstream, Settings.load(**fields), _environment(fields))


def start_servers(stage: Stage, deadline: float) -> tuple[Server, Server]:
    """Start an upstream and a downstream API server, and return once they answer. Raises Terminal."""
    servers = _server(stage, "upstream"), _server(stage, "downstream")
    stage.start({server.name: _devcluster(server) for server in servers}, _environment({}))
    for server in servers:
        stage.wait_for(f"{server.name} API server", partial(_answer, server), deadline=deadline)
    return servers


def _server(stage: Stage, name: str) -> Server:
    return Server(name, stage.directory / f"{name}.kubeconfig", stage.directory / f"{name}.audit")


def _answer(server: Server) -> bool | None:
    if not server.kubeconfig.exists():
        return None
    cluster = server.connect()
    list_all(cluster, Query(NAMESPACES))
    list_all(cluster, Query(COMPOSITIONS))
    return True


def _devcluster(server: Server) -> list[str]:
    options = {"--port": "0", "--kubeconfig": str(server.kubeconfig), "--audit-log": str(server.audit_log)}
    return [*_python("devcluster"), *(word for option in options.items() for word in option)]


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _worker(name: str, instance: str) -> list[str]:
    queues = ",".join(task.queue(instance) for task in WORKERS[name])
    options = ["--concurrency", "1", "--hostname", f"{name}@demo", "--queues", queues]
    # What workers tell each other is of no use to two of them, and takes them a second each to begin with.
    return ["-A", "workers", "worker", *options, "--without-gossip", "--without-mingle"]


def _environment(fields: Mapping[str, str]) -> dict[str, str]:
    """What the children see: nothing of the settings and proxies of whoever started the demo."""
    foreign = {"KUBECONFIG", "NO_PROXY", *map(variable, Settings.model_fields)}
    inherited = {name: value for name, value in os.environ.items() if name.upper() not in foreign}
    ours = {variable(name): value for name, value in fields.items()}
    return inherited | ours | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
