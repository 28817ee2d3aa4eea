"""Counts that cross the fork: whole lines, from any number of children, some of which die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from runtime.metrics import TASKS, WORKER_FAMILIES, Metrics
from tests.support.waiting import until
from workers.metering import Pipe


def piped() -> tuple[Pipe, CollectorRegistry]:
    registry = CollectorRegistry()
    return Pipe(Metrics(registry, WORKER_FAMILIES)), registry


def counted(registry: CollectorRegistry, outcome: str) -> float:
    return registry.get_sample_value("sexton_tasks_total", {"task": "gate", "outcome": outcome}) or 0


def test_what_children_count_is_counted_by_their_parent_although_they_are_killed() -> None:
    pipe, registry = piped()
    children = []
    for _ in range(3):
        if (child := os.fork()) == 0:
            pipe.disown()
            for _ in range(100):
                pipe.record(TASKS, 1, "gate", "done")
            os.kill(os.getpid(), signal.SIGKILL)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    until(lambda: counted(registry, "done") == 300, "300 counts arrived")


def test_nobody_waits_for_a_parent_that_does_not_read() -> None:
    resumed = threading.Event()

    class Stopped(Metrics):
        def record_named(self, name: str, value: float, labels: Sequence[str]) -> None:
            resumed.wait()
            super().record_named(name, value, labels)

    registry = CollectorRegistry()
    pipe = Pipe(Stopped(registry, WORKER_FAMILIES))
    for _ in range(10_000):
        pipe.record(TASKS, 1, "gate", "done")
    resumed.set()
    pipe.record(TASKS, 1, "gate", "waiting")
    until(lambda: counted(registry, "done") > 0, "counts arrive again")
    assert counted(registry, "done") < 10_000, "more than a pipe holds were lost"
