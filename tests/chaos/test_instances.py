"""Two instances of Sexton on one Redis and one cluster."""

from __future__ import annotations

import os
import signal
from typing import Any

from kube.config import load_connection
from kube.resources import NAMESPACES
from runtime.dispatch import Dispatcher
from tests.chaos.audit import decisions
from tests.chaos.conftest import Site, ended, names
from tests.chaos.population import Population, reconciling
from tests.support.proxy import Proxy

OTHER = "other"
"""The second instance, and the namespace that it looks after."""


def test_two_instances_on_one_redis_and_one_cluster_do_not_disturb_each_other(site: Site) -> None:
    """Also not when one of them has no worker, and has left behind what it was working on."""
    rig = site.rig
    rig.cluster.create(NAMESPACES, None, {"metadata": {"name": OTHER}})
    others = Population(rig.cluster, namespace=OTHER)
    theirs: dict[str, Any] = {"instance": OTHER, "pod_namespace": OTHER}
    dispatcher = Dispatcher.connect(rig.settings.model_copy(update=theirs))
    with Proxy(load_connection(str(rig.kubeconfig))) as proxy, reconciling(rig.cluster, OTHER):
        proxy.kubeconfig(rig.directory / "proxied")
        watchers = [rig.watcher(), rig.watcher(**theirs)]
        ours = rig.worker(kubeconfig=rig.directory / "proxied")
        dead = rig.worker(**theirs)
        others.plain(20, "theirs")
        rig.until(lambda: ended((dead,)), "it works", dead)
        os.kill(dead.process.pid, signal.SIGKILL)
        waiting = rig.until(lambda: sum(dispatcher.lengths().values()), "messages wait", *watchers)
        site.population.some_of_each(30)
        site.check(watchers[0], ours)
        assert sum(dispatcher.lengths().values()) >= waiting
        assert not [seen for seen in proxy.seen if f"/namespaces/{OTHER}/" in seen.path]
        assert not names(ended((ours,))) & set(others.names)
        living = rig.worker(**theirs)
        rig.until(lambda: set(decisions(rig.cluster, OTHER)) == set(others.names), "theirs are decided", living)
        assert not names(ended((living,))) & set(site.population.names)
    dispatcher.close()
