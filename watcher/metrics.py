"""What a watcher tells Prometheus: read at each scrape from what its parts know anyway, so nothing is counted twice.

How much waits in Redis is told by `runtime.backlog`, requests to the API servers by `runtime.metrics`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube.reflector import Stats
from runtime.messages import TaskName
from watcher.keys import Kind
from watcher.process import Watcher

_COUNTS = (
    ("lists", "relists", "Complete lists, the first one among them."),
    ("watches", "watches", "Watches that were opened."),
    ("events", "events", "Events that watches brought."),
    ("errors", "errors", "Lists and watches that failed."),
    ("stalls", "stalls", "Calls and watches that went silent."),
    ("expired", "expired", "Versions and continue tokens that were too old, so that the list began anew."),
    ("checks", "version_checks", "Questions for the server's version, after a watch that told nothing."),
    ("rewinds", "rewinds", "Times that the server was found behind what it had told before: restored from a backup."),
)
_INSTANTS = (
    ("last_event", "When a watch last brought an event."),
    ("last_list", "When a list was last complete."),
    ("last_contact", "When the API server last said anything of use."),
)
_NAMES = {"last_list": "last_relist"}
_FOLLOWED = (Kind.COMPOSITION, Kind.SLICE, Kind.INVENTORY)


class WatcherCollector(Collector):
    """Exports one watcher. `clock` is that of its streams (monotonic seconds), `wall` gives epoch seconds."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._watcher = watcher
        self._clock = clock
        self._wall = wall

    def describe(self) -> Iterable[Metric]:
        """Says without a scrape what there will be; registering asks for nothing else."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client's Collector."""
        stats = {stream.query.resource.plural: stream.stats for stream in self._watcher.streams}
        yield _gauge("leader", "1 while this process holds the lease, else 0.", int(self._watcher.candidate.leads))
        yield from self._streams(stats)
        yield from self._cached()
        yield from self._dispatched()

    def _streams(self, stats: dict[str, Stats]) -> Iterator[Metric]:
        synced = GaugeMetricFamily("sexton_watcher_synced", "1 once the first list was complete.", labels=["resource"])
        for resource, each in stats.items():
            synced.add_metric([resource], int(each.synced))
        yield synced
        for field, name, help_ in _COUNTS:
            counter = CounterMetricFamily(f"sexton_watcher_{name}", help_, labels=["resource"])
            for resource, each in stats.items():
                counter.add_metric([resource], attrgetter(field)(each))
            yield counter
        behind = self._wall() - self._clock()
        for field, help_ in _INSTANTS:
            name = f"sexton_watcher_{_NAMES.get(field, field)}_timestamp_seconds"
            instants = GaugeMetricFamily(name, f"{help_} Epoch seconds.", labels=["resource"])
            for resource, each in stats.items():
                at = attrgetter(field)(each)
                if at is not None:
                    instants.add_metric([resource], behind + at)
            yield instants

    def _cached(self) -> Iterator[Metric]:
        survey = self._watcher.cache.survey()
        objects = GaugeMetricFamily("sexton_watcher_objects", "Objects that are known.", labels=["kind"])
        unreadable = GaugeMetricFamily(
            "sexton_watcher_unreadable_objects", "Objects that cannot be read and are left alone.", labels=["kind"]
        )
        for kind in _FOLLOWED:
            objects.add_metric([kind], survey.objects[kind])
            unreadable.add_metric([kind], survey.unreadable[kind])
        yield objects
        yield unreadable
        yield _gauge("undecided_compositions", "Compositions that wait for their recovery decision.", survey.undecided)
        oldest, now = survey.oldest_undecided, datetime.fromtimestamp(self._wall(), UTC)
        age = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
        yield _gauge(
            "oldest_undecided_seconds",
            "Age of the oldest synthesis that waits for its decision; 0 when none does.",
            age,
        )

    def _dispatched(self) -> Iterator[Metric]:
        tally = self._watcher.follower.tally
        enqueued = CounterMetricFamily("sexton_watcher_enqueued", "Messages put into the queues.", labels=["task"])
        for task in TaskName:
            enqueued.add_metric([task.short], tally.enqueued[task])
        yield enqueued
        yield _counter("looks", "Looks at a key that was due.", tally.looks)
        yield _counter("broker_errors", "Times that Redis failed while messages were put into it.", tally.broker_errors)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(f"sexton_watcher_{name}", help_, value=value)


def _counter(name: str, help_: str, value: float) -> Metric:
    return CounterMetricFamily(f"sexton_watcher_{name}", help_, value=value)
