"""recover through its handler: every end, every write guarded, nothing more than the minimum of calls."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eno.decision import RESYNTHESIS_OWED
from eno.errors import (
    Invalid,
    MalformedObject,
    MissingCapability,
    NotFound,
    Retryable,
    ServerError,
    SextonError,
    StartOver,
    Throttled,
)
from eno.inventory.entries import Entry
from kube.cluster import Page, Query
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, RESOURCE_SLICES, SECRETS
from tests.support.factories import NAMESPACE, UUID, Json, decided, entry, manifest, patch_manifest, synthesis
from tests.support.tap import Call, Tap, fail, once
from tests.support.world import World, recover_message
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome

PREFIX = "eno.azure.io/inventory-"


def lost_history(world: World, *, slices: int = 1, owned: tuple[str, ...] = ("kept", "lost"), **fields: Any) -> None:
    """A composition that was recreated: history lists `owned`, its slices hold only `kept`."""
    names = [f"slice-{index}" for index in range(slices)]
    world.add_composition(current=synthesis(slices=names, **fields.pop("synthesis", {})), **fields)
    for index, name in enumerate(names):
        world.add_slice(name, [manifest(name="kept")] if index == 0 else [])
    world.remember([entry(name=each) for each in owned])


def run(world: World, uuid: str = UUID, name: str = "shop") -> Outcome:
    return recover(recover_message(world.composition(name), uuid), world.context)


def test_a_recreated_composition_gets_its_tombstones_back() -> None:
    world = World()
    lost_history(world)
    assert run(world) == Outcome(Kind.DONE, "FinishedTombstoneRecovery")
    assert world.decision() == decided()
    assert world.tombstones() == ["lost"]
    assert world.slice("slice-0").resources[0].manifest == manifest(name="kept"), "existing entries stay"


def test_the_calls_of_a_recovery_are_the_minimum() -> None:
    world = World()
    lost_history(world, slices=3)
    run(world)
    assert world.upstream.counts() == {
        "get compositions": 1 + 1,
        "get resourceslices": 3,
        "list compositions": 1,
        "patch resourceslices": 1,
        "patch compositions/status": 1,
    }
    assert world.downstream.counts() == {"list secrets": 1}


def test_nothing_missing_costs_no_list_of_siblings_and_no_slice_write() -> None:
    world = World()
    lost_history(world, owned=("kept",))
    run(world)
    assert world.upstream.counts() == {
        "get compositions": 1,
        "get resourceslices": 1,
        "patch compositions/status": 1,
    }


def test_a_slice_that_is_referenced_twice_is_read_once() -> None:
    world = World()
    lost_history(world)
    world.patch_composition(
        subresource="status",
        status={"currentSynthesis": {"resourceSlices": [{"name": "slice-0"}, {"name": "slice-0"}]}},
    )
    run(world)
    assert world.upstream.counts()["get resourceslices"] == 1


def test_not_required_costs_one_read_and_one_write() -> None:
    world = World()
    world.add_composition(current=synthesis(tombstoneRecoveryRequired=False))
    assert run(world).reason == "NotNeeded"
    assert world.upstream.counts() == {"get compositions": 1, "patch compositions/status": 1}
    assert world.downstream.counts() == {}


def test_a_second_round_makes_no_write() -> None:
    world = World()
    lost_history(world)
    run(world)
    before = list(world.writes)
    assert run(world) == Outcome(Kind.UNCHANGED, "decided")
    assert world.writes == before


def test_what_fits_no_slice_goes_into_an_overflow_slice_that_is_published_with_the_decision() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["full"]))
    world.add_slice("full", [manifest(name="x" * 524_200)])
    world.remember([entry(name="lost")])
    run(world)
    current = world.composition().current
    assert current is not None
    assert current.slice_names[0] == "full"
    overflow = world.slice(str(current.slice_names[1]))
    assert overflow.labels["eno.azure.io/tombstone-recovery"] == "true"
    assert overflow.owner is not None
    assert overflow.owner.uid == world.composition().uid
    assert world.tombstones() == ["lost"]
    assert world.decision() == decided()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"current": {}}, "not synthesized", id="no synthesis"),
        pytest.param({"current": synthesis(synthesized=None)}, "not synthesized", id="not synthesized"),
        pytest.param({"opted_in": False}, "not opted in", id="not opted in"),
        pytest.param({"current": synthesis("other")}, "another synthesis is current", id="superseded"),
    ],
)
def test_nothing_is_written_where_no_decision_is_due(fields: dict[str, Any], reason: str) -> None:
    world = World()
    world.add_composition(**fields)
    assert run(world) == Outcome(Kind.SUPERSEDED, reason)
    assert world.writes == []


def test_a_composition_that_is_gone_or_was_recreated_is_superseded() -> None:
    world = World()
    lost_history(world)
    message = recover_message(world.composition())
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    assert recover(message, world.context) == Outcome(Kind.SUPERSEDED, "gone")
    world.add_composition(current=synthesis(slices=["slice-0"]))
    assert recover(message, world.context) == Outcome(Kind.SUPERSEDED, "recreated under another UID")
    assert world.writes == []


def test_a_composition_that_cannot_be_read_is_not_taken_for_gone() -> None:
    world = World()
    lost_history(world)
    message = recover_message(world.composition())
    world.upstream.before = fail(ServerError("get compositions", status=503), on="get compositions")
    with pytest.raises(ServerError):
        recover(message, world.context)


def test_a_composition_that_is_deleting_is_left_alone() -> None:
    world = World()
    lost_history(world)
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    assert run(world) == Outcome(Kind.SUPERSEDED, "deleting")
    assert world.writes == []


def test_an_empty_uuid_is_an_error_and_no_decision() -> None:
    world = World()
    world.add_composition(current=synthesis(""))
    with pytest.raises(MalformedObject, match="uuid is empty"):
        run(world, uuid="")
    assert world.writes == []


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
    lost_history(world)
    outcome = run(world)
    assert outcome.kind is Kind.NOT_IN_SCOPE
    assert reason in outcome.reason
    assert world.writes == []


def test_without_history_the_decision_says_so() -> None:
    world = World()
    world.add_composition()
    run(world)
    assert world.decision() == decided("InventoryNotFound")


def test_fields_that_eno_does_not_know_are_published_with_a_warning() -> None:
    world = World()
    world.add_composition(current=synthesis(tombstoneRecoveryRequired=None))
    run(world)
    assert world.decision() == decided("NotNeeded")
    assert [kind for kind, *_ in world.events()] == ["Normal", "Warning"]


def test_absent_is_not_required_once_there_was_a_previous_synthesis() -> None:
    world = World(settings={"infer_required": True})
    world.add_composition(current=synthesis(tombstoneRecoveryRequired=None), previousSynthesis={"uuid": "one"})
    run(world)
    assert world.decision() == decided("NotNeeded")
    assert [kind for kind, *_ in world.events()] == ["Normal"]


def test_infer_required_treats_absent_fields_as_required() -> None:
    world = World(settings={"infer_required": True})
    lost_history(world, synthesis={"tombstoneRecoveryRequired": None})
    run(world)
    assert world.tombstones() == ["lost"]


def test_an_invalid_inventory_is_terminal_and_touches_no_slice() -> None:
    world = World()
    lost_history(world)
    secret = world.secrets()[0]
    note = {f"{PREFIX}synthesized": "yesterday"}
    world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], {"metadata": {"annotations": note}})
    run(world)
    decision = world.decision()
    assert decision is not None
    assert (decision["status"], decision["reason"]) == (True, "InventoryInvalid")
    assert secret["metadata"]["name"] in decision["message"]
    assert "yesterday" in decision["message"]
    assert world.writes == ["patch compositions/status"]


def test_an_unusable_payload_is_terminal_and_touches_no_slice() -> None:
    world = World()
    world.add_composition()
    (secret,) = world.remember([entry()])
    world.down.delete(SECRETS, "kube-system", secret["metadata"]["name"])
    broken = {**secret, "data": {"inventory.json": base64.b64encode(b"null").decode()}}
    del broken["metadata"]["annotations"][f"{PREFIX}sha256"]
    del broken["metadata"]["resourceVersion"]
    world.down.create(SECRETS, "kube-system", broken)
    run(world)
    decision = world.decision()
    assert decision is not None
    assert decision["reason"] == "InventoryInvalid"
    assert secret["metadata"]["name"] in decision["message"]


SERVER_DOWN = ServerError("list secrets kube-system", status=503, reason="ServiceUnavailable", message="id 4711")


@pytest.mark.parametrize(
    ("where", "call", "error", "reason", "message"),
    [
        pytest.param(
            "downstream",
            "list secrets",
            SERVER_DOWN,
            "InventoryGetError",
            "list secrets kube-system: 503 ServiceUnavailable",
            id="inventory unreadable",
        ),
        pytest.param(
            "upstream",
            "get resourceslices",
            Throttled("get slices", status=429, reason="TooManyRequests", retry_after=7.0),
            "CurrentSynthesisResourceSliceError",
            "get slices: 429 TooManyRequests",
            id="slice unreadable",
        ),
        pytest.param(
            "upstream",
            "list compositions",
            ServerError("list compositions", status=500),
            "CurrentSynthesisResourceSliceError",
            "list compositions: 500",
            id="siblings unreadable",
        ),
        pytest.param(
            "upstream",
            "patch resourceslices",
            ServerError("patch slice", status=500),
            "ErrUpdateResourceSlice",
            "patch slice: 500",
            id="slice not writable",
        ),
    ],
)
def test_a_failure_is_published_once_as_retriable_and_then_recovered_from(
    where: str, call: str, error: SextonError, reason: str, message: str
) -> None:
    world = World()
    lost_history(world)
    tap = world.upstream if where == "upstream" else world.downstream
    tap.before = fail(error, on=call, times=2)
    published = {"status": False, "reason": reason, "message": message, "synthesisUUID": UUID}
    for expected in (1, 0):
        before = len(world.writes)
        with pytest.raises(type(error)) as caught:
            run(world)
        assert caught.value is error, "the cause is never hidden"
        assert world.decision() == published
        patches = [write for write in world.writes[before:] if write == "patch compositions/status"]
        assert len(patches) == expected, "a repeated error is no new write"
    assert [event for event in world.events() if event[0] == "Warning"] == [("Warning", reason, message)]
    assert sum(str(call) == "create events" for call in world.upstream.calls) == 1
    assert run(world).kind is Kind.DONE
    assert world.decision() == decided()
    assert world.tombstones() == ["lost"]


def test_a_failing_report_never_hides_the_cause() -> None:
    world = World()
    lost_history(world)
    world.downstream.before = fail(SERVER_DOWN, on="list secrets")
    world.upstream.before = fail(ServerError("patch", status=500), on="patch compositions/status")
    with pytest.raises(ServerError) as caught:
        run(world)
    assert caught.value is SERVER_DOWN


def _delete_slice(world: World) -> None:
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", [{"op": "remove", "path": "/metadata/finalizers"}])
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "slice-0")


def _break_slice(world: World) -> None:
    broken = [{"op": "add", "path": "/spec/resources/-", "value": {"manifest": "{"}}]
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", broken)


def _forget_name(world: World) -> None:
    status = {"currentSynthesis": {"resourceSlices": [{"name": "slice-0"}, {}]}}
    world.patch_composition(subresource="status", status=status)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(_delete_slice, "get resourceslices.eno.azure.io apps/slice-0: 404 NotFound", id="missing"),
        pytest.param(
            lambda world: world.up.delete(RESOURCE_SLICES, NAMESPACE, "slice-0"),
            "resourceslice apps/slice-0: it is terminating",
            id="terminating",
        ),
        pytest.param(_break_slice, "resourceslice apps/slice-0 manifest 1: malformed manifest", id="malformed"),
        pytest.param(_forget_name, "composition apps/shop: a slice reference has no name", id="nameless"),
    ],
)
def test_an_incomplete_synthesis_is_never_taken_for_absence(damage: Callable[[World], None], says: str) -> None:
    world = World()
    lost_history(world)
    damage(world)
    with pytest.raises(Retryable):
        run(world)
    decision = world.decision()
    assert decision is not None
    assert (decision["status"], decision["reason"]) == (False, "CurrentSynthesisResourceSliceError")
    assert decision["message"].startswith(says)
    assert world.writes == ["patch compositions/status"]


def test_what_a_sibling_wants_is_never_in_the_plan() -> None:
    world = World()
    lost_history(world, owned=("lost", "shared", "patched", "kept"))
    world.add_composition("twin", current=synthesis(slices=["twin-slice"]), opted_in=False)
    world.add_slice("twin-slice", [manifest(name="shared"), patch_manifest("ConfigMap", "patched")], owner="twin")
    run(world)
    assert world.tombstones() == ["lost"]


@pytest.mark.parametrize("current", [{}, synthesis(synthesized=None)], ids=["no synthesis", "an incomplete synthesis"])
def test_what_an_unsynthesized_sibling_is_remembered_to_own_is_never_in_the_plan(current: Json) -> None:
    world = World()
    lost_history(world, owned=("lost", "shared", "kept"))
    world.add_composition("twin", current=current)
    world.remember([entry(name="shared")], name="twin", uuid="twin-1")
    run(world)
    assert world.tombstones() == ["lost"]


def test_an_unreadable_sibling_slice_stops_the_recovery() -> None:
    world = World()
    lost_history(world)
    world.add_composition("twin", current=synthesis(slices=["nowhere"]))
    with pytest.raises(NotFound):
        run(world)
    decision = world.decision()
    assert decision is not None
    assert decision["reason"] == "CurrentSynthesisResourceSliceError"


def test_what_stands_in_a_terminating_slice_of_a_sibling_is_still_wanted() -> None:
    world = World()
    lost_history(world, owned=("lost", "shared", "kept"))
    world.add_composition("twin", current=synthesis(slices=["twin-slice"]))
    world.add_slice("twin-slice", [manifest(name="shared")], owner="twin")
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "twin-slice")
    run(world)
    assert world.tombstones() == ["lost"]


def test_what_a_synthesized_sibling_owned_once_it_does_not_own_for_ever() -> None:
    world = World()
    lost_history(world)
    world.add_composition("twin", current=synthesis(slices=[]))
    world.remember([entry(name="lost")], name="twin", uuid="twin-1")
    run(world)
    assert world.tombstones() == ["lost"]


def test_an_inventory_of_a_sibling_that_cannot_be_trusted_buries_nothing() -> None:
    world = World()
    lost_history(world)
    world.add_composition("twin", current={})
    for uuid in ("one", "two"):
        world.remember([entry(name="shared")], name="twin", uuid=uuid)
    run(world)
    decision = world.decision()
    assert decision is not None
    assert decision["reason"] == "InventoryInvalid"
    assert "two syntheses are tied for newest" in decision["message"]
    assert world.writes == ["patch compositions/status"]


@pytest.mark.parametrize("spec", [{"synthesizer": None}, {"synthesizer": {"name": None}}], ids=["none", "nameless"])
def test_a_composition_whose_synthesizer_cannot_be_told_may_be_a_sibling(spec: Json) -> None:
    world = World()
    lost_history(world, owned=("shared", "kept"), synthesizer="")
    world.remember([entry(name="shared"), entry(name="kept")], synthesizer="")
    world.add_composition("twin", current=synthesis(slices=["twin-slice"]), synthesizer="")
    world.add_slice("twin-slice", [manifest(name="shared")], owner="twin")
    world.patch_composition("twin", spec=spec)
    run(world)
    assert world.tombstones() == []


def test_history_of_another_lineage_is_not_read() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [])
    world.remember([entry(name="lost")], synthesizer="another")
    run(world)
    assert world.decision() == decided("InventoryNotFound")


def test_a_composition_with_another_synthesizer_is_no_sibling() -> None:
    world = World()
    lost_history(world)
    world.add_composition("stranger", current=synthesis(slices=["nowhere"]), synthesizer="another")
    assert run(world).kind is Kind.DONE


def test_what_something_wanted_lives_in_is_held_and_named() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept", namespace="shop")])
    world.remember([entry("Namespace", "shop", ""), entry(name="lost")])
    run(world)
    assert world.tombstones() == ["lost"]
    message = "Held, because something wanted lives in it: Namespace shop."
    assert world.decision() == decided(message=message)
    assert ("Warning", "FinishedTombstoneRecoveryWarning", message) in world.events()


@pytest.mark.parametrize(
    ("home", "precious"),
    [
        pytest.param(entry("Namespace", "team", ""), entry(name="precious", namespace="team"), id="Namespace"),
        pytest.param(
            entry("CustomResourceDefinition", "dbs.acme.io", "", "apiextensions.k8s.io"),
            entry("Db", "precious", "team", "acme.io"),
            id="CustomResourceDefinition",
        ),
    ],
)
def test_what_an_unsynthesized_sibling_lives_in_is_held(home: Entry, precious: Entry) -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept", namespace="other")])
    world.remember([home, entry(name="kept", namespace="other")])
    world.add_composition("twin", current={})
    world.remember([precious], name="twin", uuid="twin-1")
    run(world)
    assert world.tombstones() == []
    assert str(home.id) in str(world.decision())


def test_synthesizers_without_a_name_adopt_nothing_from_each_other() -> None:
    world = World()
    world.add_composition("backend", synthesizer="", current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="back")], owner="backend")
    world.remember([entry(name="front")], name="frontend", synthesizer="")
    world.clock.advance(minutes=5)
    run(world, name="backend")
    assert world.tombstones("backend") == []
    decision = world.decision("backend")
    assert decision is not None
    assert decision["reason"] == "InventoryNotFound"


def test_a_clock_that_is_ahead_makes_no_composition_older() -> None:
    world = World()
    world.add_composition("renamed", current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept")], owner="renamed")
    world.remember([entry(name="lost")], name="shop")
    ahead = replace(world.context, clock=lambda: world.clock.now + timedelta(minutes=2))
    outcome = recover(recover_message(world.composition("renamed")), ahead)
    assert outcome.kind is Kind.WAITING
    assert world.writes == []


def test_history_of_another_name_is_adopted_after_a_minute() -> None:
    world = World()
    world.add_composition("renamed", current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept")], owner="renamed")
    world.remember([entry(name="kept"), entry(name="lost")], name="shop")
    outcome = run(world, name="renamed")
    assert outcome.kind is Kind.WAITING
    assert outcome.until is not None
    assert (outcome.until - world.clock.now).total_seconds() == 60
    assert world.writes == []
    world.clock.advance(seconds=60)
    assert run(world, name="renamed").kind is Kind.DONE
    assert world.tombstones("renamed") == ["lost"]
    assert world.decision("renamed") == decided(message="The history of shop was adopted.")


def test_history_of_a_living_composition_is_not_adopted() -> None:
    world = World()
    world.add_composition("other", synthesizer="another", current={})
    world.add_composition("renamed", current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [], owner="renamed")
    world.remember([entry(name="lost")], name="other")
    world.clock.advance(hours=1)
    run(world, name="renamed")
    assert world.decision("renamed") == decided(
        "InventoryNotFound", message="The history of other is its own: that composition exists."
    )


def test_a_loaded_slice_takes_no_append_and_a_resynthesis_is_requested_once() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["loaded"]))
    world.add_slice("loaded", [manifest(name="kept")], states=[{"reconciled": True}])
    world.remember([entry(name="lost")])
    assert run(world) == Outcome(Kind.DONE, "resynthesis requested")
    assert len(world.slice("loaded").resources) == 1
    assert world.tombstones() == ["lost"]
    assert world.composition().annotations["eno.azure.io/force-resynthesis"] == UUID
    before = list(world.writes)
    assert run(world) == Outcome(Kind.UNCHANGED, "decided")
    assert world.writes == before


def test_a_resynthesis_that_a_crash_prevented_is_requested_by_the_next_run() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["loaded"]))
    world.add_slice("loaded", [manifest(name="kept")], states=[{"reconciled": True}])
    world.remember([entry(name="lost")])
    world.upstream.before = fail(ServerError("crash", status=500), on="patch compositions")
    with pytest.raises(ServerError):
        run(world)
    assert world.composition().annotations.get("eno.azure.io/force-resynthesis") is None
    assert run(world) == Outcome(Kind.DONE, "resynthesis requested")
    assert world.composition().annotations["eno.azure.io/force-resynthesis"] == UUID


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"annotations": {"eno.azure.io/ignore-side-effects": "true"}}, id="side effects are ignored"),
        pytest.param({"inFlightSynthesis": {"uuid": "next"}}, id="in flight"),
        pytest.param({"annotations": {"eno.azure.io/force-resynthesis": UUID}}, id="already requested"),
    ],
)
def test_a_resynthesis_that_is_refused_is_not_requested(fields: dict[str, Any]) -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["loaded"]), **fields)
    world.add_slice("loaded", [manifest(name="kept")], states=[{"reconciled": True}])
    world.remember([entry(name="lost")])
    assert run(world).kind is Kind.DONE
    assert "patch compositions" not in world.writes


@pytest.mark.parametrize(
    ("enabled", "kind"), [(True, Kind.DONE), (False, Kind.NOT_IN_SCOPE)], ids=["in scope", "out of scope"]
)
def test_a_resynthesis_is_only_requested_in_scope(enabled: bool, kind: Kind) -> None:
    world = World(settings={"enable_tombstone_recovery": enabled})
    world.add_composition(current=synthesis(tombstoneRecoveryStatus=decided(message=RESYNTHESIS_OWED)))
    assert run(world).kind is kind
    assert world.writes == (["patch compositions"] if enabled else [])


def mass(world: World) -> None:
    lost_history(world, owned=tuple(f"n{index:02}" for index in range(20)))


def test_a_mass_burial_is_announced_first() -> None:
    world = World()
    mass(world)
    seen: list[bool] = []
    world.upstream.before = once(
        lambda: seen.append(any(reason == "MassBurial" for _, reason, _ in world.events())), on="patch resourceslices"
    )
    assert run(world).kind is Kind.DONE
    assert seen == [True]
    assert len(world.tombstones()) == 20


def test_a_mass_burial_waits_for_its_acknowledgement_where_the_setting_asks_for_it() -> None:
    world = World(settings={"acknowledge_mass_burial": True})
    mass(world)
    for _ in range(2):
        outcome = run(world)
        assert outcome.kind is Kind.WAITING
        assert world.writes == []
    world.patch_composition(metadata={"annotations": {"eno.azure.io/acknowledge-recovery": "another"}})
    assert run(world).kind is Kind.WAITING
    world.patch_composition(metadata={"annotations": {"eno.azure.io/acknowledge-recovery": UUID}})
    assert run(world).kind is Kind.DONE
    assert len(world.tombstones()) == 20


def _opt_out(world: World) -> None:
    world.patch_composition(metadata={"annotations": {"eno.azure.io/recovery-enabled": None}})


def _delete(world: World) -> None:
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")


def _begin_deletion(world: World) -> None:
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    _delete(world)


def _recreate(world: World) -> None:
    _delete(world)
    world.add_composition(current=synthesis(slices=["slice-0"]))


def _supersede(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": {"uuid": "newer"}})


def _decide(world: World) -> None:
    world.patch_composition(
        subresource="status", status={"currentSynthesis": {"tombstoneRecoveryStatus": decided("NotNeeded")}}
    )


@pytest.mark.parametrize(
    "change",
    [_opt_out, _delete, _begin_deletion, _recreate, _supersede, _decide],
    ids=lambda change: change.__name__.strip("_").replace("_", " "),
)
@pytest.mark.parametrize("moment", ["list secrets", "get resourceslices", "list compositions"])
def test_a_recovery_that_is_overtaken_before_its_first_write_writes_nothing(
    change: Callable[[World], None], moment: str
) -> None:
    world = World()
    lost_history(world)
    hook = once(lambda: change(world), on=moment)
    world.upstream.after = world.downstream.after = hook
    assert run(world).kind is Kind.SUPERSEDED
    assert world.writes == []


@pytest.mark.parametrize("change", [_opt_out, _supersede, _decide, _recreate])
def test_a_publication_that_is_overtaken_is_refused_by_its_guards(change: Callable[[World], None]) -> None:
    world = World()
    lost_history(world)
    world.upstream.before = once(lambda: change(world), on="patch compositions/status")
    before = world.decision()
    outcome = run(world)
    assert outcome.kind in (Kind.SUPERSEDED, Kind.UNCHANGED)
    after = world.decision() if change is not _decide else before
    assert after == before


def test_a_slice_without_a_list_of_resources_takes_tombstones() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [])
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", [{"op": "remove", "path": "/spec/resources"}])
    world.remember([entry(name="lost")])
    run(world)
    assert world.tombstones() == ["lost"]


def test_a_tombstone_that_fits_no_slice_is_reported_and_ends_nothing() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [])
    world.remember([entry(name="lost", labels={"a": "x" * 524_288})])
    with pytest.raises(Retryable, match="does not fit a slice"):
        run(world)
    decision = world.decision()
    assert decision is not None
    assert (decision["status"], decision["reason"]) == (False, "ErrUpdateResourceSlice")
    assert world.writes == ["patch compositions/status"]


def test_a_lost_race_is_reported_to_nobody() -> None:
    world = World()
    lost_history(world)
    touch = [{"op": "add", "path": "/metadata/labels", "value": {"touched": "once"}}]
    world.upstream.before = once(
        lambda: world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "slice-0", touch), on="patch resourceslices"
    )
    assert run(world).kind is Kind.DONE
    assert [kind for kind, *_ in world.events()] == ["Normal"]


def test_a_slice_that_changes_before_the_append_is_read_again() -> None:
    world = World()
    lost_history(world)

    def load() -> None:
        world.up.merge_patch(
            RESOURCE_SLICES,
            NAMESPACE,
            "slice-0",
            {"status": {"resources": [{"reconciled": True}]}},
            subresource="status",
        )

    world.upstream.before = once(load, on="patch resourceslices")
    assert run(world) == Outcome(Kind.DONE, "resynthesis requested")
    assert len(world.slice("slice-0").resources) == 1, "it was loaded in between, so nothing is appended"
    assert world.tombstones() == ["lost"]


def test_a_composition_that_changes_all_the_time_is_left_to_a_later_task() -> None:
    world = World()
    lost_history(world)

    def touch(call: Call) -> None:
        if str(call) == "patch compositions/status":
            stamp = str(len(world.upstream.calls))
            world.patch_composition(metadata={"labels": {"touched": stamp}})

    world.upstream.before = touch
    with pytest.raises(StartOver):
        run(world)
    world.upstream.before = None
    assert run(world).kind is Kind.DONE
    assert world.tombstones() == ["lost"], "retries never duplicate"


def test_a_refusal_by_the_schema_is_permanent_and_does_not_loop() -> None:
    world = World()
    lost_history(world)
    world.upstream.before = fail(
        Invalid("patch resourceslices", status=422, reason="Invalid"), on="patch resourceslices", times=9
    )
    with pytest.raises(Invalid):
        run(world)
    assert world.writes.count("patch resourceslices") == 1
    decision = world.decision()
    assert decision is not None
    assert decision["reason"] == "ErrUpdateResourceSlice"


def _without_decision_fields(world: World) -> None:
    definition = world.up.get(CUSTOM_RESOURCE_DEFINITIONS, None, "compositions.eno.azure.io")
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for name in ("currentSynthesis", "inFlightSynthesis", "previousSynthesis"):
        del properties[name]["properties"]["tombstoneRecoveryStatus"]
    world.up.update(CUSTOM_RESOURCE_DEFINITIONS, None, "compositions.eno.azure.io", definition)


class Lenient(Tap):
    """A server from before `fieldValidation`: unknown fields are pruned in silence."""

    def json_patch(self, *args: Any, strict: bool = False, **options: Any) -> Json:
        del strict
        return super().json_patch(*args, **options)


@pytest.mark.parametrize("upstream", [Tap, Lenient], ids=["refuses unknown fields", "prunes unknown fields"])
def test_a_crd_without_the_fields_is_terminal_with_the_line_that_fixes_it(upstream: type[Tap]) -> None:
    world = World()
    lost_history(world)
    _without_decision_fields(world)
    world.upstream = upstream(world.up)
    with pytest.raises(MissingCapability, match="install a newer Eno, with the CRDs that come with it"):
        run(world)
    assert world.writes.count("patch compositions/status") == 1, "it is not told where it cannot be told"


def test_a_decision_is_published_under_tests_of_uid_version_and_current_uuid() -> None:
    world = World()
    lost_history(world)
    patches: list[Any] = []

    class Recording(Tap):
        def json_patch(self, resource: Any, namespace: Any, name: Any, operations: Any, **options: Any) -> Json:
            if options.get("subresource") == "status":
                patches.append((list(operations), options))
            return super().json_patch(resource, namespace, name, operations, **options)

    world.upstream = Recording(world.up)
    run(world)
    ((operations, options),) = patches
    assert options == {"subresource": "status", "strict": True}
    assert [(each["op"], each["path"]) for each in operations] == [
        ("test", "/metadata/uid"),
        ("test", "/metadata/resourceVersion"),
        ("test", "/status/currentSynthesis/uuid"),
        ("add", "/status/currentSynthesis/tombstoneRecoveryStatus"),
    ]


def _overflow(world: World) -> str:
    """Run until the overflow slice is written but not published; return its name."""
    world.add_composition(current=synthesis(slices=["full"]))
    world.add_slice("full", [manifest(name="x" * 524_200)])
    world.remember([entry(name="lost")])
    world.upstream.before = fail(ServerError("crash", status=500), on="patch compositions/status", times=2)
    with pytest.raises(ServerError):
        run(world)
    (name,) = [each["metadata"]["name"] for each in world.all(RESOURCE_SLICES) if each["metadata"]["name"] != "full"]
    return str(name)


def test_an_overflow_slice_of_an_earlier_attempt_is_taken_as_it_is() -> None:
    world = World()
    name = _overflow(world)
    before = world.slice(name).resource_version
    assert run(world).kind is Kind.DONE
    assert world.slice(name).resource_version == before
    assert world.tombstones() == ["lost"]
    assert len(world.all(RESOURCE_SLICES)) == 2


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param([{"op": "remove", "path": "/metadata/labels"}], "it lacks the label", id="marker"),
        pytest.param([{"op": "remove", "path": "/metadata/ownerReferences"}], "it has another owner", id="owner"),
        pytest.param(
            [{"op": "add", "path": "/spec/resources/-", "value": {"manifest": "{}"}}],
            "its content differs",
            id="content",
        ),
    ],
)
def test_an_overflow_slice_that_differs_is_never_overwritten(damage: list[Json], says: str) -> None:
    world = World()
    name = _overflow(world)
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, name, damage)
    before = world.slice(name)
    with pytest.raises(Retryable, match=says):
        run(world)
    assert world.slice(name) == before
    decision = world.decision()
    assert decision is not None
    assert decision["reason"] == "ErrUpdateResourceSlice"


class Crash(BaseException):
    """The end of the process: nothing handles it."""


def crash_at(write: int, world: World, *, applied: bool) -> None:
    """End the process at a write: before it is sent, or after it was applied and its reply is lost."""
    seen = [0]

    def before(call: Call) -> None:
        seen[0] += call.writes
        if call.writes and seen[0] == write and not applied:
            raise Crash

    def after(call: Call) -> None:
        if call.writes and seen[0] == write and applied:
            raise Crash

    world.upstream.before, world.upstream.after = before, after


@pytest.mark.parametrize("applied", [False, True], ids=["before it is sent", "after it was applied"])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_crash_at_any_write_ends_in_the_same_state(at: int, applied: bool) -> None:
    def prepared() -> World:
        world = World()
        world.add_composition(current=synthesis(slices=["a", "b"]))
        world.add_slice("a", [manifest(name="kept" + "x" * 524_030)])
        world.add_slice("b", [manifest(name="y" * 524_080)])
        world.remember([entry(name=f"lost-{index}") for index in range(4)])
        return world

    undisturbed = prepared()
    run(undisturbed)
    world = prepared()
    crash_at(at, world, applied=applied)
    with pytest.raises(Crash):
        run(world)
    world.upstream.before = world.upstream.after = None
    run(world)
    assert len(undisturbed.writes) >= 4
    assert world.decision() == undisturbed.decision()
    assert world.tombstones() == undisturbed.tombstones()
    assert sorted(world.tombstones()) == [f"lost-{index}" for index in range(4)]


def test_events_never_fail_a_recovery() -> None:
    world = World()
    lost_history(world)
    world.upstream.before = fail(ServerError("create events", status=500), on=f"create {EVENTS.plural}", times=99)
    assert run(world).kind is Kind.DONE


class Paged(Tap):
    """A server whose pages hold one object each."""

    def list_page(self, query: Query, *, limit: int = 1, continue_token: str = "") -> Page:
        del limit
        return super().list_page(query, limit=1, continue_token=continue_token)


def test_a_sibling_beyond_the_first_page_is_a_sibling() -> None:
    world = World()
    lost_history(world, owned=("lost", "shared", "kept"))
    world.add_composition("twin", current=synthesis(slices=["twin-slice"]))
    world.add_slice("twin-slice", [manifest(name="shared")], owner="twin")
    world.upstream = Paged(world.up)
    run(world)
    assert world.tombstones() == ["lost"]
