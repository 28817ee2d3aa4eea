"""What is counted and measured, by names that dashboards and alerts rely on.

Labels come from small closed sets: tasks, outcomes, reasons, verbs, kinds of resources, status codes. Nothing is
labelled with the name of an object, of which there is no end.

Whoever counts holds a `Meter` and knows neither the registry nor the process that it lives in: the processes of a
worker's pool send what they count to their parent (`workers.metering`), which alone is asked for it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

NO_ANSWER = "none"
"""The `code` of a request that was not answered."""

_TASK_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 300)
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: a counter, or a histogram where there are `buckets` (upper bounds in the unit of its name)."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


API_REQUESTS = Family(
    "sexton_api_requests_total",
    f"Requests to an API server. `code` is the HTTP status, or `{NO_ANSWER}` without an answer.",
    ("verb", "resource", "code"),
)
API_REQUEST_SECONDS = Family(
    "sexton_api_request_duration_seconds",
    "Seconds from sending a request to the head of its answer.",
    ("verb", "resource"),
    _REQUEST_SECONDS,
)
TASKS = Family("sexton_tasks_total", "Executions of tasks that ended, by outcome.", ("task", "outcome"))
TASK_SECONDS = Family("sexton_task_duration_seconds", "Seconds that an execution took.", ("task",), _TASK_SECONDS)
DECISIONS = Family("sexton_decisions_total", "Recovery decisions published, by reason.", ("reason",))
TOMBSTONES = Family("sexton_tombstones_written_total", "Tombstones written into resource slices.")
HELD = Family("sexton_identities_held_total", "Identities that were not buried because something wanted lives in them.")
MASS_BURIALS = Family(
    "sexton_mass_burials_total", "Plans that would bury more than half of an inventory, when announced."
)

API_FAMILIES = (API_REQUESTS, API_REQUEST_SECONDS)
"""Of every process that speaks to an API server."""

WORKER_FAMILIES = (*API_FAMILIES, TASKS, TASK_SECONDS, DECISIONS, TOMBSTONES, HELD, MASS_BURIALS)
"""Of a worker. Parked executions are those with the outcome `parked`."""


class Meter(Protocol):
    """Takes what happened. Never raises, and never waits."""

    def record(self, family: Family, value: float = 1.0, *labels: str) -> None:
        """Add to a counter, or observe in a histogram. `labels` are the values, in the family's order."""
        ...


class Unmetered:
    """For processes that nobody asks for metrics."""

    def record(self, family: Family, value: float = 1.0, *labels: str) -> None:
        """See Meter."""


class Metrics:
    """The families of one process, in its registry. Safe to share between threads."""

    def __init__(self, registry: CollectorRegistry, families: Sequence[Family]) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for family in families:
            if family.buckets:
                self._histograms[family.name] = Histogram(
                    family.name, family.help, family.labels, buckets=family.buckets, registry=registry
                )
            else:
                self._counters[family.name] = Counter(family.name, family.help, family.labels, registry=registry)

    def record(self, family: Family, value: float = 1.0, *labels: str) -> None:
        """See Meter."""
        self.record_named(family.name, value, labels)

    def record_named(self, name: str, value: float, labels: Sequence[str]) -> None:
        """As `record`, for what another process sent. Raises KeyError for a family that is not among these."""
        if name in self._histograms:
            histogram = self._histograms[name]
            (histogram.labels(*labels) if labels else histogram).observe(value)
        else:
            counter = self._counters[name]
            (counter.labels(*labels) if labels else counter).inc(value)


def observe_requests(meter: Meter) -> Callable[[str, str, int | None, float], None]:
    """What `kube.http.HttpCluster` tells of each request: verb, plural of the resource, status, seconds."""

    def observe(verb: str, resource: str, status: int | None, seconds: float) -> None:
        meter.record(API_REQUESTS, 1.0, verb, resource, NO_ANSWER if status is None else str(status))
        meter.record(API_REQUEST_SECONDS, seconds, verb, resource)

    return observe


def add_build_info(registry: CollectorRegistry, component: str) -> None:
    """`sexton_build_info`: which version runs as what (`watcher`, `worker`)."""
    info: Mapping[str, str] = {
        "version": version("sexton"),
        "python": platform.python_version(),
        "component": component,
    }
    gauge = Gauge("sexton_build_info", "Always 1; its labels say what runs.", tuple(info), registry=registry)
    gauge.labels(**info).set(1)
