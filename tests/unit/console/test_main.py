"""The command line: one line per error, documented exit codes, never a traceback."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from console import entry
from console.main import main

ROOT = Path(__file__).parents[3]

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


LEAVES = [
    ["plan"], ["explain"], ["status"], ["wait"], ["enqueue"], ["backfill"], ["doctor"],
    ["inventory", "list"], ["inventory", "show"], ["inventory", "verify"],
]  # fmt: skip


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_of_a_command_lists_what_works_everywhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], flag: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, flag]) == 0
    out = capsys.readouterr().out
    for option in ("--kubeconfig", "--downstream-kubeconfig", "--broker-url", "--instance"):
        assert option in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_help_breaks_no_word_at_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("enqueue", "backfill"):
        main([command, "--help"])
        out = capsys.readouterr().out
        assert [task for task in ("recover", "gate", "record", "cleanup", "retire") if task not in out] == []


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
        pytest.param(["--broker-url", "http://x", "status", "-A"], "--broker-url: must look", id="not a Redis URL"),
        pytest.param(["status"], "no namespace to look after", id="no scope"),
        pytest.param(
            ["status", "-n", "a", "-A"], "--all-namespaces and --namespace exclude each other; leave", id="two scopes"
        ),
        pytest.param(["status", "-n", "a", "-l", "a==="], "--selector: label selector 'a==='", id="no selector"),
        pytest.param(["plan", "a/b", "--instance", "A"], "--instance='A': write up to 63", id="no instance"),
        pytest.param(["wait", "a/b", "--timeout", "abc"], "--timeout='abc': write a number from 0", id="no number"),
        pytest.param(
            ["backfill", "gate", "-A", "--rate=x"], "--rate='x': write a number from 0.01 to 10000", id="no rate"
        ),
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
        pytest.param(
            ["status", "-n", "A_B"], "--namespace='A_B': write up to 63 lower-case letters", id="a bad namespace"
        ),
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


COMMAND = "import sys; from console.entry import main; sys.exit(main())"
FULL = Path("/dev/full")
NO_SPACE = (
    "sexton: standard output: cannot be written (No space left on device); make room there, or send it somewhere else\n"
)


def _piped(words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Run by a shell, which knows how to take streams away."""
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(COMMAND)} {words} {redirection}"
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, cwd=ROOT)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["version -o json", "wait --help", "doctor"])
def test_a_full_disk_is_one_line_and_exit_code_1(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_BROKER_URL", "redis://127.0.0.1:1/0")
    done = _piped(words, ">/dev/full")
    assert (done.returncode, done.stderr) == (1, NO_SPACE)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("redirection", "out", "code"),
    [
        pytest.param(">&-", "", 0, id="no standard output"),
        pytest.param("2>/dev/full", version("sexton") + "\n", 0, id="nowhere for errors"),
        pytest.param("| true; echo", "\n", 0, id="nobody reads"),
    ],
)
def test_where_nothing_can_be_told_nothing_is(redirection: str, out: str, code: int) -> None:
    done = _piped("version", redirection)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"PYTHONIOENCODING": "latin-1"}, id="Latin-1"),
        pytest.param({"PYTHONIOENCODING": "ascii:strict"}, id="ASCII"),
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="the C locale"),
    ],
)
def test_what_an_encoding_lacks_is_shown_as_an_escape(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environment, "SEXTON_BROKER_URL": "redis://127.0.0.1:1/0"}.items():
        monkeypatch.setenv(name, value)
    done = _piped("doctor", "")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert r"\u2713" in done.stdout


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_an_error_that_cannot_be_told_keeps_its_exit_code() -> None:
    assert _piped("plan shop", "2>/dev/full").returncode == 2
    assert _piped("plan shop", "2>&-").returncode == 2


def test_a_reader_that_goes_away_in_the_middle_ends_it_with_1_and_no_word() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (1, b"")
