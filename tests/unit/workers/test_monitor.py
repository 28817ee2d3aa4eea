"""What a worker tells of itself, from what Celery's loop and requests report."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from eno.decision import Reason
from runtime.messages import TaskName
from runtime.metrics import TOMBSTONES
from tests.support.hints import settings
from tests.support.waiting import until
from workers.app import create_app
from workers.execution import Failure
from workers.monitor import CountedRequest, Monitor, PulseStep, ServerStep
from workers.outcome import Kind
from workers.process import WorkerProcess


@pytest.fixture
def monitor() -> Monitor:
    return create_app(settings()).monitor


def request(task: str = "sexton.recover", *, started: float | None = None) -> SimpleNamespace:
    return SimpleNamespace(name=task, time_start=started)


def in_flight(monitor: Monitor, task: str, state: str) -> float | None:
    return monitor.registry.get_sample_value("sexton_tasks_in_flight", {"task": task, "state": state})


def test_nothing_is_served_unless_a_port_is_configured() -> None:
    assert not create_app(settings()).monitor.wanted
    assert create_app(settings(health_port=0)).monitor.wanted


def test_what_may_happen_once_a_year_is_at_zero_from_the_start(monitor: Monitor) -> None:
    """Prometheus sees no increase of a series that begins with its first event."""
    for reason in Reason:
        assert monitor.registry.get_sample_value("sexton_decisions_total", {"reason": reason}) == 0
    for task in TaskName:
        for outcome in (*Kind, *Failure):
            labels = {"task": task.short, "outcome": outcome}
            assert monitor.registry.get_sample_value("sexton_tasks_total", labels) == 0


def test_the_first_connection_is_no_reconnect(monitor: Monitor) -> None:
    monitor.connected()
    assert monitor.registry.get_sample_value("sexton_broker_reconnects_total") == 0
    monitor.connected()
    assert monitor.registry.get_sample_value("sexton_broker_reconnects_total") == 1


def test_running_tasks_are_apart_from_those_that_wait(monitor: Monitor) -> None:
    running, waiting, other = request(started=1.0), request(), request("sexton.gate")
    monitor.turned([running], [running, waiting, other], 4)
    assert in_flight(monitor, "recover", "active") == 1
    assert in_flight(monitor, "recover", "reserved") == 1
    assert in_flight(monitor, "gate", "reserved") == 1
    monitor.turned([], [], 4)
    assert [in_flight(monitor, "recover", state) for state in ("active", "reserved")] == [0, 0]


@pytest.mark.parametrize(
    ("ages", "processes", "stuck"),
    [
        pytest.param([1000, 1000], 2, True, id="all are overdue"),
        pytest.param([1000, 10], 2, False, id="one is young"),
        pytest.param([1000], 2, False, id="one is free"),
        pytest.param([], 0, False, id="there are none yet"),
    ],
)
def test_a_pool_is_overdue_when_all_of_its_processes_are(ages: list[float], processes: int, stuck: bool) -> None:
    monitor = create_app(settings(task_time_limit=300, stall_seconds=90)).monitor
    running = [request(started=time.time() - age) for age in ages]
    monitor.turned(running, running, processes)
    assert bool(monitor.pulse.stuck()) is stuck


def test_the_steps_are_part_of_the_application() -> None:
    app = create_app(settings())
    assert ServerStep in app.steps["worker"]
    assert PulseStep in app.steps["consumer"]
    assert {app.tasks[str(name)].Request for name in TaskName} == {CountedRequest}


def test_a_pool_without_processes_counts_as_well() -> None:
    """Celery announces a new process there, too, although it is the old one."""
    process = WorkerProcess(settings())
    monitor = Monitor(settings(health_port=0), process)
    monitor.open()
    monitor.disown()
    process.meter.record(TOMBSTONES, 3)
    until(lambda: monitor.registry.get_sample_value("sexton_tombstones_written_total") == 3, "it is counted")
