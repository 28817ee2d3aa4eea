"""What a worker tells of itself: probes and metrics, served by the parent process of the pool.

Celery makes the parts at the end of this module by itself and hands them nothing but its application, so that
carries the `Monitor` for them. Children inherit what the parent has open when they are forked, and close it.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import prometheus_client
from billiard.exceptions import WorkerLostError
from celery import Celery, bootsteps
from celery.worker import state
from celery.worker.request import Request
from prometheus_client import CollectorRegistry

from eno.decision import Reason
from runtime.broker import BrokerWatch
from runtime.health import ProbeServer
from runtime.messages import TaskName
from runtime.metrics import DECISIONS, TASKS, WORKER_FAMILIES, Metrics, add_build_info
from runtime.settings import Settings
from workers.execution import Failure
from workers.metering import Pipe
from workers.outcome import Kind
from workers.process import WorkerProcess
from workers.pulse import Load, Pulse
from workers.refusal import one_line_errors

TURN_SECONDS = 1.0
"""How often the event loop notes that it turns."""

log = logging.getLogger(__name__)


class Monitor:
    """The pulse and the metrics of a worker. Nothing is opened or started before `open` and `serve`."""

    def __init__(self, settings: Settings, process: WorkerProcess) -> None:
        self.pulse = Pulse(stall=settings.stall_seconds, limit=settings.task_time_limit)
        self.registry = CollectorRegistry()
        self._settings = settings
        self._process = process
        self._metrics = Metrics(self.registry, WORKER_FAMILIES)
        self._start_at_zero()
        self._in_flight = prometheus_client.Gauge(
            "sexton_tasks_in_flight",
            "Tasks of this worker that have a process (active) or wait for one (reserved).",
            ("task", "state"),
            registry=self.registry,
        )
        self._reconnects = prometheus_client.Counter(
            "sexton_broker_reconnects_total", "Connections to Redis made after the first one.", registry=self.registry
        )
        ready = prometheus_client.Gauge(
            "sexton_worker_ready", "1 while `/readyz` has nothing to say, else 0.", registry=self.registry
        )
        ready.set_function(lambda: 0 if self.pulse.unready() else 1)
        add_build_info(self.registry, "worker")
        self._connected_before = False
        self._process_id = os.getpid()
        self._pipe: Pipe | None = None
        self._server: ProbeServer | None = None

    @property
    def wanted(self) -> bool:
        """Whether anybody is to be told anything."""
        return self._settings.health_port is not None

    def open(self) -> None:
        """Before the first fork: from now on the children's counts arrive here."""
        self._process_id = os.getpid()
        self._pipe = Pipe(self._metrics)
        self._process.meter = self._pipe

    def serve(self) -> None:
        """Start to answer. Raises UsageError when the address cannot be had."""
        host, port = self._settings.health_host, self._settings.health_port or 0
        checks = {"/healthz": self.pulse.stuck, "/readyz": self.pulse.unready}
        self._server = ProbeServer(host, port, checks, self.registry)
        BrokerWatch(self._settings, self.pulse.checked).start()
        extra = {"action": "probes-started", "port": self._server.port}
        log.info("probes at http://%s:%d", host, self._server.port, extra=extra)

    def disown(self) -> None:
        """In a forked child: leave the port and the reading of counts to the parent."""
        if os.getpid() == self._process_id:
            return  # a pool without processes
        if self._pipe is not None:
            self._pipe.disown()
        if self._server is not None:
            self._server.disown()

    def connected(self) -> None:
        """The consumer has a connection, and consumes."""
        if self._connected_before:
            self._reconnects.inc()
        self._connected_before = True
        self.pulse.consuming = True
        self.pulse.answered()

    def turned(self, active: Iterable[Request], reserved: Iterable[Request], processes: int) -> None:
        """The event loop came round. `reserved` are all the requests of this worker, the active ones among them."""
        running, taken = list(active), list(reserved)
        now = time.time()
        starts = [self.pulse.clock() - (now - request.time_start) for request in running if request.time_start]
        latest = max(starts) if len(starts) >= processes > 0 else None
        self.pulse.turned(Load(room=len(taken) < processes, latest_start=latest))
        waiting = Counter(_short(request) for request in taken)
        waiting.subtract(_short(request) for request in running)
        self._show("active", Counter(map(_short, running)))
        self._show("reserved", +waiting)

    def killed(self, request: Request) -> None:
        """The process that ran the task is dead."""
        self._metrics.record(TASKS, 1, _short(request), Failure.KILLED)

    def _start_at_zero(self) -> None:
        """A rate sees nothing of a series that begins with its first event, and some events come once a year."""
        for reason in Reason:
            self._metrics.record(DECISIONS, 0, reason)
        for task in TaskName:
            for outcome in (*Kind, *Failure):
                self._metrics.record(TASKS, 0, task.short, outcome)

    def _show(self, state: str, counts: Counter[str]) -> None:
        for task in TaskName:
            self._in_flight.labels(task.short, state).set(counts[task.short])


class Monitored(Celery):  # type: ignore[misc]
    """Celery's application, with what its steps and requests report to."""

    monitor: Monitor


class ServerStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Serves probes and metrics from the moment that the pool has started, and until the process ends.

    Not until the worker stops: whether it still makes progress is asked most while it waits for its last tasks.
    """

    requires = ("celery.worker.components:Pool",)

    def include_if(self, worker: Any) -> bool:
        """Only where a port is configured."""
        return bool(worker.app.monitor.wanted)

    def create(self, worker: Any) -> None:
        """Called before any step starts, and so before the pool forks."""
        worker.app.monitor.open()

    def start(self, worker: Any) -> None:
        """Raises SystemExit, which ends the worker, when the address cannot be had."""
        with one_line_errors():
            worker.app.monitor.serve()


class PulseStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Notes each connection of the consumer and each turn of its event loop."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Called after each connection that was made."""
        consumer.app.monitor.connected()

    def stop(self, consumer: Any) -> None:
        """Called when the connection is lost, and at the end."""
        consumer.app.monitor.pulse.consuming = False

    def register_with_event_loop(self, consumer: Any, hub: Any) -> None:
        """Called after `start`. Celery takes the timer away again when the connection is lost."""
        hub.call_repeatedly(TURN_SECONDS, self._turn, consumer)

    def _turn(self, consumer: Any) -> None:
        # As Celery itself counts the room that a worker without prefetching has.
        processes = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
        consumer.app.monitor.turned(state.active_requests, state.reserved_requests, processes)


class CountedRequest(Request):  # type: ignore[misc]
    """A task as the parent process sees it, which alone learns that the process running it is dead."""

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """The soft limit is an exception within the task; at the hard limit its process is killed."""
        super().on_timeout(soft, timeout)
        if not soft:
            self.app.monitor.killed(self)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """The hard limit does not come this way."""
        # Wrapped when it comes from another process. Newer pools report the exit of a process, and no loss.
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, WorkerLostError | SystemExit):
            self.app.monitor.killed(self)
        return super().on_failure(exc_info, send_failed_event, return_ok)


def _short(request: Request) -> str:
    return str(request.name).partition(".")[2]
