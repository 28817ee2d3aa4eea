"""Probes and metrics of real workers: between a Redis that comes and goes and an API server that may be silent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import urllib3

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from devcluster.store import Store
from kube.resources import COMPOSITIONS, NAMESPACES
from runtime.broker import connect
from runtime.dispatch import Dispatcher
from runtime.messages import RecoverMessage, TaskName
from runtime.settings import Settings
from tests.monitoring.probes import Probes
from tests.support.factories import NAMESPACE, composition_json, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import ROOT, Worker, running_worker
from workers.app import create_app

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into processes through /proc")


def settings_for(url: str, kubeconfig: Path, **overrides: Any) -> Settings:
    fields = {"broker_url": url, "kubeconfig": kubeconfig, "pod_namespace": NAMESPACE, "health_port": 0}
    return Settings.load(enable_tombstone_recovery=True, **(fields | overrides))


@pytest.fixture
def silent_kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of an API server that accepts connections and never answers, so a task runs for as long as it may."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = tmp_path / "kubeconfig"
        write_kubeconfig(path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        yield path


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a development cluster with one composition, `shop`, that needs no recovery."""
    store = Store(seed="probes")
    load_definitions(store, [definitions.development_directory()])
    body = composition_json("shop", uid=None, current=synthesis("s1", tombstoneRecoveryRequired=False))
    with Server(store).running() as server:
        path = tmp_path_factory.mktemp("devcluster") / "kubeconfig"
        write_kubeconfig(path, server.url)
        store.create(store.kind(NAMESPACES.group, NAMESPACES.plural), None, {"metadata": {"name": NAMESPACE}})
        store.create(store.kind(COMPOSITIONS.group, COMPOSITIONS.plural), NAMESPACE, body)
        yield path


Working: TypeAlias = tuple[Worker, Probes, Settings]


@contextmanager
def working(directory: Path, kubeconfig: Path, **overrides: Any) -> Iterator[Working]:
    """A worker beside a Redis of its own, ready."""
    with ExitStack() as stack:
        server = stack.enter_context(running_redis(directory))
        settings = settings_for(server.url, kubeconfig, **overrides)
        worker = stack.enter_context(running_worker(directory, settings))
        probes = Probes(worker)
        until(probes.ready, "ready")
        yield worker, probes, settings


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory, kubeconfig: Path) -> Iterator[Working]:
    """A worker for tests that leave it as they found it."""
    with working(tmp_path_factory.mktemp("idle"), kubeconfig) as worker:
        yield worker


def send(settings: Settings, name: str = "shop") -> None:
    fields = {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}", "synthesis_uuid": "s1"}
    dispatcher = Dispatcher.connect(settings)
    dispatcher.enqueue(RecoverMessage.model_validate({"scope": settings.scope} | fields))
    dispatcher.close()


@needs_proc
def test_what_the_children_do_is_shown_by_their_parent(idle: Working) -> None:
    worker, probes, settings = idle
    assert probes.live()
    assert probes.sample("sexton_worker_ready") == 1
    assert probes.sample("sexton_build_info", component="worker") == 1
    send(settings)
    until(lambda: probes.sample("sexton_tasks_total", task="recover", outcome="superseded") == 1, "it is counted")
    assert probes.sample("sexton_task_duration_seconds_count", task="recover") == 1
    assert probes.sample("sexton_api_requests_total", verb="get", resource="compositions", code="200") == 1
    assert listeners(probes.port, worker.children()[0]) == 0, "no child keeps the port"
    os.kill(worker.children()[0], signal.SIGKILL)
    send(settings, "another")
    until(lambda: probes.sample("sexton_api_requests_total", code="404") == 1, "another child counts on")
    assert listeners(probes.port, worker.children()[0]) == 0, "nor does one that was forked later"
    until(lambda: probes.sample("sexton_tasks_total", task="recover", outcome="superseded") == 2, "nothing was lost")


def listeners(port: int, process: int) -> int:
    """How many descriptors of the process are the socket that listens on a local port."""
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = {f"socket:[{row[9]}]" for row in table if int(row[1].rpartition(":")[2], 16) == port and row[3] == "0A"}
    assert listening, "somebody listens"
    return sum(str(link.readlink()) in listening for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink())


def test_a_redis_that_goes_and_comes_back_makes_a_worker_unready_and_never_dead(
    tmp_path: Path, kubeconfig: Path
) -> None:
    with running_redis(tmp_path) as first:
        settings = settings_for(first.url, kubeconfig, stall_seconds=12)
        with running_worker(tmp_path, settings) as worker:
            probes = Probes(worker)
            until(probes.ready, "ready")
            first.stop()
            until(lambda: not probes.ready(), "not ready")
            assert probes.sample("sexton_worker_ready") == 0
            until(lambda: probes.live() and "not available" in probes.get("/readyz")[1], "the reason is told")
            with running_redis(tmp_path, port=first.port):
                until(lambda: probes.live() and probes.ready(), "ready again, and alive all the time", seconds=40)
                assert probes.sample("sexton_broker_reconnects_total") == 1
                send(settings)
                until(lambda: probes.sample("sexton_tasks_total", task="recover", outcome="superseded"), "it consumes")


def test_a_worker_that_consumes_nothing_is_not_alive_although_its_loop_turns(tmp_path: Path, kubeconfig: Path) -> None:
    """celery#8030: connected, answering pings, consuming nothing. Here because it was told to cancel its queues."""
    with working(tmp_path, kubeconfig, stall_seconds=3) as (_, probes, settings), create_app(settings) as app:
        for task in TaskName:
            app.control.cancel_consumer(task.queue(settings.instance))
        until(lambda: not probes.live(), "dead", seconds=30)
        assert probes.get("/healthz")[0] == 503
        assert "although Redis answers" in probes.get("/healthz")[1]
        assert app.control.ping(timeout=5.0, limit=1), "its loop turns and it answers"


def test_a_parent_that_does_not_run_answers_no_probe(idle: Working) -> None:
    worker, probes, _ = idle
    worker.process.send_signal(signal.SIGSTOP)
    with pytest.raises(urllib3.exceptions.TimeoutError):
        probes.get("/healthz")
    worker.process.send_signal(signal.SIGCONT)
    until(probes.live, "alive again")


def test_a_redis_that_may_evict_the_queues_makes_a_worker_unready(idle: Working) -> None:
    _, probes, settings = idle
    with connect(settings) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        until(lambda: not probes.ready(), "not ready")
        assert "allkeys-lru" in probes.get("/readyz")[1]
        assert probes.live()
        client.config_set("maxmemory-policy", "noeviction")
    until(probes.ready, "ready again")


@needs_proc
def test_a_busy_worker_is_alive_and_one_that_ends_is_not_ready(tmp_path: Path, silent_kubeconfig: Path) -> None:
    with working(tmp_path, silent_kubeconfig, stall_seconds=3) as (worker, probes, settings):
        send(settings)
        until(lambda: probes.sample("sexton_tasks_in_flight", task="recover", state="active") == 1, "it runs")
        assert probes.sample("sexton_tasks_in_flight", task="recover", state="reserved") == 0
        before = worker.children()
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: not probes.ready(), "not ready while it waits for its task")
        assert probes.get("/readyz")[1] == "ending: takes no new tasks\n"
        assert probes.live()
        os.kill(before[0], signal.SIGKILL)
        worker.process.wait(20)


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "runs into the hard time limit"])
def test_a_task_whose_process_ends_is_counted_as_killed(
    tmp_path: Path, silent_kubeconfig: Path, number: signal.Signals
) -> None:
    limits = {"task_soft_time_limit": 2, "task_time_limit": 3} if number is signal.SIGSTOP else {}
    with working(tmp_path, silent_kubeconfig, max_attempts=1, **limits) as (worker, probes, settings):
        send(settings)
        until(lambda: probes.sample("sexton_tasks_in_flight", task="recover", state="active") == 1, "it runs")
        os.kill(worker.children()[0], number)
        until(lambda: probes.sample("sexton_tasks_total", task="recover", outcome="killed") == 1, "it is counted")


def test_a_port_that_is_taken_refuses_the_worker_in_one_line(tmp_path: Path, kubeconfig: Path) -> None:
    with running_redis(tmp_path) as server, socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {
            "PATH": os.environ["PATH"],
            "POD_NAMESPACE": NAMESPACE,
            "SEXTON_BROKER_URL": server.url,
            "SEXTON_KUBECONFIG": str(kubeconfig),
            "SEXTON_HEALTH_PORT": str(taken.getsockname()[1]),
        }
        command = [sys.executable, "-m", "celery", "-A", "workers", "--quiet", "worker", "-c", "1"]
        refused = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
    assert refused.returncode == 2
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("sexton: ")]
    assert "cannot listen" in line
    assert "Traceback" not in refused.stderr
