"""What one process of the worker pool holds: connections to Redis and to the API servers, and its executor.

All of it is made at the first task and so after the fork: a connection that two processes share mixes up answers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version

from kube.config import Connection, load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from runtime.claims import Claims
from runtime.corrections import CorrectionCounter
from runtime.metrics import Meter, Unmetered, observe_requests
from runtime.settings import Settings
from workers.context import Context
from workers.execution import Executor


class WorkerProcess:
    """The long-lived objects of one process. Cheap until `executor` is asked for.

    `meter` takes what the process counts; whoever has one to count with sets it before the fork.
    """

    def __init__(self, settings: Settings) -> None:
        self.meter: Meter = Unmetered()
        self._settings = settings
        self._clusters: list[HttpCluster] = []

    @cached_property
    def executor(self) -> Executor:
        """Executes this process' messages."""
        return Executor(self._settings, self._claims, lambda: self._context, self.meter)

    def close(self) -> None:
        """Drop the connections that were made."""
        if "_claims" in vars(self):
            self._claims.close()
        if "_corrections" in vars(self):
            self._corrections.close()
        for cluster in self._clusters:
            cluster.close()

    @cached_property
    def _claims(self) -> Claims:
        return Claims.connect(self._settings)

    @cached_property
    def _corrections(self) -> CorrectionCounter:
        return CorrectionCounter.connect(self._settings)

    @cached_property
    def _context(self) -> Context:
        upstream, downstream = load_connections(self._settings)
        first = self._cluster(upstream)
        second = first if downstream is None else self._cluster(downstream)
        return Context(first, second, lambda: datetime.now(UTC), self._settings, self._corrections, self.meter)

    def _cluster(self, connection: Connection) -> HttpCluster:
        settings = self._settings
        limits = RateLimits(settings.requests_per_second, settings.burst, settings.slice_writes_per_second)
        cluster = HttpCluster(
            connection,
            user_agent=f"sexton-worker/{version('sexton')}",
            limits=limits,
            observe=observe_requests(self.meter),
        )
        self._clusters.append(cluster)
        return cluster


def load_connections(settings: Settings) -> tuple[Connection, Connection | None]:
    """How to reach the upstream and, where it is another cluster, the downstream API server.

    Connects to neither. Raises UsageError when a kubeconfig cannot be used.
    """
    upstream = load_connection(None if settings.kubeconfig is None else str(settings.kubeconfig))
    if settings.downstream_kubeconfig is None:
        return upstream, None
    return upstream, load_connection(str(settings.downstream_kubeconfig))
