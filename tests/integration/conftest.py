"""A World whose clusters are reached over HTTP: the in-memory API server, and a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

import pytest

from devcluster.server import Server
from eno.errors import NotFound
from kube.cluster import Cluster, Query, list_all
from kube.config import Connection, load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import (
    COMPOSITIONS,
    EVENTS,
    RESOURCE_SLICES,
    SECRETS,
)
from tests.support.factories import NAMESPACE
from tests.support.installing import install
from tests.support.tap import Tap
from tests.support.world import World

UNHURRIED = RateLimits(100_000, 100_000, 100_000)


@pytest.fixture(params=["http", "kube-apiserver"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A World on one server, upstream and downstream; what a test leaves behind is removed."""
    world = World()
    with ExitStack() as stack:
        if request.param == "http":
            server = stack.enter_context(Server(world.up.store).running())
            connection = Connection(server.url)
        else:
            connection = load_connection(str(request.getfixturevalue("apiserver").kubeconfig))
            world.clock.now = datetime.now(UTC).replace(microsecond=0)
        client = HttpCluster(connection, user_agent="sexton-test", limits=UNHURRIED)
        stack.callback(client.close)
        install(client, NAMESPACE)
        world.up = world.down = client  # type: ignore[assignment]
        world.upstream, world.downstream = Tap(client), Tap(client)
        yield world
        _remove_everything(client)


def _remove_everything(cluster: Cluster) -> None:
    for resource, namespace in ((COMPOSITIONS, NAMESPACE), (RESOURCE_SLICES, NAMESPACE), (EVENTS, NAMESPACE)):
        for item in list_all(cluster, Query(resource, namespace)).items:
            name = item["metadata"]["name"]
            with suppress(NotFound):
                cluster.merge_patch(resource, namespace, name, {"metadata": {"finalizers": None}})
                cluster.delete(resource, namespace, name)
    query = Query(SECRETS, "kube-system", label_selector="eno.azure.io/inventory-lineage")
    for item in list_all(cluster, query).items:
        cluster.delete(SECRETS, "kube-system", item["metadata"]["name"])
