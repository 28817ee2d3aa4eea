"""Redis is emptied, restarted, cut off and filled up while a backlog is worked off."""

from __future__ import annotations

import signal

import urllib3

from tests.chaos.audit import unfinished
from tests.chaos.conftest import Site, ended, names
from tests.support.rig import RESYNC, Process, seconds_until

AGAIN = 10
"""Seconds within which consumption resumes, beyond what the same takes undisturbed on this machine at this time."""

MARGIN = 8
"""Seconds that a busy machine may add to a resync, besides what it adds to everything."""

LONG = 1800
"""Seconds for which a marker without a message would keep its key from being asked for: longer than the test."""


def test_emptying_redis_in_the_middle_of_two_hundred_compositions_costs_one_resync(site: Site) -> None:
    rig = site.rig
    site.population.some_of_each(210)
    watcher, worker = rig.watcher(), rig.worker()
    usual = seconds_until(lambda: len(worker.lines("task-ended")) > 40, "it works")
    rig.redis.flushall()
    left = unfinished(rig.cluster, rig.settings.scope)
    assert len(left) > 100

    def known() -> bool:
        """Whether every key is on its way again, or came to an end meanwhile."""
        states = {message.key: rig.dispatcher.describe(message.key) for message in left}
        lost = {key for key, state in states.items() if not (state.pending or state.running)}
        return not (lost and lost & {message.key for message in unfinished(rig.cluster, rig.settings.scope)})

    assert seconds_until(known, "every key is on its way again") < RESYNC + MARGIN + usual
    site.check(watcher, worker)


def consumes_again(site: Site, kind: str, *parts: Process) -> float:
    """Seconds until a worker has made decisions about new compositions."""
    site.population.plain(3, kind)
    new = {f"{kind}-{number}" for number in range(3)}
    return seconds_until(lambda: new <= names(ended(parts, task="recover", outcome="done")), f"{kind} was handled")


def test_consumption_resumes_within_ten_seconds_of_each_restart_of_redis(site: Site) -> None:
    watcher, worker = site.rig.watcher(), site.rig.worker()
    usual = consumes_again(site, "undisturbed", watcher, worker)
    for number in range(5):
        site.rig.restart_broker()
        assert consumes_again(site, f"restart{number}", watcher, worker) < AGAIN + 2 * usual
    site.check(watcher, worker)


def test_consumption_resumes_within_ten_seconds_of_the_loss_of_all_connections(site: Site) -> None:
    watcher, worker = site.rig.watcher(), site.rig.worker()
    usual = consumes_again(site, "undisturbed", watcher, worker)
    for number in range(5):
        # On a connection of its own, which is the only one to survive.
        for kind in ("normal", "pubsub"):
            site.rig.redis.client_kill_filter(_type=kind, skipme=True)
        assert consumes_again(site, f"cut{number}", watcher, worker) < AGAIN + 2 * usual
    site.check(watcher, worker)


def test_a_redis_without_memory_is_survived(site: Site) -> None:
    """It refuses whatever needs more: markers, locks, messages, notes of what is unacknowledged."""
    rig = site.rig
    worker = rig.worker(pending_timeout=LONG)
    worker.send(signal.SIGSTOP)
    site.population.some_of_each(30)
    watcher = rig.watcher(pending_timeout=LONG)
    rig.until(lambda: rig.waiting() > 20, "messages wait", watcher, worker)
    rig.redis.config_set("maxmemory", "1")
    worker.send(signal.SIGCONT)
    site.population.plain(10, "meanwhile")
    refused = rig.until(lambda: watcher.lines("broker-lost"), "the watcher was refused", watcher, worker)
    assert "used memory > 'maxmemory'" in refused[0]["message"]
    rig.until(lambda: not rig.waiting(), "the worker has taken them all", watcher, worker)
    rig.until(lambda: not list(rig.redis.scan_iter("sexton:pending:*")), "no marker outlives its message")
    rig.redis.config_set("maxmemory", "0")
    site.check(watcher, worker)


def test_a_redis_that_may_evict_the_queues_is_reported_as_not_ready(site: Site) -> None:
    site.rig.redis.config_set("maxmemory-policy", "allkeys-lru")
    watcher = site.rig.watcher(health_port=0)
    worker = site.rig.worker(ready=False)
    port = site.rig.until(lambda: watcher.lines("probes-started"), "probes", watcher)[0]["port"]
    with urllib3.PoolManager(retries=False) as pool:

        def told() -> bool:
            answer = pool.request("GET", f"http://127.0.0.1:{port}/readyz")
            return answer.status == 503 and b"maxmemory-policy is allkeys-lru" in answer.data

        site.rig.until(told, "the watcher is not ready", watcher)
    (line,) = site.rig.until(lambda: worker.lines("not-ready"), "the worker says so", worker)
    assert "maxmemory-policy is allkeys-lru" in line["message"]
