"""README.md and docs/try-it.md without Docker, typed into one shell from the first line to the last.

It takes some 40 s: five processes start for real, and a composition goes through its whole life.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM

import pytest

from tests.deploy.guides import FILES, README, TRY_IT, console_blocks, is_by_hand, is_with_docker, watcher_commands
from tests.deploy.playground import LOOPBACK, free_port
from tests.deploy.rendering import find_kubectl
from tests.support.assets import HINT
from tests.support.redis import running_redis
from tests.support.waiting import until

SECONDS = 300.0
END_SECONDS = 60.0

(START, END) = (block for block in console_blocks(README) if FILES in block)
(POINT_AT_IT, CLEAN_UP) = (block for block in console_blocks(TRY_IT) if is_by_hand(block))
STORY = "".join(block for block in console_blocks(TRY_IT) if not is_by_hand(block) and not is_with_docker(block))

ELSEWHERE = "their-own-cluster"

READY = "for second in $(seq 60); do sexton doctor > doctor.txt 2>&1 && break; sleep 1; done; cat doctor.txt\n"


class Shell:
    """A reader's, whose kubectl has a cluster of their own as soon as nothing says otherwise."""

    def __init__(self, home: Path, kubectl: str) -> None:
        self.home = home
        (home / ".kube").mkdir()
        context = f"{{name: {ELSEWHERE}, context: {{cluster: c, user: u}}}}"
        (home / ".kube" / "config").write_text(
            f"{{apiVersion: v1, kind: Config, current-context: {ELSEWHERE}, contexts: [{context}]}}", encoding="utf-8"
        )
        path = [str(Path(sys.executable).parent), str(Path(kubectl).parent), "/usr/bin", "/bin"]
        self.environment = {"HOME": str(home), "PATH": os.pathsep.join(path), "LANG": "C.UTF-8"}

    def run(self, commands: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Type the commands, one after the other."""
        command = ["bash", "--norc", *flags]
        # A file and not a pipe, which what runs in the background would keep open.
        output = self.home / "output.txt"
        with output.open("w", encoding="utf-8") as file:
            done = subprocess.run(
                command,
                input=commands,
                cwd=self.home,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                start_new_session=True,
            )
        return subprocess.CompletedProcess(command, done.returncode, output.read_text(encoding="utf-8"))

    def pids(self) -> dict[str, int]:
        """Of everything that was started, by name."""
        return {path.stem: int(path.read_text()) for path in (self.home / FILES).glob("*.pid")}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Ends what the commands left, by pid."""
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip(f"no kubectl: {HINT}")
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis"):
        """Skips where there is no Redis."""
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path / "home", kubectl)
    yield shell
    for pid in shell.pids().values():
        with suppress(ProcessLookupError):
            os.kill(pid, SIGTERM)


def on_a_free_port(commands: str) -> str:
    """Redis where nobody listens, in the environment that the tests run in."""
    assert commands.count("6379") == 2
    commands = commands.replace("6379", str(free_port(LOOPBACK)))
    for made in ("make venv\n", ". .venv/bin/activate\n"):
        assert made in commands
        commands = commands.replace(made, "")
    return commands


def with_the_plan(story: str) -> str:
    """The watcher is away around the last patch, and the plan is looked at meanwhile."""
    stop, again = watcher_commands()
    start = story.rindex("kubectl patch ")
    end = story.index("sexton ", start)
    before, patch, after = story[:start], story[start:end], story[end:]
    stopped = f'pid="$(cat {FILES}/watcher.pid)"; {stop}; while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done'
    return f"{before}{stopped}\n{patch}echo 'THE PLAN'; sexton plan eno/shop\n{again}\n{after}"


def gone(pid: int) -> bool:
    """Whether there is no such process, or only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_what_is_typed_gets_a_reader_to_a_recovered_composition_and_leaves_nothing(shell: Shell) -> None:
    commands = on_a_free_port(START) + READY + POINT_AT_IT + with_the_plan(STORY)
    done = shell.run(f"set -euxo pipefail\n{commands}cat {FILES}/*.pid\n{CLEAN_UP}kubectl config current-context\n")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d+ well", done.stdout, re.MULTILINE), done.stdout
    assert "to be mended" not in done.stdout, done.stdout
    assert "InventoryNotFound" in done.stdout
    assert re.search(r'"deleted":true.{1,40}"manifest":"[^}]*\\"old\\"', done.stdout), done.stdout
    planned = done.stdout.rpartition("THE PLAN")[2]
    assert "old" in planned.partition("python -m watcher")[0], done.stdout
    assert set(shell.pids()) == {"devcluster", "redis", "watcher", "worker"}
    for name, pid in shell.pids().items():
        until(lambda pid=pid: gone(pid), f"{name} has ended", seconds=END_SECONDS)  # type: ignore[misc]
    assert done.stdout.splitlines()[-1] == ELSEWHERE, "kubectl is the reader's own again"


def test_both_pages_end_what_was_started_in_the_same_way() -> None:
    started = set(re.findall(rf"> {re.escape(FILES)}/(\w+)\.pid", START))
    assert set(re.search(r"for each in ([\w ]+);", END)[1].split()) == started  # type: ignore[index]
    assert CLEAN_UP.startswith(END)


def test_a_reader_who_exported_nothing_does_not_reach_a_cluster_of_their_own(shell: Shell) -> None:
    """In an interactive shell, which goes on after an error, as when a block is pasted."""
    done = shell.run(f"{POINT_AT_IT}kubectl config current-context; echo $KUBECONFIG is set\nexit\n", "-i")
    assert "run the exports of the README first" in done.stdout
    assert "/dev/null is set" in done.stdout
    assert f"\n{ELSEWHERE}\n" not in done.stdout


def test_nothing_that_the_pages_leave_in_the_clone_would_be_committed() -> None:
    ignored = (README.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"/{FILES}/" in ignored
    assert "*.kubeconfig" in ignored
