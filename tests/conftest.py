"""Options of the test run, and the servers that the contract is held against."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.servers import NAMES
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


def pytest_runtest_call(item: pytest.Item) -> None:
    """Count the tests of the contract that run, not those that are skipped beforehand."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and (server := callspec.params.get("server")) in NAMES:
        item.config.stash[_counts][server] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many tests of the contract ran on each server, if any did."""
    counts = config.stash[_counts]
    if counts:
        ran = ", ".join(f"{name} {counts[name]}" for name in NAMES)
        terminalreporter.write_line(f"contract tests run: {ran}")
        if not counts["kube-apiserver"] and find_assets(os.environ) is None:
            terminalreporter.write_line(HINT)


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ApiServer]:
    """The one kube-apiserver of this run; skips where there is none."""
    assets = find_assets(os.environ)
    if assets is None:
        pytest.skip(HINT)
    with running_apiserver(assets) as running:
        yield running
