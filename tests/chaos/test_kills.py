"""Processes are killed without warning, at random and by what they work on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from celery import Celery

from kube.cluster import Json
from kube.config import load_connection
from runtime.broker import Keys
from runtime.claims import LOCK, PARKED, RENEWAL
from runtime.sender import celery_configuration
from tests.chaos.conftest import Site, ended, names
from tests.support.command import Sexton
from tests.support.factories import NAMESPACE
from tests.support.faults import Hang
from tests.support.proxy import Proxy, request
from tests.support.rig import SECONDS, Rig

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into processes through /proc")

KILLS = 200
PODS = 4
"""Of these, how many hit a whole worker."""

SEED = 6


def test_two_hundred_random_kills_lose_nothing_and_break_no_promise(site: Site) -> None:
    """What is at work longest is hit most often, so a key may be hit as often as a hostile one."""
    rig, rng = site.rig, Random(SEED)  # noqa: S311
    watcher = rig.watcher()
    workers = [rig.worker(max_attempts=100) for _ in range(2)]
    pods = set(rng.sample(range(KILLS), PODS))
    batches = iter(range(KILLS))
    for number in range(KILLS):
        if not rig.waiting():
            site.population.plain(20, f"batch{next(batches)}")
            rig.until(rig.waiting, "there is work", watcher)
        index = rng.randrange(len(workers))
        if number in pods:
            workers[index].kill_all()
            workers[index] = rig.worker(max_attempts=100)
        else:
            victims = rig.until(workers[index].children, "the worker has children", workers[index])
            with suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
        time.sleep(rng.uniform(0, 0.1))
    rig.until(lambda: not rig.waiting(), "no message waits", watcher, *workers)
    # Workers look for what came of age when they start, and every hundred seconds after that.
    rig.let_visibility_pass()
    workers.append(rig.worker())
    site.check(watcher, *workers)


@contextmanager
def hanging(rig: Rig, name: str) -> Iterator[Proxy]:
    """A proxy that never answers a question about one composition, whatever is asked of it."""
    with Proxy(load_connection(str(rig.kubeconfig))) as proxy:
        proxy.kubeconfig(rig.directory / "proxied")
        proxy.rule(request(path=rf"/compositions/{name}$"), Hang())
        yield proxy


def executing(rig: Rig, name: str) -> list[int]:
    """The processes that execute something about a composition, as their workers tell."""
    app = Celery("test", set_as_current=False, config_source=celery_configuration(rig.settings))
    try:
        active = app.control.inspect(timeout=2, limit=1).active() or {}
    finally:
        app.close()
    tasks = [task for each in active.values() for task in each]
    return [task["worker_pid"] for task in tasks if task["kwargs"].get("name") == name and task["worker_pid"]]


def test_what_kills_its_worker_is_parked_while_all_else_goes_on(site: Site) -> None:
    """The kernel ends every process that works on the hostile composition, as it does where memory runs out."""
    rig = site.rig
    site.population.plain(1, "hostile")
    site.population.ready(20)
    with hanging(rig, "hostile-0") as proxy:
        worker = rig.worker(kubeconfig=rig.directory / "proxied", max_attempts=1)
        watcher = rig.watcher()
        # Both of its keys: recover and gate.
        kill_until(rig, "hostile-0", lambda: len(rig.dispatcher.parked()) == 2)
        others = set(site.population.names) - {"hostile-0"}
        rig.until(lambda: others <= names(ended((worker,), outcome="done")), "the others are done", watcher, worker)
        parked = rig.dispatcher.parked()
        hostile = f"{NAMESPACE}/hostile-0"
        assert {(each.reason, each.context["composition"]) for each in parked} == {("attempts", hostile)}
        assert {each["key"] for each in listed_as_parked(rig)} == {each.key for each in parked}
        before = let_the_quarter_pass(rig)
        kill_until(rig, "hostile-0", lambda: all(waits(rig, key) for key in before))
        proxy.heal()
        let_the_quarter_pass(rig)
        rig.until(lambda: not rig.dispatcher.parked(), "parked no more", watcher, worker)
    worker.end()
    site.check(watcher, rig.worker())


def kill_until(rig: Rig, name: str, condition: Callable[[], bool]) -> None:
    """Kill whatever works on a composition."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        for victim in executing(rig, name):
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)


def let_the_quarter_pass(rig: Rig) -> list[str]:
    """Let the pause of every parked key end. Returns the keys."""
    keys = [each.key for each in rig.dispatcher.parked()]
    for key in keys:
        assert waits(rig, key)
        rig.redis.pexpire(Keys(rig.settings.instance).not_before(key), 1)
    return keys


def waits(rig: Rig, key: str) -> bool:
    """Whether the key is parked for most of a quarter of an hour."""
    state = rig.dispatcher.describe(key)
    almost = datetime.now(UTC) + PARKED * 0.8
    return state.parked and not state.running and state.not_before is not None and state.not_before > almost


def listed_as_parked(rig: Rig) -> list[Json]:
    """What `sexton status` says."""
    settings = {"SEXTON_BROKER_URL": rig.broker.url, "SEXTON_KUBECONFIG": str(rig.kubeconfig)}
    printed = Sexton(settings | {"SEXTON_COMPOSITION_NAMESPACE": NAMESPACE})("status", "--output", "json")
    assert printed.code == 0, printed.err
    found: list[Json] = printed.json["queues"]["parked"]
    return found


def test_a_lock_is_renewed_while_its_process_lives_and_not_after(site: Site) -> None:
    rig = site.rig
    site.population.plain(1, "slow")
    with hanging(rig, "slow-0"):
        worker = rig.worker(kubeconfig=rig.directory / "proxied")
        rig.watcher()
        (name,) = rig.until(lambda: list(rig.redis.scan_iter("sexton:lock:recover:*")), "it is being executed", worker)
        half = int(LOCK.total_seconds() * 500)
        rig.redis.pexpire(name, half)
        rig.until(
            lambda: rig.redis.pttl(name) > half + 1000, "the lock is renewed", worker, seconds=RENEWAL.seconds + 20
        )
        worker.kill_all()
        assert 0 < rig.redis.pttl(name) <= LOCK.total_seconds() * 1000
        # Half a minute passes.
        rig.redis.pexpire(name, 1)
        other = rig.worker()
        rig.until(lambda: ended((other,), task="recover", outcome="done"), "another worker has done it", other)
