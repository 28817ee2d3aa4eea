"""`sexton plan` over HTTP: what it prints is what recover then writes, and it writes nothing itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from console.audit import AuditTrail
from console.cast import NAMESPACE, Server, start_servers
from console.clusters import utc_now
from console.main import main
from console.play import Play, desired, difference, tombstones
from console.stage import Stage
from console.story import Manifest
from eno.identity import parse_head
from kube.cluster import Query, list_all
from kube.resources import RESOURCE_SLICES, SECRETS
from runtime.messages import GateMessage, RecordMessage, RecoverMessage
from runtime.settings import Settings
from tests.support.factories import manifest
from tests.support.redis import running_redis
from workers.context import Context
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.recover import recover

pytestmark = pytest.mark.usefixtures("_no_settings_from_outside")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with Stage() as stage:
        yield start_servers(stage, time.monotonic() + 60)


@pytest.fixture
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "POD_NAMESPACE", "SEXTON_DOWNSTREAM_KUBECONFIG", "SEXTON_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True)
class Scene:
    """One composition that was lost and recreated, and the command that looks at it."""

    servers: tuple[Server, Server]
    play: Play
    capsys: pytest.CaptureFixture[str]

    @property
    def title(self) -> str:
        return f"{self.play.namespace}/{self.play.name}"

    def sexton(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        upstream, downstream = self.servers
        flags = ["--kubeconfig", str(upstream.kubeconfig), "--downstream-kubeconfig", str(downstream.kubeconfig)]
        code = main([*flags, *arguments])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def plan(self) -> dict[str, Any]:
        """The plan as JSON; the command succeeds."""
        code, out, err = self.sexton("plan", self.title, "--output", "json")
        assert (code, err) == (0, "")
        document: dict[str, Any] = json.loads(out)
        return document

    def recover(self) -> None:
        """The recovery itself, as a worker runs it."""
        recover(RecoverMessage(**self._subject()), self._context())

    def remember(self) -> None:
        """A whole first life: decided, reconciled, ready, and its inventory recorded."""
        self.recover()
        self.play.reconcile()
        gate(GateMessage(**self._subject()), self._context())
        record(RecordMessage(**self._subject()), self._context())
        assert self.play.inventory() is not None

    def _subject(self) -> dict[str, Any]:
        composition = self.play.read()
        assert composition.current is not None
        return {
            "namespace": composition.namespace,
            "name": composition.name,
            "uid": composition.uid,
            "synthesis_uuid": composition.current.uuid,
        }

    def _context(self) -> Context:
        upstream, downstream = (server.connect("test") for server in self.servers)
        return Context(
            upstream, downstream, utc_now, Settings.load(pod_namespace=NAMESPACE, enable_tombstone_recovery=True)
        )


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, servers: tuple[Server, Server], capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    upstream, downstream = (server.connect() for server in servers)
    # A lineage of its own for every test: they share the servers and the namespace.
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:60].strip("-")
    play = Play(upstream, downstream, NAMESPACE, name, f"{name}-synthesizer")
    play.create_namespace()
    yield Scene(servers, play, capsys)
    upstream.close()
    downstream.close()


def story(*texts: str) -> list[Manifest]:
    return [Manifest(text, parse_head(text)) for text in texts]


def lost(scene: Scene, history: Sequence[str], kept: Sequence[str]) -> None:
    """Play until the composition was recreated with what is kept."""
    scene.play.create(story(*history))
    scene.remember()
    scene.play.lose()
    scene.play.create(story(*kept))


def large(name: str, size: int) -> str:
    """A manifest of exactly `size` bytes."""
    text = manifest(name=name, annotations={"pad": ""})
    return manifest(name=name, annotations={"pad": "x" * (size - len(text))})


def names(identities: Sequence[dict[str, str]]) -> list[str]:
    return [identity["name"] for identity in identities]


def test_what_it_prints_is_what_the_recovery_writes_slice_by_slice(scene: Scene) -> None:
    # Two slices: the first has room for about one tombstone, the second for none.
    kept = [large("a", 524_288 - 150), large("b", 524_288)]
    gone = [manifest(name=f"gone-{number}") for number in range(5)]
    lost(scene, [*kept, *gone], kept)
    before = scene.play.slices()

    planned = scene.plan()
    scene.recover()

    after = scene.play.slices()
    assert planned["writes"] == [write.to_json() for write in difference(before, after)]
    assert [write["operation"] for write in planned["writes"]] == ["append", "create"]
    assert sorted(identity.name for identity in tombstones(after)) == [f"gone-{number}" for number in range(5)]
    assert desired(after) == kept
    assert planned["decision"] == scene.play.decision()


def test_it_reads_only(scene: Scene) -> None:
    lost(scene, [manifest(name="a"), manifest(name="b")], [manifest(name="a")])
    audit = AuditTrail.since_now(*(server.audit_log for server in scene.servers))

    scene.plan()
    scene.sexton("plan", scene.title)

    assert set(audit.calls("sexton-console/")) == {"get", "list"}


def test_for_people_it_is_a_tree_that_fits_eighty_columns(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    namespace = manifest("Namespace", "shop", "")
    lost(scene, [manifest(name="a"), manifest(name="b"), namespace], [manifest(name="a")])

    code, out, err = scene.sexton("plan", scene.title)

    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    for expected in ("append 1 tombstone to slice", "ConfigMap shop/b", "hold", "Namespace shop", "publish Finished"):
        assert expected in text


def test_what_is_held_is_named_and_not_among_the_tombstones(scene: Scene) -> None:
    namespace = manifest("Namespace", "shop", "")
    lost(scene, [manifest(name="a"), manifest(name="b"), namespace], [manifest(name="a")])

    planned = scene.plan()

    assert names(planned["held"]) == ["shop"]
    assert [names(write["tombstones"]) for write in planned["writes"]] == [["b"]]


def test_what_a_sibling_wants_is_never_in_the_plan(scene: Scene) -> None:
    sibling = replace(scene.play, name=f"{scene.play.name}-2")
    lost(scene, [manifest(name=name) for name in "abc"], [manifest(name="a")])
    sibling.create(story(manifest(name="b")))

    planned = scene.plan()

    assert [names(write["tombstones"]) for write in planned["writes"]] == [["c"]]


def test_history_under_another_name_is_waited_for(scene: Scene) -> None:
    scene.play.create(story(manifest(name="a")))
    scene.remember()
    scene.play.lose()
    renamed = replace(scene, play=replace(scene.play, name=f"{scene.play.name}-2"))
    renamed.play.create(story(manifest(name="b")))

    planned = renamed.plan()

    assert (planned["decision"], planned["writes"]) == (None, [])
    assert planned["note"].startswith("waiting until ")


def test_a_first_synthesis_without_history_has_an_empty_plan(scene: Scene) -> None:
    scene.play.create(story(manifest()))

    planned = scene.plan()

    assert planned["writes"] == []
    assert planned["decision"]["reason"] == "InventoryNotFound"


def test_after_the_decision_there_is_nothing_to_plan(scene: Scene) -> None:
    lost(scene, [manifest(name="a"), manifest(name="b")], [manifest(name="a")])
    scene.recover()

    planned = scene.plan()

    assert (planned["decision"], planned["writes"]) == (None, [])
    assert planned["note"] == "nothing to do: decided (FinishedTombstoneRecovery)"


def test_a_composition_that_does_not_exist_is_named(scene: Scene) -> None:
    code, out, err = scene.sexton("plan", "demo/nobody")

    assert (code, out) == (1, "")
    assert err == "sexton: composition demo/nobody: does not exist; check the namespace and the name\n"


def test_a_malformed_inventory_names_the_secret_and_buries_nothing(scene: Scene) -> None:
    scene.play.create(story(manifest(name="a"), manifest(name="b")))
    scene.remember()
    _break_inventory(scene)
    scene.play.lose()
    scene.play.create(story(manifest(name="a")))

    code, out, err = scene.sexton("plan", scene.title, "--output", "json")

    document = json.loads(out)
    assert code == 1
    assert err.startswith("sexton: Secret kube-system/")
    assert err.count("\n") == 1
    assert document["decision"]["reason"] == "InventoryInvalid"
    assert document["writes"] == []


def test_a_malformed_slice_is_named_and_buries_nothing(scene: Scene) -> None:
    lost(scene, [manifest(name="a"), manifest(name="b")], [manifest(name="a")])
    (only,) = scene.play.slices()
    broken = {"spec": {"resources": [{"manifest": "{oops"}]}}
    scene.play.upstream.merge_patch(RESOURCE_SLICES, NAMESPACE, only.name, broken)

    code, out, err = scene.sexton("plan", scene.title, "--output", "json")

    assert code == 75
    assert only.name in err
    assert err.count("\n") == 1
    assert json.loads(out)["decision"]["reason"] == "CurrentSynthesisResourceSliceError"


def test_an_unreachable_downstream_is_one_line_and_its_exit_code(scene: Scene, tmp_path: Path) -> None:
    lost(scene, [manifest(name="a"), manifest(name="b")], [manifest(name="a")])
    upstream, downstream = scene.servers
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(_unreachable(downstream.kubeconfig.read_text()))
    elsewhere = Scene((upstream, Server("nowhere", nowhere, downstream.audit_log)), scene.play, scene.capsys)

    code, out, err = elsewhere.sexton("plan", scene.title, "--output", "json")

    assert code == 69
    assert err.count("\n") == 1
    assert json.loads(out)["decision"]["reason"] == "InventoryGetError"


def test_status_shows_the_decision_and_what_redis_holds(scene: Scene, tmp_path: Path) -> None:
    scene.play.create(story(manifest()))
    with running_redis(tmp_path) as redis:
        code, out, err = scene.sexton("status", "-n", NAMESPACE, "-o", "json", "--broker-url", redis.url)

    document = json.loads(out)
    assert (code, err) == (0, "")
    (row,) = [each for each in document["compositions"] if each["name"] == scene.play.name]
    assert (row["decision"], row["required"], row["finished"]) == ("undecided", True, False)
    assert document["queues"]["reachable"] is True
    assert document["queues"]["parked"] == []


def test_status_without_redis_shows_the_compositions_and_says_so(scene: Scene) -> None:
    scene.play.create(story(manifest()))

    code, out, err = scene.sexton("status", "-A", "--broker-url", "redis://127.0.0.1:1/0")

    assert code == 69
    assert scene.title in out
    assert err.startswith("sexton: Redis 127.0.0.1:1/0: not available")
    assert err.count("\n") == 1


def _break_inventory(scene: Scene) -> None:
    """Replace the composition's only chunk by one whose payload is no JSON."""
    for secret in list_all(scene.play.downstream, Query(SECRETS, "kube-system")).items:
        metadata = secret["metadata"]
        if metadata["name"].startswith(f"{scene.play.name}-"):
            scene.play.downstream.delete(SECRETS, "kube-system", metadata["name"])
            kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations")}
            body = {**secret, "metadata": kept, "data": {"inventory.json": "e29vcHM="}}
            kept["annotations"].pop("eno.azure.io/inventory-sha256")
            scene.play.downstream.create(SECRETS, "kube-system", body)


def _unreachable(kubeconfig: str) -> str:
    return re.sub(r"(https?://127\.0\.0\.1):\d+", r"\1:1", kubeconfig)
