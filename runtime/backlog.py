"""How much there is to do, as Redis knows it: waiting and reserved messages, parked keys, and whether Redis is fit.

One process exports this, the watcher that leads: every worker would tell the same of all of them, and a sum over
pods would count each message as often as there are workers. Workers that are scaled to nothing tell nothing at
all, while autoscaling most needs to know; the watcher is always there.

Reserved messages count. A message that a worker has taken is in no queue any more but in Celery's hash of
unacknowledged messages, so whoever scales by the length of the queues alone takes busy workers away.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import redis
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eno.errors import BrokerUnavailable
from runtime.broker import Keys, findings_in, translated
from runtime.messages import TaskName
from runtime.settings import Settings

_SECONDS = 2.0
"""For an answer. A scrape that waited for a Redis that is away would lose everything else it came for."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Per task: messages that wait, messages with workers, keys that are parked. And what is wrong with Redis."""

    waiting: Counter[TaskName]
    reserved: Counter[TaskName]
    parked: Counter[TaskName]
    defects: tuple[str, ...] = ()


class BacklogReader:
    """Reads the backlog of one instance. Safe to share between threads. `clock` returns epoch seconds."""

    def __init__(self, settings: Settings, client: redis.Redis, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._host = settings.broker_host
        self._queues = {task: task.queue(settings.instance) for task in TaskName}
        self._unacknowledged = f"{settings.instance}.unacked"
        self._parked = Keys(settings.instance).parked_index

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """Connects at the first read."""
        client = redis.Redis.from_url(
            settings.broker_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_connect_timeout=_SECONDS,
            socket_timeout=_SECONDS,
            client_name=f"{settings.instance}-backlog",
        )
        return cls(settings, client)

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    def read(self) -> Backlog:
        """The backlog now. Raises BrokerUnavailable."""
        with translated(self._host), self._client.pipeline(transaction=False) as pipe:
            for queue in self._queues.values():
                pipe.llen(queue)
            pipe.hvals(self._unacknowledged)
            pipe.zrangebyscore(self._parked, self._clock(), "+inf")
            pipe.info()
            *lengths, reserved, parked, info = pipe.execute()
        return Backlog(
            waiting=Counter(dict(zip(self._queues, map(int, lengths), strict=True))),
            reserved=Counter(self._tasks_of(reserved)),
            parked=Counter(_tasks_of_keys(parked)),
            defects=tuple(finding.message for finding in findings_in(info, self._host)),
        )

    def _tasks_of(self, messages: Iterable[str]) -> Iterator[TaskName]:
        """kombu keeps `[message, exchange, routing key]`; ours have the queue for a routing key."""
        tasks = {queue: task for task, queue in self._queues.items()}
        for text in messages:
            match _decoded(text):
                case [_, _, str(queue)] if queue in tasks:
                    yield tasks[queue]


class BacklogCollector(Collector):
    """Exports the backlog at each scrape, and nothing while `leads` says no: one process tells of it."""

    def __init__(self, reader: BacklogReader, leads: Callable[[], bool]) -> None:
        self._reader = reader
        self._leads = leads

    def describe(self) -> Iterable[Metric]:
        """Says without a scrape what there will be; registering asks for nothing else."""
        return _families()

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client's Collector."""
        if not self._leads():
            return
        messages, parked, fit = _families()
        try:
            backlog = self._reader.read()
        except BrokerUnavailable:
            fit.add_metric([], 0)
            yield fit
            return
        for task in TaskName:
            messages.add_metric([task.short, "waiting"], backlog.waiting[task])
            messages.add_metric([task.short, "reserved"], backlog.reserved[task])
            parked.add_metric([task.short], backlog.parked[task])
        fit.add_metric([], 0 if backlog.defects else 1)
        yield from (messages, parked, fit)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            "sexton_queue_messages",
            "Messages in a queue (waiting) and with workers (reserved). From the leading watcher.",
            labels=["task", "state"],
        ),
        GaugeMetricFamily(
            "sexton_parked_keys", "Keys that wait for a change or a person. From the leading watcher.", labels=["task"]
        ),
        GaugeMetricFamily("sexton_broker_fit", "1 when Redis answers and is configured as it has to be, else 0."),
    )


def _tasks_of_keys(keys: Iterable[str]) -> Iterator[TaskName]:
    tasks = {task.short: task for task in TaskName}
    return (tasks[short] for key in keys if (short := key.partition(":")[0]) in tasks)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
