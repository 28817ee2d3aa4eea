"""`sexton inventory`: what is stored, what recovery would choose, what is wrong with the rest; nothing written."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from console.inventory import list_remembered, verify, verify_all
from console.main import main
from eno.errors import Unreachable
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.resources import RESOURCE_SLICES, SECRETS
from tests.support.factories import NAMESPACE, STAMP, UUID, Json, decided, entry, manifest, synthesis
from tests.support.tap import fail
from tests.support.world import World, record_message, recover_message
from workers.handlers.record import record
from workers.handlers.recover import recover

KUBE_SYSTEM = "kube-system"
PREFIX = "eno.azure.io/inventory-"
READY: Json = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided("NotNeeded")}


def ready(world: World, *owned: str, **fields: Any) -> None:
    world.add_composition(current=synthesis(slices=["slice-0"], **READY), **fields)
    world.add_slice("slice-0", [manifest(name=name) for name in owned])


def note(world: World, name: str, **annotations: str | None) -> None:
    notes = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, {"metadata": {"annotations": notes}})


def names(world: World) -> list[str]:
    return [str(each["metadata"]["name"]) for each in world.secrets()]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that the command line is connected to."""
    found = World()
    monkeypatch.setattr("console.clusters.context", lambda _: found.context)
    monkeypatch.setenv("POD_NAMESPACE", NAMESPACE)
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def sexton(*words: str) -> tuple[int, str, str]:
        code = main(["inventory", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return sexton


Run = Callable[..., tuple[int, str, str]]


# verify


def test_a_recorded_synthesis_is_reliable(world: World) -> None:
    ready(world, "a", "b")
    record(record_message(world.composition()), world.context)
    found = verify(world.composition(), world.context)
    assert (found.ok, found.entries, found.missing, found.findings) == (True, 2, (), ())
    assert "the newest complete snapshot of its own name" in found.choice


def test_what_verify_names_is_what_recover_takes(world: World) -> None:
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="a")])
    world.remember([entry(name="a"), entry(name="lost")])
    world.remember([entry(name="a"), entry(name="older")], uuid="u0", synthesized="2026-01-01T00:00:00Z")
    found = verify(world.composition(), world.context)
    assert found.chosen is not None
    recover(recover_message(world.composition()), world.context)
    listed = {each.id.name for each in found.chosen.entries()}
    assert set(world.tombstones()) == listed - {"a"} == {"lost"}


def _nothing(world: World) -> None:
    del world


def _older(world: World) -> None:
    world.remember([entry(name="a")])


def _other_content(world: World) -> None:
    world.remember([entry(name="a"), entry(name="b", labels={"x": "y"})], uuid=UUID, synthesized=STAMP)


def _unusable(world: World) -> None:
    record(record_message(world.composition()), world.context)
    note(world, names(world)[0], synthesized="yesterday")


def _incomplete(world: World) -> None:
    record(record_message(world.composition()), world.context)
    note(world, names(world)[0], chunk_count="2")


def _broken_payload(world: World) -> None:
    (secret,) = world.remember([entry(name="a")], uuid=UUID, synthesized=STAMP)
    world.down.delete(SECRETS, KUBE_SYSTEM, secret["metadata"]["name"])
    body = {**secret, "data": {"inventory.json": base64.b64encode(b"[]").decode()}}
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        body["metadata"].pop(key, None)
    world.down.create(SECRETS, KUBE_SYSTEM, body)


def _lost_slice(world: World) -> None:
    record(record_message(world.composition()), world.context)
    world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", {"metadata": {"finalizers": None}})
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "slice-0")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(_nothing, "the ready synthesis is not recorded", id="nothing is stored"),
        pytest.param(_older, "lacks 1 of 2 resources", id="only an older one is stored"),
        pytest.param(_other_content, "does not list what it owns", id="the stored one lists something else"),
        pytest.param(_unusable, "yesterday", id="unusable metadata"),
        pytest.param(_incomplete, "no complete snapshot", id="a chunk is missing"),
        pytest.param(_broken_payload, "does not match its sha256", id="a payload was altered"),
        pytest.param(_lost_slice, "the current slices cannot be read", id="a slice is missing"),
    ],
)
def test_what_cannot_be_relied_on_is_said_and_fails(
    world: World, run: Run, damage: Callable[[World], None], says: str
) -> None:
    ready(world, "a", "b")
    damage(world)
    before = (world.secrets(), world.composition())
    code, out, err = run("verify", "apps/shop", "--output", "json")
    (document,) = json.loads(out)["compositions"]
    assert code == 1
    assert document["ok"] is False
    assert says in document["problem"]
    assert says in err
    assert err.count("\n") == 1
    assert (world.secrets(), world.composition()) == before


def test_the_missing_resources_are_named(world: World, run: Run) -> None:
    ready(world, "a", "b")
    _older(world)
    _, out, _ = run("verify", "apps/shop")
    assert "ConfigMap shop/b" in out


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        pytest.param({}, "nothing: no inventory is stored", id="without any history"),
        pytest.param({"former": "gone"}, "it would wait until 2026-03-01T12:01:00Z", id="too young to adopt"),
        pytest.param({"former": "alive"}, "The history of former is its own", id="history of a living composition"),
    ],
)
def test_before_it_was_ready_it_owes_no_snapshot(world: World, fields: dict[str, str], choice: str) -> None:
    world.add_composition(current=synthesis())
    if fields:
        world.remember([entry()], name="former")
    if fields.get("former") == "alive":
        world.add_composition("former", synthesizer="another", current={})
    found = verify(world.composition(), world.context)
    assert found.ok
    assert found.verdict == ("nothing usable stored yet" if fields else "nothing stored yet")
    assert choice in found.choice


def test_nothing_stored_yet_is_not_called_reliable(world: World, run: Run) -> None:
    world.add_composition(current=synthesis())
    code, out, err = run("verify")
    assert (code, "nothing stored yet" in out, "reliable" in out, err) == (0, True, False, "")
    code, out, _ = run("verify", "--output", "json")
    (document,) = json.loads(out)["compositions"]
    assert (code, document["ok"], document["verdict"]) == (0, True, "nothing stored yet")


def test_history_of_another_name_is_named_with_the_reason(world: World) -> None:
    world.add_composition(current=synthesis())
    world.remember([entry()], name="former")
    world.clock.advance(minutes=2)
    assert "of former, since nobody else can claim it" in verify(world.composition(), world.context).choice


def test_what_is_wrong_with_the_rest_is_told_secret_by_secret(world: World) -> None:
    ready(world, "a")
    (old,) = world.remember([entry(name="old")])
    (partial,) = world.remember([entry(name="x")], uuid="partial", synthesized="2026-02-02T00:00:00Z")
    note(world, partial["metadata"]["name"], chunk_count="3")
    (ahead,) = world.remember([entry(name="y")], uuid="ahead", synthesized="2027-01-01T00:00:00Z")
    (mine,) = world.remember([entry(name="a")], uuid=UUID, synthesized=STAMP)
    world.down.create(
        SECRETS,
        KUBE_SYSTEM,
        {"metadata": {"name": "foreign", "labels": mine["metadata"]["labels"]}, "type": "Opaque", "data": {}},
    )
    found = verify(world.composition(), world.context)
    assert found.ok
    told = "\n".join(found.findings)
    for name, defect in (
        (old["metadata"]["name"], "not the one that would be chosen"),
        (partial["metadata"]["name"], "chunk 1, 2 of 3 is missing"),
        (ahead["metadata"]["name"], "stamped in the future"),
        ("foreign", "it is ignored"),
    ):
        assert any(name in line and defect in line for line in told.splitlines()), (name, defect, told)


def test_verify_all_looks_at_every_opted_in_composition_in_scope(world: World) -> None:
    ready(world, "a")
    world.add_composition("out", opted_in=False)
    world.add_composition("young", current={})
    assert [each.composition.name for each in verify_all(world.context)] == ["shop", "young"]


def test_verify_all_fails_with_the_first_and_counts_the_others(world: World, run: Run) -> None:
    ready(world, "a")
    world.add_composition("twin", current=synthesis(slices=[], **READY))
    code, out, err = run("verify")
    assert code == 1
    assert "apps/shop" in out
    assert "apps/twin" in out
    assert "and 1 more; see docs/operations.md#sextoninventoryinvalid" in err
    assert out.split("\n\n")[1].startswith("composition")


def test_a_composition_that_does_not_exist_is_named(world: World, run: Run) -> None:
    assert world.secrets() == []
    assert run("verify", "apps/nobody") == (
        1,
        "",
        "sexton: composition apps/nobody: does not exist; sexton inventory show tells what is stored of it\n",
    )


def test_an_unreachable_downstream_is_one_line_and_its_exit_code(world: World, run: Run) -> None:
    ready(world, "a")
    world.downstream.before = fail(Unreachable("list secrets", reason="NoConnection"), on="list secrets", times=9)
    for words in (("verify",), ("verify", "apps/shop"), ("list",), ("show", "apps/shop")):
        code, _, err = run(*words)
        assert (code, err.count("\n")) == (69, 1)


# list and show


def test_list_shows_every_snapshot_with_its_state(world: World, run: Run) -> None:
    (one,) = world.remember([entry()])
    world.down.merge_patch(
        SECRETS,
        KUBE_SYSTEM,
        one["metadata"]["name"],
        {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: "2026-02-20T00:00:00Z"}}},
    )
    (two,) = world.remember([entry()], namespace="other", uuid="u2")
    note(world, two["metadata"]["name"], chunk_count="2")
    (three,) = world.remember([entry()], uuid="u3")
    note(world, three["metadata"]["name"], format_version="9")
    code, out, _ = run("list", "--output", "json")
    document = json.loads(out)
    assert code == 0
    assert [(each["namespace"], each["defects"], each["unclaimed_since"]) for each in document["snapshots"]] == [
        ("apps", [], "2026-02-20T00:00:00Z"),
        ("other", ["chunk 1 of 2 is missing"], None),
    ]
    assert [each["secret"] for each in document["unusable"]] == [three["metadata"]["name"]]
    code, out, _ = run("list", "--namespace", "other")
    assert (code, "other/shop" in out, "apps/shop" in out) == (0, True, False)


def test_the_list_fits_eighty_columns_on_one_line_a_snapshot(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    uuid = "0b4b9f7e-1111-4222-8333-444455556666"
    (one,) = world.remember([entry()], namespace="platform", uuid=uuid)
    notes = {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: "2026-02-20T00:00:00Z"}}}
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, one["metadata"]["name"], notes)
    _, out, _ = run("list")
    header, _, row = (line.split() for line in out.splitlines() if line.strip())
    assert header == ["COMPOSITION", "SYNTHESIZER", "SYNTHESIS", "AGE", "UNCLAIMED", "STATE"]
    assert (row[0], row[2], row[-2:]) == ("platform/shop", "0b4b9f7e", ["9d", "complete"])
    assert json.loads(run("list", "--output", "json")[1])["snapshots"][0]["synthesis"] == uuid


def test_list_never_reads_what_is_listed_inside(world: World) -> None:
    world.remember([entry()])
    (found,) = list_remembered(world.down, payloads=False).snapshots
    assert found.chunks[0].data == {}


def test_nothing_stored_is_said(world: World, run: Run) -> None:
    assert world.secrets() == []
    assert run("list") == (0, "Nothing is stored.\n", "")


def test_show_lists_the_resources_of_a_composition_that_is_gone(world: World, run: Run) -> None:
    world.remember([entry(name="a"), entry("Deployment", "b", group="apps")])
    code, out, _ = run("show", "apps/shop")
    assert code == 0
    for expected in ("apps/shop", "complete", "ConfigMap", "Deployment", "apps/v1"):
        assert expected in out
    code, out, _ = run("show", "apps/shop", "--output", "json")
    (snapshot,) = json.loads(out)["snapshots"]
    assert [each["name"] for each in snapshot["entries"]] == ["a", "b"]


def test_show_of_nothing_says_where_to_look(world: World, run: Run) -> None:
    assert world.secrets() == []
    assert run("show", "apps/shop") == (
        1,
        "",
        "sexton: inventory of apps/shop: nothing is stored; see sexton inventory list\n",
    )


def test_a_payload_that_cannot_be_read_does_not_keep_the_rest_from_being_shown(world: World, run: Run) -> None:
    ready(world, "a")
    _broken_payload(world)
    world.remember([entry(name="z")])
    code, out, _ = run("show", "apps/shop")
    assert code == 0
    assert "does not match its sha256" in out
    assert "z" in out
