"""Workers come and go in good order: what a Deployment does to them."""

from __future__ import annotations

import json
import signal
import time

import pytest

from kube.config import load_connection
from runtime.messages import TaskName
from tests.chaos.conftest import Site, ended
from tests.support.faults import Delay, Hang
from tests.support.proxy import Proxy, request

RESTARTS = 30

AT_ONCE = 45
"""Seconds within which an idle worker is gone, on a machine that is very busy."""


def test_thirty_rolling_restarts_lose_nothing(site: Site) -> None:
    rig = site.rig
    site.population.some_of_each(80)
    watcher = rig.watcher()
    rig.until(lambda: rig.waiting() > 60, "messages wait", watcher)
    workers = [rig.worker() for _ in range(3)]
    for number in range(RESTARTS):
        if not rig.waiting():
            site.population.plain(20, f"batch{number}")
            rig.until(rig.waiting, "there is work", watcher)
        leaving = workers.pop(0)
        rig.until(lambda: leaving.consumes, "it consumes", leaving)  # noqa: B023
        leaving.send(signal.SIGTERM)
        workers.append(rig.worker(ready=False))
        assert leaving.process.wait(AT_ONCE) == 0
    site.check(watcher, *workers)


def test_a_task_that_runs_is_finished_before_its_worker_leaves(site: Site) -> None:
    rig = site.rig
    with Proxy(load_connection(str(rig.kubeconfig))) as proxy:
        proxy.kubeconfig(rig.directory / "proxied")
        proxy.rule(request("GET", r"/compositions/plain-0$"), Delay(3), times=1)
        worker = rig.worker(kubeconfig=rig.directory / "proxied")
        site.population.plain(1)
        watcher = rig.watcher()
        rig.until(lambda: proxy.seen, "it works", worker)
        worker.send(signal.SIGTERM)
        rig.until(lambda: "Warm shutdown" in worker.text, "it leaves", worker)
        assert worker.end() == 0, "a second SIGTERM changes nothing"
        assert ended((worker,), outcome="done") != []
        assert rig.redis.hlen("sexton.unacked") == 0
    site.check(watcher, rig.worker())


@pytest.mark.parametrize(
    "before", [pytest.param([], id="at once"), pytest.param([signal.SIGTERM], id="after SIGTERM has waited in vain")]
)
def test_a_task_that_does_not_end_within_the_soft_shutdown_is_put_back(site: Site, before: list[int]) -> None:
    rig = site.rig
    site.population.plain(1)
    with Proxy(load_connection(str(rig.kubeconfig))) as proxy:
        proxy.kubeconfig(rig.directory / "proxied")
        proxy.rule(request(path=r"/compositions/plain-0$"), Hang())
        worker = rig.worker(kubeconfig=rig.directory / "proxied", soft_shutdown_timeout=2)
        watcher = rig.watcher()
        rig.until(lambda: proxy.seen, "it works", worker)
        for number in before:
            worker.send(number)
            rig.until(lambda: "Warm shutdown" in worker.text, "it waits", worker)
        started = time.monotonic()
        worker.end(signal.SIGQUIT)
        assert 2 <= time.monotonic() - started < 2 + AT_ONCE
        assert ended((worker,)) == []
        assert rig.waiting() > 0, "its message is back"
    site.check(watcher, rig.worker())


def test_a_task_that_an_older_worker_does_not_know_comes_back(site: Site) -> None:
    """Its message is thrown away, and is sent again when the marker of the first one has expired."""
    rig = site.rig
    queue = TaskName.RECOVER.queue(rig.settings.instance)
    site.population.plain(1)
    watcher = rig.watcher(pending_timeout=3)
    rig.until(lambda: rig.redis.llen(queue), "a message waits", watcher)
    message = json.loads(str(rig.redis.rpop(queue)))
    message["headers"]["task"] = "sexton.newer"
    rig.redis.lpush(queue, json.dumps(message))
    worker = rig.worker()
    rig.until(lambda: worker.lines("task-unknown"), "it is thrown away", worker)
    site.check(watcher, worker)
