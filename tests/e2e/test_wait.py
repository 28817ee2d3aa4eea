"""`sexton wait` over HTTP: on a terminal and on a pipe, through broken streams, to every end there is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.cast import Server, start_servers
from console.play import Play
from console.stage import Stage
from console.story import Manifest
from eno.identity import parse_head
from kube.config import load_connection
from kube.resources import COMPOSITIONS
from tests.support.command import Sexton
from tests.support.factories import decided, manifest
from tests.support.faults import Cut, Drop, Hang
from tests.support.proxy import Proxy, request
from tests.support.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Stage() as stage:
        upstream, _ = start_servers(stage, time.monotonic() + 60)
        yield upstream


@dataclass(frozen=True)
class Scene:
    """A composition that Eno has synthesized, and the command, which reaches its server through a proxy."""

    play: Play
    sexton: Sexton
    proxy: Proxy

    @property
    def title(self) -> str:
        return f"{self.play.namespace}/{self.play.name}"

    def decide(self, reason: str = "NotNeeded") -> None:
        current = self.play.read().current
        assert current is not None
        fields = {"currentSynthesis": {"tombstoneRecoveryStatus": decided(reason, current.uuid)}}
        self.play.upstream.merge_patch(
            COMPOSITIONS, self.play.namespace, self.play.name, {"status": fields}, subresource="status"
        )

    def watching(self, times: int = 1) -> bool:
        return sum(seen.watch for seen in self.proxy.seen) >= times


@pytest.fixture
def scene(server: Server, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:60].strip("-")
    upstream = server.connect()
    play = Play(upstream, upstream, "demo", name, f"{name}-synthesizer")
    play.create_namespace()
    text = manifest()
    play.create([Manifest(text, parse_head(text))])
    with Proxy(load_connection(str(server.kubeconfig))) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        yield Scene(play, Sexton({"SEXTON_KUBECONFIG": str(kubeconfig)}), proxy)
    upstream.close()


def test_on_a_terminal_one_line_says_what_it_waits_for_and_then_what_came(scene: Scene) -> None:
    with scene.sexton.begun("wait", scene.title) as running:
        running.until_shown("nothing is decided about its synthesis")
        scene.decide()
        running.until_shown("NotNeeded")
        assert running.process.wait(30) == 0


def test_on_a_terminal_ctrl_c_ends_it(scene: Scene) -> None:
    with scene.sexton.begun("wait", scene.title) as running:
        running.until_shown("nothing is decided about its synthesis")
        assert running.interrupt() == 130
        assert "Traceback" not in running.text


def test_streams_that_break_are_opened_again(scene: Scene) -> None:
    scene.proxy.rule(request(watch=True), Drop(), times=1)
    scene.proxy.rule(request(watch=True), Cut(half=b'{"type":'), times=1)
    with scene.sexton.begun("wait", scene.title) as running:
        until(lambda: scene.watching(times=3), "the stream is open once more")
        scene.decide()
        assert running.process.wait(30) == 0, running.text


def test_for_machines_there_is_one_document_and_nothing_else(scene: Scene) -> None:
    scene.decide()
    found = scene.sexton("wait", scene.title, "--output", "json")
    assert (found.code, found.err) == (0, "")
    document = json.loads(found.out)
    assert (document["outcome"], document["reason"], document["composition"]) == ("reached", "NotNeeded", scene.title)


def test_not_in_time_is_exit_code_124_and_one_line(scene: Scene) -> None:
    found = scene.sexton("wait", scene.title, "--timeout", "0.5", "-o", "json")
    assert (found.code, found.json["outcome"]) == (124, "timed out")
    assert found.err.startswith(f"sexton: composition {scene.title}: not in time: nothing is decided")
    assert found.err.count("\n") == 1


def test_a_server_that_is_silent_holds_it_no_longer_than_its_time(scene: Scene) -> None:
    scene.proxy.rule(request(), Hang())
    assert_not_in_time(scene)


def test_a_server_that_falls_silent_holds_it_no_longer_than_its_time(scene: Scene) -> None:
    scene.proxy.rule(request(watch=True), Hang())
    assert_not_in_time(scene)


def assert_not_in_time(scene: Scene) -> None:
    """Where there is time, a silent server is waited for ten seconds, or for a whole watch."""
    began = time.monotonic()
    found = scene.sexton("wait", scene.title, "--timeout", "3")
    took = time.monotonic() - began
    assert found.code == 124, found.err
    assert f"sexton: composition {scene.title}: not in time: the API server does not answer" in found.err
    assert 3 <= took < 9


def test_deleted_meanwhile_it_ends_at_once(scene: Scene) -> None:
    with scene.sexton.begun("wait", scene.title) as running:
        until(scene.watching, "the stream is open")
        scene.play.lose()
        assert running.process.wait(30) == 1
        running.until_shown("deleted")


@pytest.mark.parametrize(
    ("annotations", "words", "says"),
    [
        pytest.param(
            {"eno.azure.io/recovery-enabled": None},
            [],
            "it is not opted in; kubectl annotate compositions.eno.azure.io -n demo",
            id="not opted in",
        ),
        pytest.param({}, ["--for", "ready", "--timeout", "0"], "not in time", id="opted in, and not ready"),
    ],
)
def test_what_can_not_come_says_what_to_do(
    scene: Scene, annotations: dict[str, str | None], words: list[str], says: str
) -> None:
    patch = {"metadata": {"annotations": annotations}}
    scene.play.upstream.merge_patch(COMPOSITIONS, "demo", scene.play.name, patch)
    found = scene.sexton("wait", scene.title, *words)
    assert (found.code in (1, 124), says in found.err, found.out) == (True, True, "")
    scene.play.lose()


def test_a_recovery_that_was_skipped_is_not_called_a_success(scene: Scene) -> None:
    scene.decide("TombstoneRecoveryOperatorNotEnabled")
    found = scene.sexton("wait", scene.title)
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert "set SEXTON_ENABLE_TOMBSTONE_RECOVERY=true for watcher and workers" in found.err


def test_a_server_that_is_not_there_is_exit_code_69(scene: Scene) -> None:
    scene.proxy.rule(request(), Drop())
    found = scene.sexton("wait", scene.title)
    assert (found.code, found.err.count("\n")) == (69, 1)
