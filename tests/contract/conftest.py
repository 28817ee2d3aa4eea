"""The servers that the contract is held against, and a fresh namespace for every test."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
import urllib3

from devcluster.store import Store
from eno.errors import NotFound
from kube.config import load_connection
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from tests.contract import servers
from tests.contract.kinds import PREFIX
from tests.contract.servers import NAMES, Name, Server
from tests.contract.space import Space
from tests.support.apiserver import ApiServer

_numbers = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `server` on each of them."""
    if "server" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("servers")
        metafunc.parametrize("server", marker.args if marker else NAMES, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the contract that serves the kinds of this run."""
    with _running(cast(Name, request.param), request) as server:
        names = server.install()
        yield server
        for name in names:
            server.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)


@contextmanager
def _running(name: Name, request: pytest.FixtureRequest) -> Iterator[Server]:
    match name:
        case "in-process":
            yield servers.in_process(Store())
        case "http":
            with servers.over_http(Store()) as server:
                yield server
        case "kube-apiserver":
            kubeconfig: Path | None = request.config.getoption("--kubeconfig")
            if kubeconfig is not None:
                with servers.kube_apiserver(load_connection(str(kubeconfig))) as server:
                    yield server
                return
            running: ApiServer = request.getfixturevalue("apiserver")
            with servers.kube_apiserver(load_connection(str(running.kubeconfig)), _compaction(running)) as server:
                yield server


def _compaction(running: ApiServer) -> Callable[[], None]:
    """Compact as kube-apiserver itself does every five minutes: tell its caches through their key, then etcd."""

    def etcd(path: str, **body: object) -> int:
        reply = urllib3.request("POST", f"{running.etcd_url}/v3/kv/{path}", json=body, timeout=10, retries=False)
        return int(reply.json()["header"]["revision"])

    def encoded(text: object) -> str:
        return base64.b64encode(str(text).encode()).decode()

    def compact() -> None:
        revision = etcd("range", key=encoded("compact_rev_key"))
        etcd("put", key=encoded("compact_rev_key"), value=encoded(revision))
        etcd("compaction", revision=revision)

    return compact


def release(space: Space) -> None:
    """Take away the finalizers that would keep somebody else's cluster from removing what is here."""
    for kind in space.written:
        for item in space.page(kind).items:
            if item["metadata"].get("finalizers"):
                space.merge_patch(kind, {"metadata": {"finalizers": None}}, item["metadata"]["name"])


@pytest.fixture
def space(server: Server) -> Iterator[Space]:
    """A namespace that no other test knows. A real cluster's controllers empty it in the end."""
    name = f"{PREFIX}-{next(_numbers)}"
    server.cluster.create(NAMESPACES, None, {"metadata": {"name": name}})
    space = Space(server.cluster, name, server)
    yield space
    if server.compact is None:
        release(space)
    with suppress(NotFound):  # a test may have deleted it, and whoever empties namespaces may have been quick
        server.cluster.delete(NAMESPACES, None, name)
