"""Whom the doctor counts as a worker, on a real Redis: nobody but a worker, and a busy one for what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.doctor.broker import check_redis
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from kube.config import load_connection
from runtime.broker import connect
from runtime.dispatch import Dispatcher
from runtime.settings import Settings
from tests.e2e.test_flower import running_flower
from tests.support.factories import NAMESPACE, synthesis
from tests.support.faults import Hang
from tests.support.proxy import Proxy, request
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import running_worker
from tests.support.world import World, gate_message

NONE = "none waits for messages and none has taken any: no worker runs"


@dataclass(frozen=True)
class Installation:
    """A Redis, an API server behind a proxy, and a Flower that has asked around for workers."""

    settings: Settings
    world: World
    proxy: Proxy
    directory: Path

    def workers(self) -> str:
        """What the doctor says of the workers."""
        (found,) = (each.found for each in check_redis(self.settings) if each.name == "workers")
        return found

    def asked_around(self) -> bool:
        """Whether connections of Celery are left that waited for an answer once, and wait no more."""
        with closing(connect(self.settings)) as client:
            left = [each["flags"] for each in client.client_list() if each["cmd"] == "brpop"]
        return bool(left) and "b" not in "".join(left)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    world = World()
    with ExitStack() as stack:
        direct = tmp_path / "direct"
        write_kubeconfig(direct, stack.enter_context(Server(world.up.store).running()).url)
        proxy = stack.enter_context(Proxy(load_connection(str(direct))))
        settings = Settings.load(
            broker_url=stack.enter_context(running_redis(tmp_path)).url,
            pod_namespace=NAMESPACE,
            kubeconfig=str(proxy.kubeconfig(tmp_path / "kubeconfig")),
        )
        stack.enter_context(running_flower(tmp_path, settings))
        yield Installation(settings, world, proxy, tmp_path)


def test_flower_is_no_worker_and_a_busy_worker_is_told_from_none(installation: Installation) -> None:
    """About 15 s, most of which Flower and Celery take to start."""
    until(installation.asked_around, "Flower has asked for workers", seconds=60)
    assert installation.workers() == NONE

    with running_worker(installation.directory, installation.settings) as worker:
        until(lambda: installation.workers() == "1 worker waiting for messages", "the worker asks", seconds=60)

        installation.proxy.rule(request(path="/compositions"), Hang())
        shop = installation.world.add_composition(current=synthesis())
        with closing(Dispatcher.connect(installation.settings)) as dispatcher:
            dispatcher.enqueue(gate_message(shop))
        busy = "none waits for messages, 1 message taken and not finished: every one is busy, or it died"
        until(lambda: installation.workers() == busy, "the worker is busy", seconds=60)

        installation.proxy.heal()
        until(lambda: installation.workers() == "1 worker waiting for messages", "it is done", seconds=60)
        worker.stop()
    until(lambda: installation.workers() == NONE, "the worker has left")
