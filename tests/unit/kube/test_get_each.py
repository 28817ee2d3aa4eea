"""Several objects by name: in order, several at once over HTTP, and an error in the place where it belongs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.server import Server
from eno.errors import NotFound
from kube.cluster import Cluster, get_each
from kube.config import Connection
from kube.http import READERS, HttpCluster
from kube.resources import RESOURCE_SLICES
from tests.support.factories import NAMESPACE
from tests.support.world import World

NAMES = [f"slice-{index}" for index in range(3 * READERS)]


@pytest.fixture
def world() -> World:
    world = World()
    world.add_composition()
    for name in NAMES:
        world.add_slice(name)
    return world


@pytest.fixture(params=["in-process", "http"])
def cluster(request: pytest.FixtureRequest, world: World) -> Iterator[Cluster]:
    if request.param == "in-process":
        yield world.up
        return
    with Server(world.up.store).running() as server:
        client = HttpCluster(Connection(server.url), user_agent="test")
        yield client
        client.close()


def names(cluster: Cluster, wanted: list[str]) -> list[str]:
    return [each["metadata"]["name"] for each in get_each(cluster, RESOURCE_SLICES, NAMESPACE, wanted)]


@pytest.mark.parametrize("count", [0, 1, 2, len(NAMES)])
def test_the_objects_come_in_the_order_of_their_names(cluster: Cluster, count: int) -> None:
    wanted = NAMES[:count][::-1]
    assert names(cluster, wanted) == wanted


def test_what_cannot_be_read_is_an_error_in_its_place(cluster: Cluster) -> None:
    found = get_each(cluster, RESOURCE_SLICES, NAMESPACE, [*NAMES[:3], "nowhere", *NAMES[3:]])
    assert [next(found)["metadata"]["name"] for _ in range(3)] == NAMES[:3]
    with pytest.raises(NotFound, match="nowhere"):
        next(found)


def test_over_http_several_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(READERS, timeout=20)

    def get(*_: Any) -> dict[str, Any]:
        together.wait()
        return {}

    monkeypatch.setattr(HttpCluster, "get", get)
    cluster = HttpCluster(Connection("http://127.0.0.1:1"), user_agent="test")
    assert names_of(cluster) == [{}] * len(NAMES)


def test_nobody_waits_for_the_others_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    over, waited = threading.Event(), []

    def get(_self: HttpCluster, _resource: Any, _namespace: Any, name: str) -> dict[str, Any]:
        if name == NAMES[0]:
            raise NotFound("get", status=404, reason="NotFound", message="gone")
        waited.append(over.wait(20))
        return {}

    monkeypatch.setattr(HttpCluster, "get", get)
    cluster = HttpCluster(Connection("http://127.0.0.1:1"), user_agent="test")
    try:
        with pytest.raises(NotFound):
            names_of(cluster)
        assert waited == []
    finally:
        over.set()


def names_of(cluster: Cluster) -> list[dict[str, Any]]:
    return list(get_each(cluster, RESOURCE_SLICES, NAMESPACE, NAMES))
