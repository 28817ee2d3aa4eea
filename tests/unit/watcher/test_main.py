"""Flags: each is a setting, and a wrong one is one line and an exit code."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.kubeconfig import write_kubeconfig
from eno.errors import Retryable
from watcher.__main__ import main


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POD_NAMESPACE", "SEXTON_COMPOSITION_NAMESPACE", "SEXTON_ALL_NAMESPACES", "SEXTON_KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))


class DeadWatcher:
    """One whose thread ended by itself."""

    def __init__(self) -> None:
        self.stopped = False

    def start(self) -> None:
        """Nothing."""

    def check(self) -> None:
        raise Retryable("ended unexpectedly", where="thread 'dispatch'", hint="restart it")

    def stop(self, *, disconnect: Callable[[], None]) -> None:
        disconnect()
        self.stopped = True


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


REFUSED = {
    "recovery without a namespace": (["--enable-tombstone-recovery"], "POD_NAMESPACE"),
    "a number that is none": (["--resync-seconds", "soon"], "SEXTON_RESYNC_SECONDS"),
    "a selector that is none": (["--composition-label-selector", "=="], "SEXTON_COMPOSITION_LABEL_SELECTOR"),
    "a broker that is none": (["--broker-url", "http://redis"], "SEXTON_BROKER_URL"),
    "an instance that is no label": (["--instance", "Not A Label"], "SEXTON_INSTANCE"),
    "two scopes": (["--all-namespaces", "--composition-namespace", "a"], "SEXTON_ALL_NAMESPACES"),
    "times by which two could lead": (
        ["--pod-namespace", "a", "--lease-renew-deadline", "15"],
        "SEXTON_LEASE_RENEW_DEADLINE must be less than SEXTON_LEASE_DURATION",
    ),
    "times in which nobody could renew": (["--lease-retry-period", "9"], "1.2 times SEXTON_LEASE_RETRY_PERIOD"),
    "a lease for years": (["--lease-duration", "31536000"], "SEXTON_LEASE_DURATION"),
    "all namespaces, and none for the lease": (["--all-namespaces"], "no namespace for the watcher's Lease"),
    "no scope at all": ([], "no namespace to look after"),
    "a kubeconfig that is missing": (["--pod-namespace", "a", "--kubeconfig", "missing"], "kubeconfig missing"),
    "a flag that is none": (["--bogus"], "unrecognized arguments: --bogus; see python -m watcher --help"),
    "a flag without its value": (["--instance"], "--instance: expected one argument"),
}


@pytest.mark.parametrize(("arguments", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_is_refused_in_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert named in err


def test_what_workers_could_not_run_with_is_refused_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEXTON_VISIBILITY_TIMEOUT", "60")
    assert main(["--pod-namespace", "a"]) == 2
    assert "SEXTON_VISIBILITY_TIMEOUT must be more than SEXTON_TASK_TIME_LIMIT" in capsys.readouterr().err


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "\n  77  a permission is missing" in capsys.readouterr().out


def test_help_names_the_variable_of_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "[SEXTON_COMPOSITION_LABEL_SELECTOR]" in capsys.readouterr().out.replace("\n", "").replace(" ", "")


def test_signals_are_no_longer_held_back_once_it_has_ended() -> None:
    main([])
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGTERM, signal.SIGINT}


@pytest.mark.usefixtures("logging_as_before")
def test_the_death_of_a_thread_ends_the_process_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = DeadWatcher()
    monkeypatch.setattr("watcher.__main__.assemble", lambda *_: dead)
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")

    assert main(["--kubeconfig", str(tmp_path / "kubeconfig"), "--pod-namespace", "prod"]) == 75
    *_, line = capsys.readouterr().err.splitlines()
    assert line == "watcher: thread 'dispatch': ended unexpectedly; restart it"
    assert dead.stopped


@pytest.mark.usefixtures("logging_as_before")
def test_a_redis_that_is_dead_is_told_of_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("watcher.__main__.assemble", lambda *_: DeadWatcher())
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    here = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--pod-namespace", "prod"]
    main([*here, "--broker-url", "redis://127.0.0.1:1/0"])
    line = json.loads(capsys.readouterr().err.splitlines()[0])
    assert (line["level"], line["action"], line["code"]) == ("error", "broker-unfit", "unreachable")
    assert "start Redis, or correct SEXTON_BROKER_URL" in line["message"]
