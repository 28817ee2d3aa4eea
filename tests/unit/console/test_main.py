"""The command line: one line per error, documented exit codes, never a traceback."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from console import entry
from console.main import main

NO_SERVER = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEXTON_KUBECONFIG", "SEXTON_COMPOSITION_NAMESPACE", "POD_NAMESPACE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")


@pytest.fixture
def unreachable(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(NO_SERVER)
    return str(path)


def test_help_names_the_commands_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    text = " ".join(capsys.readouterr().out.split())
    for expected in (
        "demo",
        "plan",
        "explain",
        "status",
        "wait",
        "enqueue",
        "backfill",
        "doctor",
        "version",
        "124",
        "130",
    ):
        assert expected in text
    for expected in ("Exit codes", "69", "75", "77"):
        assert expected in text


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["version"], ["--version"]):
        assert main(words) == 0
        assert capsys.readouterr().out.strip() == version("sexton")
    assert main(["version", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": version("sexton")}


@pytest.mark.parametrize("words", [[], ["inventory"]], ids=["sexton", "sexton inventory"])
def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 2

    printed = capsys.readouterr()
    assert " ".join(["Usage: sexton", *words, "[OPTIONS] COMMAND"]) in printed.out
    assert printed.err == ""


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_ctrl_c_during_a_command_is_one_line_and_exit_code_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unreachable: str
) -> None:
    monkeypatch.setattr("console.main.collect", _interrupt)
    assert main(["--kubeconfig", unreachable, "status", "-A"]) == 130
    assert capsys.readouterr() == ("", "sexton: interrupted\n")


def test_ctrl_c_during_the_imports_is_one_line_and_exit_code_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "console.main")
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=_interrupt)])
    assert entry.main() == 130
    assert capsys.readouterr() == ("", "sexton: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["bury"], "No such command 'bury'", id="an unknown command"),
        pytest.param(["plan"], "Missing argument 'NAMESPACE/NAME'; see sexton plan --help", id="no argument"),
        pytest.param(["version", "--output", "xml"], "'xml' is not one of", id="an unknown output"),
        pytest.param(["status", "--what"], "No such option", id="an unknown option"),
        pytest.param(["plan", "shop"], "'shop' is not a composition; write namespace/name", id="no namespace"),
        pytest.param(["plan", "a/b/c"], "'a/b/c' is not a composition", id="too many slashes"),
        pytest.param(["plan", "/b"], "'/b' is not a composition", id="an empty namespace"),
        pytest.param(["plan", "Shop/app"], "'Shop/app' is not a composition", id="not a namespace's name"),
        pytest.param(["plan", "shop/.."], "'shop/..' is not a composition", id="not a composition's name"),
        pytest.param(
            ["demo", "--manifests", "/no/such", "--without", "a=b"], "/no/such: cannot be read", id="a missing file"
        ),
        pytest.param(["explain", "shop"], "'shop' is not a composition; write namespace/name", id="nothing to explain"),
        pytest.param(["demo", "--without", "x"], "is not one label", id="a selector that is no label"),
        pytest.param(["demo", "--timeout", "0"], "--timeout", id="a timeout of nothing"),
        pytest.param(["demo", "--timeout", "nan"], "--timeout", id="a timeout that is no number"),
        pytest.param(["--kubeconfig", "/no/such", "plan", "a/b"], "/no/such", id="a missing kubeconfig"),
        pytest.param(["--broker-url", "http://x", "status", "-A"], "SEXTON_BROKER_URL", id="not a Redis URL"),
        pytest.param(["status"], "no namespace to look after", id="no scope"),
        pytest.param(["status", "-n", "a", "-l", "a b"], "cannot be parsed", id="a bad selector"),
        pytest.param(["plan", "a/b", "--instance"], "requires an argument", id="a global option without its value"),
        pytest.param(["plan", "--", "--instance"], "'--instance' is not a composition", id="after two dashes"),
        pytest.param(["wait", "shop"], "'shop' is not a composition; write namespace/name", id="nothing to wait for"),
        pytest.param(["wait", "a/b", "--timeout", "-1"], "--timeout", id="a wait into the past"),
        pytest.param(["wait", "a/b", "--for", "ever"], "'ever' is not one of", id="an unknown goal"),
        pytest.param(["enqueue", "bury", "a/b"], "'bury' is not one of 'recover'", id="an unknown task"),
        pytest.param(["enqueue", "retire", "a/b", "--synthesis", "x"], "of any synthesis", id="a synthesis to retire"),
        pytest.param(["backfill", "gate"], "no namespace to look after", id="a backfill of nowhere"),
        pytest.param(["backfill", "gate", "-A", "--rate", "0"], "--rate", id="a rate of nothing"),
        pytest.param(["doctor", "--process", "flower"], "'flower' is not one of", id="an unknown process"),
        pytest.param(["status", "-n", "A_B"], "SEXTON_COMPOSITION_NAMESPACE", id="a bad namespace"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], unreachable: str, arguments: list[str], message: str
) -> None:
    kubeconfig = [] if "--kubeconfig" in arguments else ["--kubeconfig", unreachable]

    assert main([*kubeconfig, *arguments]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("sexton: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["--kubeconfig", "{}", "plan", "a/b"], id="plan"),
        pytest.param(["--kubeconfig", "{}", "explain", "a/b"], id="explain"),
        pytest.param(["--kubeconfig={}", "status", "-n", "a"], id="status"),
        pytest.param(["--kubeconfig={}", "wait", "a/b"], id="wait"),
        pytest.param(["--kubeconfig={}", "enqueue", "gate", "a/b"], id="enqueue"),
        pytest.param(["--kubeconfig={}", "backfill", "gate", "-n", "a"], id="backfill"),
        pytest.param(["plan", "a/b", "--kubeconfig", "{}"], id="a global option after the command"),
        pytest.param(["status", "--kubeconfig={}", "-A"], id="a global option between"),
    ],
)
def test_an_unreachable_api_server_is_one_line_and_exit_code_69(
    capsys: pytest.CaptureFixture[str], unreachable: str, command: list[str]
) -> None:
    assert main([word.format(unreachable) for word in command]) == 69

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("sexton: ")
    assert printed.err.count("\n") == 1
