"""docs/command.md, run line by line: API servers, a Redis and a worker are there, and a composition `apps/shop`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from console.cast import start_servers
from console.main import EXIT_CODES, app
from console.play import Play
from console.stage import Stage
from console.story import Manifest
from eno.identity import parse_head
from kube.resources import LEASES
from runtime.settings import Settings, variable
from tests.support.assets import find_assets
from tests.support.command import COMMAND, ROOT, Sexton
from tests.support.factories import manifest
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import running_worker

PAGE = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
EXAMPLES = [
    line.replace("\\\n", "")
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in re.findall(r"^\$ (.*(?:\n {2,}.*)*)", block, re.MULTILINE)
]


class Town:
    """Where the examples run."""

    def __init__(self, sexton: Sexton, play: Play) -> None:
        self.sexton = sexton
        self.play = play

    def shell(self, line: str) -> None:
        """Run a line that is not the command's own."""
        kubectl = find_assets(os.environ) or shutil.which("kubectl")
        if kubectl is None:
            pytest.skip("there is no kubectl")
        places = [Path(sys.executable).parent, kubectl, os.environ["PATH"]]
        kubeconfig = self.sexton.settings["SEXTON_KUBECONFIG"]
        environment = self.sexton.environment | {"PATH": ":".join(map(str, places)), "KUBECONFIG": kubeconfig}
        done = subprocess.run(
            ["/bin/sh", "-ec", line], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.strip()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    directory = tmp_path_factory.mktemp("town")
    with running_redis(directory) as redis, Stage() as stage:
        upstream, downstream = start_servers(stage, time.monotonic() + 60)
        fields = {
            "kubeconfig": str(upstream.kubeconfig),
            "downstream_kubeconfig": str(downstream.kubeconfig),
            "broker_url": redis.url,
            "pod_namespace": "apps",
            "enable_tombstone_recovery": "true",
        }
        sexton = Sexton({variable(name): value for name, value in fields.items()})
        with (
            closing(upstream.connect()) as up,
            closing(downstream.connect()) as down,
            running_worker(directory, Settings.load(**fields)),
        ):
            play = Play(up, down, "apps", "shop", "web")
            play.create_namespace()
            text = manifest()
            play.create([Manifest(text, parse_head(text))])
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {"holderIdentity": "watcher-1", "leaseDurationSeconds": 3600, "renewTime": now}
            up.create(LEASES, "apps", {"metadata": {"name": "sexton-watcher"}, "spec": spec})
            yield Town(sexton, play)


def test_every_example_works(town: Town) -> None:
    for example in EXAMPLES:
        if not example.startswith("sexton "):
            town.shell(example)
            continue
        found = town.sexton(*shlex.split(example)[1:])
        errors = [each for each in found.err.splitlines() if not each.startswith("waiting: ")]
        assert (found.code, errors) == (0, []), (example, found)
        assert found.out.strip()
        if "enqueue gate" in example:
            become_ready(town)
        if "backfill record" in example and "--rate" in example:
            until(lambda: town.play.inventory() is not None, "its inventory is recorded", seconds=60)


def become_ready(town: Town) -> None:
    """What Eno and the watcher do meanwhile in a real cluster."""
    town.play.reconcile()
    town.sexton("enqueue", "gate", "apps/shop", "--force")
    found = town.sexton("wait", "apps/shop", "--for", "ready", "--timeout", "60")
    assert found.code == 0, found


def test_every_command_has_an_example() -> None:
    command = typer.main.get_command(app)
    names = set(getattr(command, "commands", {}))
    shown = {
        word.split()[1]
        for word in re.findall(r"^\$? ?(sexton .*)$", PAGE, re.MULTILINE)
        if not word.split()[1].startswith("-")
    }
    assert shown == names


def test_every_exit_code_is_documented_as_the_help_has_it() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in EXIT_CODES.items()}


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        pytest.param("sexton enq", "enqueue", id="a command"),
        pytest.param("sexton backfill rec", "recover\nrecord", id="a task"),
        pytest.param("sexton wait a/b --for r", "ready", id="a value"),
    ],
)
def test_the_shell_completes(words: str, completed: str) -> None:
    environment = {
        **os.environ,
        "_SEXTON_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(COMMAND, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, completed, "")


def test_the_document_is_json_whatever_the_terminal(town: Town) -> None:
    for words in (["status"], ["doctor"], ["explain", "apps/shop"], ["backfill", "gate", "--dry-run"]):
        json.loads(town.sexton.having(COLUMNS="20")(*words, "-o", "json").out)
