"""The demo's processes never outlive the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from console import stage as stage_module
from console.stage import Stage
from eno.errors import BrokerUnavailable, Terminal

ENVIRONMENT: Mapping[str, str] = dict(os.environ)

FORKING = ["/bin/sh", "-c", "sleep 60 & echo $! > forked; wait"]
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo > deaf; while :; do sleep 0.2; done"]


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def read_pid(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().strip() != "")
    return int(path.read_text())


def test_what_a_child_forked_ends_with_it() -> None:
    with Stage() as stage:
        (child,) = stage.start({"forking": FORKING}, ENVIRONMENT)
        grandchild = read_pid(stage.directory / "forked")
        assert alive(grandchild)

    assert not alive(child.process.pid)
    assert eventually(lambda: not alive(grandchild))


def test_a_child_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "STOP_SECONDS", 0.2)
    with Stage() as stage:
        (child,) = stage.start({"stubborn": STUBBORN}, ENVIRONMENT)
        assert eventually((stage.directory / "deaf").exists)

    assert not alive(child.process.pid)


def test_the_directory_goes_with_the_stage() -> None:
    with Stage() as stage:
        stage.start({"quick": ["/bin/true"]}, ENVIRONMENT)

    assert not stage.directory.exists()


def test_everything_ends_when_the_block_raises() -> None:
    with pytest.raises(ZeroDivisionError), Stage() as stage:  # noqa: PT012
        (child,) = stage.start({"sleeping": ["sleep", "60"]}, ENVIRONMENT)
        raise ZeroDivisionError

    assert not alive(child.process.pid)


def test_the_last_started_are_the_first_ended() -> None:
    order: list[str] = []
    with Stage() as stage:
        group = subprocess.Popen(["sleep", "60"], start_new_session=True)

        def stop() -> None:
            order.append("redis" if group.poll() is None and not later.running else "too early")
            group.kill()
            group.wait()

        stage.adopt(group.pid, stop)
        (later,) = stage.start({"later": ["sleep", "60"]}, ENVIRONMENT)

    assert order == ["redis"]


def test_a_stage_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from console.stage import Stage\n"
        "with Stage() as stage:\n"
        "    (child,) = stage.start({'sleeping': ['sleep', '60']}, os.environ)\n"
        "    Path(sys.argv[1]).write_text(f'{child.process.pid} {stage.directory}')\n"
        "    time.sleep(60)\n"
    )
    note = tmp_path / "note"
    killed = subprocess.Popen([sys.executable, "-c", script, str(note)])
    assert eventually(lambda: note.exists() and " " in note.read_text())
    pid, directory = note.read_text().split(" ")

    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert eventually(lambda: not alive(int(pid)))
    assert eventually(lambda: not Path(directory).exists())


def test_a_child_that_ends_is_reported_by_name_and_its_output_is_at_hand() -> None:
    with Stage() as stage:
        (child,) = stage.start({"watcher": ["/bin/sh", "-c", "echo no such cluster; exit 3"]}, ENVIRONMENT)

        with pytest.raises(Terminal, match="demo: watcher ended with exit code 3"):
            stage.wait_for("decision", lambda: None, deadline=time.monotonic() + 20)

        assert child.tail() == "no such cluster"


def test_a_child_that_was_stopped_on_purpose_is_not_missed() -> None:
    with Stage() as stage:
        children = stage.start({"sleeping": ["sleep", "60"]}, ENVIRONMENT)
        stage.stop(children)

        stage.check()

        assert stage.children == ()


def test_a_program_that_does_not_exist_is_named() -> None:
    with Stage() as stage, pytest.raises(Terminal, match="/no/such/program: watcher cannot be started"):
        stage.start({"watcher": ["/no/such/program"]}, ENVIRONMENT)


def test_waiting_returns_what_was_found_and_forgives_retryable_errors() -> None:
    answers = iter([BrokerUnavailable("not yet"), None, "found"])

    def look() -> str | None:
        answer = next(answers)
        if isinstance(answer, BrokerUnavailable):
            raise answer
        return answer

    with Stage() as stage:
        assert stage.wait_for("decision", look, deadline=time.monotonic() + 20) == "found"


def test_waiting_past_the_deadline_names_what_did_not_come_and_why() -> None:
    def look() -> None:
        raise BrokerUnavailable("refused")

    with Stage() as stage, pytest.raises(Terminal, match=r"no decision in time \(refused\)"):
        stage.wait_for("decision", look, deadline=time.monotonic())
