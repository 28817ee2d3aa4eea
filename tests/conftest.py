"""Options of the test run, and the servers that the contract is held against."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import urllib3

from devcluster.store import Store
from kube.config import load_connection
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.contract import servers
from tests.contract.servers import NAMES, Name, Server
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.assets import HINT, find_assets

_counts = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--kubeconfig`: another cluster instead of a kube-apiserver of our own."""
    help_ = "hold the contract against this cluster; what is created there has a random name and is removed again"
    parser.addoption("--kubeconfig", metavar="FILE", type=Path, default=None, help=help_)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and begin to count."""
    config.addinivalue_line("markers", "servers(*names): run on these servers of the contract only")
    config.stash[_counts] = Counter()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `server` on each of them."""
    if "server" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("servers")
        metafunc.parametrize("server", marker.args if marker else NAMES, indirect=True, scope="session")


def pytest_runtest_call(item: pytest.Item) -> None:
    """Count the tests that run, not those that are skipped beforehand."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "server" in callspec.params:
        item.config.stash[_counts][callspec.params["server"]] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many tests of the contract ran on each server."""
    counts = config.stash[_counts]
    if counts:
        ran = ", ".join(f"{name} {counts[name]}" for name in NAMES)
        terminalreporter.write_line(f"contract tests run: {ran}")
        if not counts["kube-apiserver"]:
            terminalreporter.write_line(HINT)


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    """The one kube-apiserver of this run; skips where there is none."""
    assets = find_assets(os.environ)
    if assets is None:
        pytest.skip(HINT)
    with running_apiserver(assets) as running:
        yield running


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
