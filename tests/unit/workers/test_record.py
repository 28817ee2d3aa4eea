"""record through its handler: nothing overwritten, nothing deleted before its replacement was verified."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from eno.errors import (
    Conflict,
    InventoryTooLarge,
    MalformedManifest,
    NotFound,
    Retryable,
    ServerError,
    SextonError,
    StartOver,
    Terminal,
)
from eno.inventory.secrets import PAYLOAD_KEY, snapshot
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from tests.support.factories import (
    NAMESPACE,
    STAMP,
    UUID,
    Json,
    decided,
    entry,
    inventory,
    manifest,
    patch_manifest,
    synthesis,
)
from tests.support.tap import Call, Hook, fail, once, raising
from tests.support.world import World, record_message, recover_message
from workers.handlers import record as module
from workers.handlers.record import record
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome

PREFIX = "eno.azure.io/inventory-"
KUBE_SYSTEM = "kube-system"


def ready_synthesis(uuid: str = UUID, reason: str = "NotNeeded", message: str = "", **fields: Any) -> Json:
    """A synthesis that is due to be recorded; a field given as None is absent."""
    decision = decided(reason, uuid, message)
    return synthesis(
        uuid,
        **{"slices": ["slice-0"], "ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decision, **fields},
    )


def ready(world: World, *, owned: tuple[str, ...] = ("a", "b"), name: str = "shop", **fields: Any) -> None:
    """A composition whose synthesis owns ConfigMaps of these names."""
    created = {key: fields.pop(key) for key in ("opted_in", "inFlightSynthesis", "current") if key in fields}
    world.add_composition(name, **{"current": ready_synthesis(**fields), **created})
    world.add_slice("slice-0", [manifest(name=each) for each in owned], owner=name)


def run(world: World, uuid: str = UUID, name: str = "shop") -> Outcome:
    return record(record_message(world.composition(name), uuid), world.context)


def stored(world: World) -> dict[str, list[str]]:
    """What is listed in all Secrets of ours, by synthesis UUID."""
    found: dict[str, list[str]] = {}
    for secret in sorted(world.secrets(), key=lambda each: str(each["metadata"]["name"])):
        uuid = secret["metadata"].get("annotations", {}).get(f"{PREFIX}synthesis-uuid")
        if uuid:
            found.setdefault(uuid, []).extend(each["name"] for each in json.loads(payload(secret)))
    return found


def payload(secret: Json) -> bytes:
    return base64.b64decode(secret["data"][PAYLOAD_KEY])


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every entry be a chunk."""
    monkeypatch.setattr(module, "snapshot", partial(snapshot, limit=100))


def replace(world: World, secret: Json, **changes: Any) -> None:
    """Put another object in a Secret's place, as somebody who deletes and creates does."""
    metadata = secret["metadata"]
    world.down.delete(SECRETS, KUBE_SYSTEM, metadata["name"])
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    body = {**secret, **changes, "metadata": {**kept, **changes.get("metadata", {})}}
    world.down.create(SECRETS, KUBE_SYSTEM, body)


def test_what_a_ready_synthesis_owns_is_remembered() -> None:
    world = World()
    ready(world)
    assert run(world) == Outcome(Kind.DONE, "recorded in 1 Secret")
    assert stored(world) == {UUID: ["a", "b"]}


def test_the_calls_of_a_recording_are_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    run(world)
    assert world.upstream.counts() == {"get compositions": 1 + 2 + 1, "get resourceslices": 1}
    assert world.downstream.counts() == {"list secrets": 2, "create secrets": 2, "delete secrets": 1}


def test_recording_twice_costs_one_list_and_no_write() -> None:
    world = World()
    ready(world)
    run(world)
    for tap in (world.upstream, world.downstream):
        tap.calls.clear()
    assert run(world) == Outcome(Kind.UNCHANGED, "recorded already")
    assert world.upstream.counts() == {"get compositions": 1}
    assert world.downstream.counts() == {"list secrets": 1}


def test_a_recording_changes_nothing_but_secrets() -> None:
    world = World()
    ready(world)
    before = world.composition()
    run(world)
    assert world.composition() == before
    assert world.events() == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"current": {}}, "not synthesized", id="no synthesis"),
        pytest.param({"synthesized": None}, "not synthesized", id="not synthesized"),
        pytest.param({"ready": None}, "not ready", id="not ready"),
        pytest.param({"tombstoneRecoveryStatus": None}, "undecided", id="undecided"),
        pytest.param({"tombstoneRecoveryStatus": decided(uuid="older")}, "undecided", id="decided for another UUID"),
        pytest.param(
            {"tombstoneRecoveryStatus": {**decided(), "status": False, "reason": "InventoryGetError"}},
            "undecided",
            id="retriable decision",
        ),
        pytest.param({"opted_in": False}, "not opted in", id="not opted in"),
        pytest.param({"uuid": "newer"}, "another synthesis is current", id="superseded"),
    ],
)
def test_nothing_is_recorded_where_it_is_not_called_for(fields: dict[str, Any], reason: str) -> None:
    world = World()
    ready(world, **fields)
    assert run(world) == Outcome(Kind.SUPERSEDED, reason)
    assert world.downstream.calls == []


def test_a_composition_that_is_deleting_is_not_recorded() -> None:
    world = World()
    ready(world)
    _begin_deletion(world)
    assert run(world) == Outcome(Kind.SUPERSEDED, "deleting")
    assert world.writes == []


def test_a_composition_that_is_gone_or_was_recreated_is_superseded() -> None:
    world = World()
    ready(world)
    message = record_message(world.composition())
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    assert record(message, world.context) == Outcome(Kind.SUPERSEDED, "gone")
    world.add_composition(current=ready_synthesis())
    assert record(message, world.context) == Outcome(Kind.SUPERSEDED, "recreated under another UID")
    assert world.writes == []


def test_a_successor_in_flight_does_not_matter() -> None:
    world = World()
    ready(world, inFlightSynthesis={"uuid": "next"})
    assert run(world).kind is Kind.DONE


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param({"enable_tombstone_recovery": False}, "disabled", id="disabled"),
        pytest.param(
            {"pod_namespace": "other", "all_namespaces": True}, "outside the recovery namespace", id="namespace"
        ),
        pytest.param({"composition_label_selector": "a=b"}, "labels do not match", id="labels"),
    ],
)
def test_a_message_about_something_out_of_scope_changes_nothing(settings: dict[str, Any], reason: str) -> None:
    world = World(settings=settings)
    ready(world)
    outcome = run(world)
    assert outcome.kind is Kind.NOT_IN_SCOPE
    assert reason in outcome.reason
    assert world.downstream.calls == []


def test_an_empty_synthesis_is_remembered_as_one_empty_array() -> None:
    world = World()
    ready(world, owned=())
    run(world)
    (secret,) = world.secrets()
    assert payload(secret) == b"[]"


def test_what_the_synthesis_does_not_own_is_not_remembered() -> None:
    world = World()
    world.add_composition(current=ready_synthesis())
    unmanaged = manifest(name="unmanaged", annotations={"eno.azure.io/disable-reconciliation": "true"})
    world.add_slice(
        "slice-0",
        [manifest(name="own"), (manifest(name="grave"), True), patch_manifest("ConfigMap", "target"), unmanaged],
    )
    run(world)
    assert stored(world) == {UUID: ["own"]}


def test_a_slice_that_is_named_twice_counts_once_and_the_first_occurrence_wins() -> None:
    world = World()
    world.add_composition(current=ready_synthesis(slices=["slice-0", "slice-1", "slice-0"]))
    world.add_slice("slice-0", [manifest(name="a", labels={"from": "0"})])
    world.add_slice("slice-1", [manifest(name="a", labels={"from": "1"})])
    run(world)
    (secret,) = world.secrets()
    assert [each["labels"] for each in json.loads(payload(secret))] == [{"from": "0"}]


def _delete_slice(world: World) -> None:
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", [{"op": "remove", "path": "/metadata/finalizers"}])
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "slice-0")


def _break_slice(world: World, **fields: Any) -> None:
    broken = [{"op": "add", "path": "/spec/resources/-", "value": {"manifest": "{", **fields}}]
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", broken)


def _forget_name(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": {"resourceSlices": [{}]}})


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        pytest.param(_delete_slice, NotFound, id="missing"),
        pytest.param(lambda world: world.up.delete(RESOURCE_SLICES, NAMESPACE, "slice-0"), Retryable, id="terminating"),
        pytest.param(_break_slice, MalformedManifest, id="malformed"),
        pytest.param(partial(_break_slice, deleted=True), MalformedManifest, id="malformed tombstone"),
        pytest.param(_forget_name, Retryable, id="nameless"),
    ],
)
def test_trouble_with_a_slice_stops_before_a_secret_is_touched(
    damage: Callable[[World], None], error: type[SextonError]
) -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    damage(world)
    with pytest.raises(error):
        run(world)
    assert world.writes == []


def test_one_resource_that_fits_no_secret_is_an_error_before_any_write(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world, owned=("a", "b" * 99))
    with pytest.raises(InventoryTooLarge, match="100 fit"):
        run(world)
    assert world.writes == []


# Names that are taken


def first_chunk(world: World, **changes: Any) -> Json:
    """What the handler is about to create, with changes; not stored."""
    source = World()
    ready(source)
    run(source)
    (secret,) = source.secrets()
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        del secret["metadata"][key]
    metadata = {**secret["metadata"], **changes.pop("metadata", {})}
    created: Json = world.down.create(SECRETS, KUBE_SYSTEM, {**secret, **changes, "metadata": metadata})
    return created


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="as it is"),
        pytest.param({"finalizers": ["example.com/keep"]}, id="with a finalizer"),
    ],
)
def test_an_equal_secret_that_stands_there_already_is_taken_for_the_chunk(extra: Json) -> None:
    world = World()
    ready(world)
    created = first_chunk(world, metadata=extra)
    world.down.merge_patch(
        SECRETS,
        KUBE_SYSTEM,
        created["metadata"]["name"],
        {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}},
    )
    world.remember([entry(name="old")])
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_a_chunk_that_appears_between_list_and_create_is_taken_as_it_is() -> None:
    world = World()
    ready(world)
    world.downstream.before = once(lambda: first_chunk(world), on="create secrets")
    assert run(world).kind is Kind.DONE
    assert world.downstream.counts()["get secrets"] == 1


OTHER_PAYLOAD = {"data": {PAYLOAD_KEY: base64.b64encode(b"[]").decode()}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param(OTHER_PAYLOAD, "its payload differs", id="payload"),
        pytest.param({"data": {}}, "its payload differs", id="no payload"),
        pytest.param({"type": "example.com/other"}, "its type is example.com/other", id="type"),
        pytest.param({"metadata": {"labels": {}}}, "its label .*lineage differs", id="label"),
        pytest.param({"metadata": {"annotations": {}}}, "its annotation .* differs", id="annotations"),
        pytest.param({"immutable": False}, "it is not immutable", id="not immutable"),
        pytest.param({"metadata": {"ownerReferences": [OWNER]}}, "it has an owner", id="an owner"),
    ],
)
def test_something_else_that_has_the_name_is_neither_overwritten_nor_deleted(changes: Json, says: str) -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    first_chunk(world, **changes)
    before = world.secrets()
    with pytest.raises(Terminal, match=says):
        run(world)
    assert world.secrets() == before
    assert [(kind, reason) for kind, reason, _ in world.events()] == [("Warning", "InventoryConflict")]


def test_a_chunk_that_is_terminating_is_waited_for() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    created = first_chunk(world, metadata={"finalizers": ["example.com/keep"]})
    world.down.delete(SECRETS, KUBE_SYSTEM, created["metadata"]["name"])
    with pytest.raises(Retryable, match="it is terminating"):
        run(world)
    assert "delete secrets" not in world.writes
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, created["metadata"]["name"], {"metadata": {"finalizers": None}})
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_a_chunk_that_is_deleted_while_it_is_compared_is_created_anew() -> None:
    world = World()
    ready(world)
    existing: list[Json] = []
    world.downstream.before = _both(
        once(lambda: existing.append(first_chunk(world)), on="create secrets"),
        once(lambda: world.down.delete(SECRETS, KUBE_SYSTEM, existing[0]["metadata"]["name"]), on="get secrets"),
    )
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def _both(first: Hook, second: Hook) -> Hook:
    def hook(call: Call) -> None:
        first(call)
        second(call)

    return hook


# Verified, and only then replaced


def test_what_is_older_goes_after_the_new_one_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    world.remember([entry(name="older")], uuid="synthesis-0", synthesized="2026-01-01T00:00:00Z")
    run(world)
    assert world.downstream.writes == ["create secrets", "create secrets", "delete secrets", "delete secrets"]
    assert stored(world) == {UUID: ["a", "b"]}


@pytest.mark.parametrize("lost", [1, 2])
def test_a_chunk_that_is_lost_before_the_verification_keeps_the_older_ones(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    world.remember([entry(name="old")])

    def lose() -> None:
        assert "synthesis-1" in stored(world)
        names = [each["metadata"]["name"] for each in world.secrets() if f"-{lost - 1}-" in each["metadata"]["name"]]
        world.down.delete(SECRETS, KUBE_SYSTEM, names[-1])

    world.downstream.before = once(lose, on="list secrets", nth=2)
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_a_snapshot_that_is_never_complete_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    (old,) = world.remember([entry(name="old")])

    def lose(call: Call) -> None:
        if str(call) == "list secrets":
            for each in world.secrets():
                if each["metadata"]["name"] != old["metadata"]["name"]:
                    world.down.delete(SECRETS, KUBE_SYSTEM, each["metadata"]["name"])

    world.downstream.before = lose
    with pytest.raises(StartOver, match="the snapshot is not complete"):
        run(world)
    assert stored(world) == {"synthesis-1": ["old"]}


def test_a_complete_snapshot_that_lists_something_else_replaces_nothing() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    run(world)
    (secret,) = world.secrets()
    wrong = b'[{"group":"","kind":"ConfigMap","name":"z","namespace":"shop","version":"v1"}]'
    notes = {**secret["metadata"]["annotations"]}
    del notes[f"{PREFIX}sha256"]
    replace(world, secret, data={PAYLOAD_KEY: base64.b64encode(wrong).decode()}, metadata={"annotations": notes})
    world.remember([entry(name="old")])
    before = world.secrets()
    with pytest.raises(Terminal, match=r"its annotation .*sha256 differs"):
        run(world)
    assert world.secrets() == before
    assert [reason for _, reason, _ in world.events()] == ["InventoryConflict"]


def test_a_complete_snapshot_with_an_unusable_payload_replaces_nothing() -> None:
    world = World()
    ready(world)
    run(world)
    (secret,) = world.secrets()
    replace(world, secret, **OTHER_PAYLOAD)
    world.remember([entry(name="old")])
    before = world.secrets()
    with pytest.raises(Terminal, match="its payload differs"):
        run(world)
    assert world.secrets() == before


def test_a_later_snapshot_of_the_same_name_is_refused() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="newer")], uuid="newer", synthesized="2026-03-01T11:30:00Z")
    with pytest.raises(Terminal, match="a later inventory of shop is stored: Secret shop-"):
        run(world)
    assert world.writes == []
    assert [(kind, reason) for kind, reason, _ in world.events()] == [("Warning", "InventoryStale")]


def test_a_snapshot_from_the_future_neither_refuses_nor_stays() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="future")], uuid="future", synthesized="2026-03-01T12:06:00Z")
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_other_compositions_of_the_lineage_keep_theirs() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="theirs")], name="twin", uuid="twin-1")
    run(world)
    assert stored(world) == {UUID: ["a", "b"], "twin-1": ["theirs"]}


def test_a_secret_without_usable_metadata_is_replaced_with_its_name() -> None:
    world = World()
    ready(world)
    (secret,) = world.remember([entry(name="old")])
    replace(world, secret, metadata={"annotations": {}})
    run(world)
    assert stored(world) == {UUID: ["a", "b"]}
    assert len(world.secrets()) == 1


def test_a_foreign_secret_with_the_label_is_never_touched_and_never_blocks() -> None:
    world = World()
    ready(world)
    (secret,) = inventory([entry(name="old")])
    labels = secret["metadata"]["labels"]
    for name, kind in (("unrelated", "Opaque"), (secret["metadata"]["name"], "example.com/other")):
        body = {"metadata": {"name": name, "labels": labels}, "type": kind, "data": {}}
        world.down.create(SECRETS, KUBE_SYSTEM, body)
    before = world.secrets()
    assert run(world).kind is Kind.DONE
    assert run(world).kind is Kind.UNCHANGED
    assert [each for each in world.secrets() if each in before] == before


def test_what_stays_terminating_is_not_deleted_again_and_again() -> None:
    world = World()
    ready(world)
    (secret,) = world.remember([entry(name="old")])
    name = secret["metadata"]["name"]
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, {"metadata": {"finalizers": ["example.com/keep"]}})
    run(world)
    assert world.downstream.writes == ["create secrets", "delete secrets"]
    assert run(world).kind is Kind.UNCHANGED


def test_the_evidence_of_an_invalid_inventory_is_kept_for_one_synthesis() -> None:
    world = World()
    ready(world, reason="InventoryInvalid")
    (secret,) = world.remember([entry(name="old")])
    replace(world, secret, metadata={"annotations": {}})
    assert run(world).kind is Kind.DONE
    assert len(world.secrets()) == 2
    assert run(world).kind is Kind.UNCHANGED
    world.patch_composition(
        subresource="status", status={"currentSynthesis": ready_synthesis("next", synthesized="2026-03-01T11:30:00Z")}
    )
    assert run(world, "next").kind is Kind.DONE
    assert stored(world) == {"next": ["a", "b"]}
    assert len(world.secrets()) == 1


# Adopted history


def adopting(world: World) -> None:
    """`renamed` took over the history of `shop`, and is ready."""
    ready(world, name="renamed", message="The history of shop was adopted.", reason="FinishedTombstoneRecovery")
    world.remember([entry(name="old")], name="shop")


def test_adopted_history_is_replaced_by_that_of_who_adopted_it() -> None:
    world = World()
    adopting(world)
    assert run(world, name="renamed").kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}
    assert run(world, name="renamed").kind is Kind.UNCHANGED


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(1, id="before the record"),
        pytest.param(3, id="before it plans"),
        pytest.param(4, id="before the delete"),
    ],
)
def test_adopted_history_stays_when_its_name_is_in_use_again(reads: int) -> None:
    world = World()
    adopting(world)
    world.upstream.before = once(
        lambda: world.add_composition("shop", synthesizer="another", current={}), on="get compositions", nth=reads
    )
    assert run(world, name="renamed").kind in (Kind.DONE, Kind.UNCHANGED)
    assert stored(world) == {UUID: ["a", "b"], "synthesis-1": ["old"]}
    assert run(world, name="renamed").kind is Kind.UNCHANGED


def test_the_decision_of_an_older_synthesis_adopts_nothing_now() -> None:
    world = World()
    ready(world, name="renamed")
    world.remember([entry(name="old")], name="shop")
    run(world, name="renamed")
    assert stored(world) == {UUID: ["a", "b"], "synthesis-1": ["old"]}


# Drafts of Eno, which have other names and share the UUID


def draft(world: World, owned: tuple[str, ...] = ("a", "b"), *, of: int = 1, **annotations: str) -> None:
    """The first chunk of `of` that Eno would have recorded for the current synthesis."""
    (secret,) = inventory([entry(name=each) for each in owned], uuid=UUID, synthesized=STAMP)
    notes = {**secret["metadata"]["annotations"], f"{PREFIX}chunk-count": str(of)}
    del notes[f"{PREFIX}sha256"]
    notes |= {f"{PREFIX}{key}": value for key, value in annotations.items()}
    metadata = {
        "name": secret["metadata"]["name"][:-17],
        "labels": secret["metadata"]["labels"],
        "annotations": notes,
    }
    world.down.create(SECRETS, KUBE_SYSTEM, {"metadata": metadata, "type": "Opaque", "data": secret["data"]})


def test_a_complete_draft_is_taken_as_it_is() -> None:
    world = World()
    ready(world)
    draft(world)
    assert run(world) == Outcome(Kind.UNCHANGED, "recorded already")
    world.remember([entry(name="old")])
    assert run(world).kind is Kind.DONE
    assert world.writes == ["delete secrets"]
    assert stored(world) == {UUID: ["a", "b"]}


def test_a_complete_draft_that_lists_something_else_replaces_nothing() -> None:
    world = World()
    ready(world)
    draft(world, ("a",))
    world.remember([entry(name="old")])
    with pytest.raises(Terminal, match="does not list what the synthesis owns"):
        run(world)
    assert world.writes == []


def test_an_incomplete_draft_makes_room_before_anything_older_goes() -> None:
    world = World()
    ready(world)
    draft(world, ("a",), of=2)
    world.remember([entry(name="old")])
    deleted: list[str] = []
    world.downstream.before = lambda call: deleted.append(call.name) if call.verb == "delete" else None
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}
    assert [name.count("-") for name in deleted] == [2, 3], "the draft, then the older snapshot"


def test_a_rival_that_the_rules_do_not_let_go_keeps_everything_older() -> None:
    world = World()
    ready(world)
    draft(world, ("a",), synthesized="2026-03-01T11:30:00Z", **{"chunk-count": "2"})
    world.remember([entry(name="old")])
    with pytest.raises(Terminal, match="claims to be of the same synthesis"):
        run(world)
    assert "delete secrets" not in world.writes
    assert "synthesis-1" in stored(world)


def test_a_rival_that_goes_by_itself_is_waited_for() -> None:
    world = World()
    ready(world)
    draft(world, ("a",), of=2)
    (rival,) = world.secrets()
    name = rival["metadata"]["name"]
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, {"metadata": {"finalizers": ["example.com/keep"]}})
    world.down.delete(SECRETS, KUBE_SYSTEM, name)
    with pytest.raises(StartOver):
        run(world)
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, {"metadata": {"finalizers": None}})
    assert run(world).kind is Kind.UNCHANGED
    assert stored(world) == {UUID: ["a", "b"]}


# Overtaken, or refused


def _opt_out(world: World) -> None:
    world.patch_composition(metadata={"annotations": {"eno.azure.io/recovery-enabled": None}})


def _delete(world: World) -> None:
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")


def _begin_deletion(world: World) -> None:
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    _delete(world)


def _recreate(world: World) -> None:
    _delete(world)
    world.add_composition(current=ready_synthesis())


def _supersede(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": ready_synthesis("newer")})


def _become_unready(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": {"ready": None}})


CHANGES = pytest.mark.parametrize(
    "change",
    [_opt_out, _delete, _begin_deletion, _recreate, _supersede, _become_unready],
    ids=lambda change: change.__name__.strip("_").replace("_", " "),
)


@CHANGES
def test_a_recording_that_is_overtaken_before_it_creates_writes_nothing(change: Callable[[World], None]) -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    world.upstream.after = once(lambda: change(world), on="get resourceslices")
    assert run(world).kind is Kind.SUPERSEDED
    assert world.writes == []


@CHANGES
def test_a_recording_that_is_overtaken_between_two_chunks_creates_no_more(
    change: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    world.downstream.after = once(lambda: change(world), on="create secrets")
    assert run(world).kind is Kind.SUPERSEDED
    assert world.writes == ["create secrets"]


@CHANGES
def test_a_recording_that_is_overtaken_before_it_deletes_keeps_what_is_older(change: Callable[[World], None]) -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    world.downstream.after = once(lambda: change(world), on="list secrets", nth=2)
    assert run(world).kind is Kind.SUPERSEDED
    assert stored(world) == {UUID: ["a", "b"], "synthesis-1": ["old"]}


def test_a_secret_that_somebody_replaces_before_it_is_deleted_survives() -> None:
    world = World()
    ready(world)
    (old,) = world.remember([entry(name="old")])
    world.downstream.before = once(lambda: replace(world, old, metadata={"labels": {}}), on="delete secrets")
    assert run(world).kind in (Kind.DONE, Kind.UNCHANGED)
    assert old["metadata"]["name"] in [each["metadata"]["name"] for each in world.secrets()]


def test_a_secret_that_somebody_edits_before_it_is_deleted_is_judged_anew() -> None:
    world = World()
    ready(world)
    (old,) = world.remember([entry(name="old")])
    newer = {"metadata": {"labels": {f"{PREFIX}lineage": None}}}
    name = old["metadata"]["name"]
    world.downstream.before = once(
        lambda: world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, newer), on="delete secrets"
    )
    assert run(world).kind in (Kind.DONE, Kind.UNCHANGED)
    assert "old" in stored(world)["synthesis-1"], "it is not of the lineage any more"


def test_a_secret_that_is_gone_already_counts_as_deleted() -> None:
    world = World()
    ready(world)
    (old,) = world.remember([entry(name="old")])
    world.downstream.before = once(
        lambda: world.down.delete(SECRETS, KUBE_SYSTEM, old["metadata"]["name"]), on="delete secrets"
    )
    assert run(world).kind is Kind.DONE


def test_a_delete_that_conflicts_all_the_time_is_left_to_a_later_task() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    world.downstream.before = fail(Conflict("delete secrets", status=409), on="delete secrets", times=3)
    with pytest.raises(StartOver):
        run(world)
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


@pytest.mark.parametrize(
    ("call", "nth"), [("list secrets", 1), ("list secrets", 2), ("create secrets", 1), ("delete secrets", 1)]
)
def test_a_failed_call_ends_the_task_and_the_next_one_finishes(call: str, nth: int) -> None:
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    error = ServerError(call, status=503)
    world.downstream.before = once(raising(error), on=call, nth=nth)
    with pytest.raises(ServerError):
        run(world)
    assert "synthesis-1" in stored(world)
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_a_list_that_fails_half_way_is_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world)
    world.remember([entry(name="old")])
    inner = world.downstream.list_page

    def one_by_one(query: Any, *, continue_token: str = "", **_: Any) -> Any:
        if continue_token:
            raise ServerError("list secrets", status=500)
        return inner(query, limit=1)

    monkeypatch.setattr(world.downstream, "list_page", one_by_one)
    world.remember([entry(name="older")], uuid="synthesis-0", synthesized="2026-01-01T00:00:00Z")
    with pytest.raises(ServerError):
        run(world)
    assert world.writes == []


def test_every_delete_is_bound_to_uid_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    ready(world)
    (old,) = world.remember([entry(name="old")])
    bound: list[Any] = []
    inner = world.downstream.delete

    def delete(*args: Any, **preconditions: Any) -> None:
        bound.append(preconditions)
        inner(*args, **preconditions)

    monkeypatch.setattr(world.downstream, "delete", delete)
    run(world)
    metadata = old["metadata"]
    assert bound == [{"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}]


def test_events_never_fail_a_recording() -> None:
    world = World()
    ready(world)
    world.remember([entry(name="newer")], uuid="newer", synthesized="2026-03-01T11:30:00Z")
    world.upstream.before = fail(ServerError("create events", status=500), on="create events")
    with pytest.raises(Terminal, match="a later inventory"):
        run(world)


SKIPPED = ["TombstoneRecoveryOperatorNotEnabled", "OutsideRecoveryNamespace"]


@pytest.mark.parametrize("reason", SKIPPED)
def test_a_skipped_recovery_leaves_its_history_to_the_synthesis_that_inherits_the_debt(reason: str) -> None:
    world = World()
    ready(world, owned=("kept",), reason=reason)
    world.remember([entry(name="kept"), entry(name="lost")])
    assert run(world).kind is Kind.UNCHANGED
    assert world.writes == []
    world.patch_composition(subresource="status", status={"currentSynthesis": None})
    heir = synthesis("synthesis-3", slices=["slice-1"])
    world.patch_composition(subresource="status", status={"currentSynthesis": heir})
    world.add_slice("slice-1", [manifest(name="kept")])
    recover(recover_message(world.composition(), "synthesis-3"), world.context)
    assert world.tombstones() == ["lost"]


@pytest.mark.parametrize("reason", SKIPPED)
def test_a_skipped_recovery_without_history_is_recorded(reason: str) -> None:
    world = World()
    ready(world, owned=("a",), reason=reason)
    world.add_composition("twin", current={})
    world.remember([entry(name="other")], name="twin")
    assert run(world).kind is Kind.DONE
    assert stored(world)[UUID] == ["a"]


@pytest.mark.parametrize("reason", SKIPPED)
def test_a_skipped_recovery_leaves_even_what_is_unusable_to_its_successor(reason: str) -> None:
    world = World()
    ready(world, owned=("a",), reason=reason)
    (secret,) = world.remember([entry(name="lost")])
    replace(world, secret, metadata={"annotations": {}})
    run(world)
    assert stored(world) == {UUID: ["a"]}
    assert len(world.secrets()) == 2


def test_half_of_its_own_snapshot_is_no_history_that_a_skipped_recovery_would_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_chunks(monkeypatch)
    world = World()
    ready(world, reason=SKIPPED[0])
    world.downstream.before = once(raising(ServerError("create secrets", status=503)), on="create secrets", nth=2)
    with pytest.raises(ServerError):
        run(world)
    assert run(world).kind is Kind.DONE
    assert stored(world) == {UUID: ["a", "b"]}


def test_an_adoption_that_no_recovery_decided_replaces_nothing() -> None:
    world = World()
    ready(world, reason="NotNeeded", message="The history of other was adopted.")
    world.remember([entry(name="precious")], name="other")
    run(world)
    assert ["precious"] in stored(world).values()
