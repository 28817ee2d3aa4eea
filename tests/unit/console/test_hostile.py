"""Nothing that stands in a cluster acts on the terminal of whoever looks at it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from console import render
from console.doctor import page
from console.doctor.checks import Check, Examination, State, broken
from console.main import main
from console.narrator import Narrator
from console.stage import Child
from eno.errors import Forbidden, Terminal
from kube.cluster import PAGE_SIZE, Json, Page, Query
from kube.resources import SECRETS, Resource
from runtime.dispatch import Dispatcher
from tests.support.factories import NAMESPACE, STAMP, decided, entry, manifest, synthesis
from tests.support.hints import Hints
from tests.support.tap import Call, Tap
from tests.support.world import World, recover_message

HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x1b[31m[red]bold[/red][/]:smile:\r\nFORGED \u202egnp.exe\u2028\x85\x9b31m\t"
SHOWN = r"\x1b]0;PWNED\x07\x1b[2J\x1b[31m[red]bold[/red][/]:smile:"

STYLES = re.compile(r"\x1b\[[0-9;]*m")
LIVE = re.compile(r"\x1b\[\?25[lh]|\x1b\[[12][AK]|\x1b\[2K|\r")
"""What a line that changes on a terminal is made of: the cursor hidden or shown, one line up, the line erased."""

KEPT = frozenset({"apiVersion", "kind", "type", "uid", "data", "annotations", "labels", "resourceVersion", "namespace"})
"""What an API server vouches for, or what is not read as text."""


def poisoned(value: Any, key: str = "") -> Any:
    """JSON with hostile text in each of its strings but those that say which object it is about, and instants."""
    match value:
        case dict():
            return {name: each if name in KEPT else poisoned(each, name) for name, each in value.items()}
        case list():
            return [poisoned(each, key) for each in value]
        case str() if not re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", value):
            return value + HOSTILE
        case _:
            return value


class Poisoned(Tap):
    """A cluster, seen through poisoned answers."""

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        own = namespace and namespace.removesuffix(HOSTILE)
        found: Json = poisoned(super().get(resource, own, name.removesuffix(HOSTILE), metadata_only=metadata_only))
        return found

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        page = super().list_page(query, limit=limit, continue_token=continue_token)
        return Page([poisoned(each) for each in page.items], page.resource_version, page.continue_token, page.date)


class Screen(StringIO):
    """A terminal of 1000 columns: nothing is folded, so that each line is one that somebody meant."""

    def isatty(self) -> bool:
        return True


@dataclass
class Place:
    """Where commands run: clusters and a Redis in memory."""

    world: World
    hints: Hints

    def run(self, *words: str) -> str:
        """Run the command on a terminal, and return all that it wrote there."""
        return self._run(Screen(), words)

    def pipe(self, *words: str) -> str:
        """Run the command on a pipe."""
        return self._run(StringIO(), words)

    def _run(self, screen: StringIO, words: Sequence[str]) -> str:
        with patch.object(sys, "stdout", screen), patch.object(sys, "stderr", screen):
            main(words)
        return screen.getvalue()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    world, hints = World(), Hints()
    world.upstream, world.downstream = Poisoned(world.up), Poisoned(world.down)
    monkeypatch.setattr("console.clusters.context", lambda _: world.context)
    monkeypatch.setattr("console.clusters.waiting", lambda _: lambda _: nullcontext(Poisoned(world.up)))
    monkeypatch.setattr(Dispatcher, "connect", lambda _: hints.dispatcher)
    monkeypatch.setattr("console.clusters.utc_now", world.clock)
    for name, value in {"POD_NAMESPACE": NAMESPACE, "TERM": "xterm-256color", "COLUMNS": "1000"}.items():
        monkeypatch.setenv(name, value)
    return Place(world, hints)


def check(text: str) -> None:
    """Hostile text is there, and all of it can be read."""
    bare = LIVE.sub("", STYLES.sub("", text))
    assert SHOWN in bare, bare
    assert [each for each in bare if not each.isprintable() and each != "\n"] == []
    assert not [line for line in bare.splitlines() if line.lstrip().startswith("FORGED")]


def a_shop(world: World, **fields: Any) -> None:
    """A composition with everything that a screen may show of one."""
    current = synthesis(slices=["current", "gone"], **fields)
    world.add_composition(current=current, previousSynthesis=synthesis("old", slices=["previous"]))
    world.add_slice("current", [manifest()])
    world.add_slice("previous", [manifest()])
    world.remember([entry(name="web"), entry(name="former" + HOSTILE)])


RETRYING = {"tombstoneRecoveryStatus": {**decided("InventoryGetError", message="list"), "status": False}}
FINISHED = {"tombstoneRecoveryStatus": decided("NotNeeded", message="none"), "ready": STAMP, "reconciled": STAMP}


@pytest.mark.parametrize("fields", [pytest.param(RETRYING, id="retrying"), pytest.param(FINISHED, id="finished")])
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["status", "-n", NAMESPACE], id="status"),
        pytest.param(["explain", "apps/shop"], id="explain"),
        pytest.param(["plan", "apps/shop"], id="plan"),
        pytest.param(["wait", "apps/shop", "--timeout", "0"], id="wait"),
        pytest.param(["wait", "apps/shop", "--timeout", "0", "--for", "ready"], id="wait until ready"),
        pytest.param(["backfill", "gate", "-n", NAMESPACE], id="backfill"),
        pytest.param(["backfill", "gate", "-n", NAMESPACE, "--dry-run"], id="backfill, dry"),
        pytest.param(["inventory", "verify"], id="inventory verify"),
    ],
)
def test_what_stands_in_a_composition_acts_on_no_terminal(place: Place, fields: Json, words: Sequence[str]) -> None:
    a_shop(place.world, **fields)
    check(place.run(*words))
    check(place.pipe(*words))


def test_a_document_is_exact_and_in_ascii(place: Place) -> None:
    a_shop(place.world, **RETRYING)
    text = place.pipe("explain", "apps/shop", "-o", "json")
    assert text.isascii()
    assert json.loads(text)["message"] == f"list{HOSTILE}"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["status", "-n", NAMESPACE], id="status"),
        pytest.param(["explain", "apps/shop"], id="explain"),
        pytest.param(["enqueue", "recover", "apps/shop"], id="enqueue"),
    ],
)
def test_what_redis_holds_acts_on_no_terminal(place: Place, words: Sequence[str]) -> None:
    a_shop(place.world)
    place.world.upstream = place.world.up
    composition = place.world.composition()
    place.hints.begin(recover_message(composition)).park(Terminal("x" + HOSTILE))
    check(place.run(*words))


ANNOTATIONS = ("namespace", "composition", "synthesizer", "synthesis-uuid", "synthesized", "chunk", "chunks")


@pytest.mark.parametrize("subcommand", ["show", "verify"])
def test_what_a_snapshot_holds_acts_on_no_terminal(place: Place, subcommand: str) -> None:
    a_shop(place.world)
    place.world.remember([entry()], uuid=HOSTILE, synthesized="2026-01-01T00:00:00Z")
    place.world.upstream, place.world.downstream = place.world.up, place.world.down
    check(place.run("inventory", subcommand, "apps/shop"))


@pytest.mark.parametrize("words", [["list"], ["verify", "apps/shop"]], ids=" ".join)
@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_what_an_inventory_says_acts_on_no_terminal(place: Place, words: Sequence[str], annotation: str) -> None:
    a_shop(place.world, **FINISHED)
    (secret,) = place.world.secrets()
    note = {"metadata": {"annotations": {f"eno.azure.io/inventory-{annotation}": HOSTILE}}}
    place.world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], note)
    check(place.run("inventory", *words))


@pytest.mark.parametrize("words", [["status", "-A"], ["plan", "apps/shop"], ["inventory", "list"]], ids=" ".join)
def test_what_an_api_server_complains_of_acts_on_no_terminal(place: Place, words: Sequence[str]) -> None:
    def refuse(call: Call) -> None:
        raise Forbidden(f"{call}{HOSTILE}", status=403, reason=HOSTILE, message=HOSTILE, hint=HOSTILE)

    place.world.upstream.before = place.world.downstream.before = refuse
    check(place.run(*words))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([HOSTILE], id="a command"),
        pytest.param(["plan", HOSTILE], id="a composition"),
        pytest.param(["status", "-l", HOSTILE], id="a selector"),
        pytest.param(["status", "--instance", HOSTILE], id="a setting"),
        pytest.param(["demo", "--manifests", HOSTILE], id="a file"),
    ],
)
def test_what_stands_on_the_command_line_acts_on_no_terminal(place: Place, words: Sequence[str]) -> None:
    text = place.run(*words)
    assert text.startswith("sexton: ")
    assert text.removesuffix("\n").isprintable()


def test_what_the_doctor_finds_acts_on_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    checks = [Check(HOSTILE, HOSTILE, state, HOSTILE, HOSTILE) for state in State]
    error = Forbidden(HOSTILE, status=403, reason=HOSTILE, message=HOSTILE, hint=HOSTILE)
    screen = Screen()
    page.show(Examination([*checks, broken(HOSTILE, HOSTILE, error)]), render.terminal(screen))
    check(screen.getvalue())


def test_what_a_play_tells_acts_on_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    screen = Screen()
    narrator = Narrator(render.terminal(screen))
    narrator.tell(HOSTILE)
    with narrator.waiting(HOSTILE):
        narrator.show(HOSTILE)
    check(screen.getvalue())


def test_the_last_lines_of_a_process_act_on_no_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"one\ntwo{HOSTILE}", encoding="utf-8")
    process: Any = None
    shown = Child("worker", process, log).tail()
    assert shown.startswith("one\ntwo\\x1b]0;")
    assert all(line.isprintable() for line in shown.split("\n"))
