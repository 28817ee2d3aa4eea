"""A key that is asked for much more often than it can be executed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kube.config import load_connection
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from tests.chaos.conftest import Site, ended
from tests.chaos.population import READY_STATE
from tests.support.factories import NAMESPACE, decided
from tests.support.faults import PATIENCE
from tests.support.proxy import Exchange, Proxy, request

EVENTS = 1000


@dataclass
class Held:
    """The first answer is as old as the request, and is given when the test lets it go. Counts requests at once."""

    let_go: threading.Event = field(default_factory=threading.Event)
    taken: threading.Event = field(default_factory=threading.Event)
    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def play(self, exchange: Exchange) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        response = exchange.forward()
        head, body = dict(response.getheaders()), response.read()
        if not self.taken.is_set():
            self.taken.set()
            self.let_go.wait(PATIENCE)
        with self._lock:
            self._now -= 1
        exchange.reply(response.status, head, body)


def test_a_thousand_events_for_a_key_that_runs_are_at_most_two_more_executions(still: Site) -> None:
    """The first execution has read its slice before the last of them, the one that makes the slice ready."""
    rig = still.rig
    still.population.plain(1, "hot")
    status = {"currentSynthesis": {"tombstoneRecoveryStatus": decided("NotNeeded", "of-hot-0")}}
    rig.cluster.merge_patch(COMPOSITIONS, NAMESPACE, "hot-0", {"status": status}, subresource="status")
    held = Held()
    with Proxy(load_connection(str(rig.kubeconfig))) as proxy:
        proxy.kubeconfig(rig.directory / "proxied")
        proxy.rule(request("GET", r"/resourceslices/hot-0-0$"), held)
        workers = [rig.worker(kubeconfig=rig.directory / "proxied") for _ in range(2)]
        watcher = rig.watcher()
        assert held.taken.wait(PATIENCE)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: touch(still, number), range(EVENTS)))
        ready = {"status": {"resources": [READY_STATE]}}
        rig.cluster.merge_patch(RESOURCE_SLICES, NAMESPACE, "hot-0-0", ready, subresource="status")
        held.let_go.set()
        rig.until(lambda: is_ready(still), "the last state is handled", watcher, *workers)
        still.until_finished(watcher, *workers)
    executions = [line for line in ended(tuple(workers), task="gate") if line["outcome"] != "merged"]
    assert 2 <= len(executions) <= 3
    assert held.most == 1
    assert still.auditor.violations() == []


def touch(site: Site, number: int) -> None:
    """Change the slice in a way that nobody cares about."""
    patch = {"metadata": {"annotations": {"touched": str(number)}}}
    site.rig.cluster.merge_patch(RESOURCE_SLICES, NAMESPACE, "hot-0-0", patch)


def is_ready(site: Site) -> bool:
    """Whether the composition is called ready."""
    status = site.rig.cluster.get(COMPOSITIONS, NAMESPACE, "hot-0")["status"]
    return "ready" in status["currentSynthesis"]
