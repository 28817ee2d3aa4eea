"""What the end of a test run says about the contract: nothing, unless tests of the contract ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest

SILENT: dict[str, list[dict[str, object]]] = {
    "no test at all": [],
    "a test without parameters": [{}],
    "a test of which something else is called a server": [{"server": "1735689600"}],
}

TOLD: dict[str, tuple[list[str], bool, list[str]]] = {
    "all three": (
        ["in-process", "http", "kube-apiserver", "http"],
        True,
        ["contract tests run: in-process 1, http 2, kube-apiserver 1"],
    ),
    "a kube-apiserver that was built and not asked for": (
        ["http"],
        True,
        ["contract tests run: in-process 0, http 1, kube-apiserver 0"],
    ),
    "no kube-apiserver": (
        ["http"],
        False,
        ["contract tests run: in-process 0, http 1, kube-apiserver 0", conftest.HINT],
    ),
}


def summary(ran: list[dict[str, object]]) -> list[str]:
    """The lines at the end of a run of tests with these parameters."""
    lines: list[str] = []
    config: Any = SimpleNamespace(stash=pytest.Stash(), addinivalue_line=lambda *_: None)
    reporter: Any = SimpleNamespace(write_line=lines.append)
    conftest.pytest_configure(config)
    for params in ran:
        item: Any = SimpleNamespace(config=config, callspec=SimpleNamespace(params=params))
        conftest.pytest_runtest_call(item)
    conftest.pytest_terminal_summary(reporter, config)
    return lines


@pytest.mark.parametrize("ran", SILENT.values(), ids=SILENT.keys())
def test_a_run_without_the_contract_says_nothing_about_it(ran: list[dict[str, object]]) -> None:
    assert summary(ran) == []


@pytest.mark.parametrize(("servers", "built", "lines"), TOLD.values(), ids=TOLD.keys())
def test_a_run_of_the_contract_says_on_which_servers_and_what_is_missing(
    servers: list[str], built: bool, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "find_assets", lambda _: "somewhere" if built else None)
    assert summary([{"server": name} for name in servers]) == lines
