"""gate through its handler: each sentence of its specification, on the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from devcluster.eno import Eno
from eno.errors import (
    Conflict,
    Invalid,
    MalformedObject,
    NotServed,
    Retryable,
    ServerError,
    SextonError,
    StartOver,
    Throttled,
)
from eno.times import format_time
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from kube.statuses import error_from_status
from tests.support.factories import NAMESPACE, NOW, STAMP, UUID, Json, decided, entry, manifest, synthesis
from tests.support.interleave import Actor, explore
from tests.support.tap import Call, Tap, fail, once
from tests.support.world import World, gate_message, recover_message
from workers.context import Context
from workers.handlers.gate import gate
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome

EARLY, LATE = "2026-03-01T11:10:00Z", "2026-03-01T11:20:00Z"
DONE: Json = {"reconciled": True, "ready": EARLY}
FOREIGN: Json = {"ready": LATE, "reconciled": LATE}
DECIDED: Json = {"tombstoneRecoveryStatus": decided()}


def holding(world: World, *states: Json, current: Json | None = None, resources: int | None = None, **f: Any) -> None:
    """A composition with one slice; undecided unless `current` says otherwise."""
    world.add_composition(current=synthesis(slices=["a"], **(current or {})), **f)
    count = len(states) if resources is None else resources
    world.add_slice("a", [manifest(name=f"n{index}") for index in range(count)], states=states)


def run(world: World, uuid: str = UUID) -> Outcome:
    return gate(gate_message(world.composition(), uuid), world.context)


def settle_down(world: World) -> None:
    """Run until there is nothing left to do."""
    for _ in range(4):
        before = len(world.writes)
        run(world)
        if len(world.writes) == before:
            return
    raise AssertionError("gate goes on writing")


def readiness(world: World) -> tuple[str | None, str | None]:
    """`reconciled` and `ready` as they are stored."""
    current = world.up.get(COMPOSITIONS, NAMESPACE, "shop")["status"]["currentSynthesis"]
    return current.get("reconciled"), current.get("ready")


def set_readiness(world: World, **fields: str) -> None:
    """What somebody else does who knows no gate."""
    world.patch_composition(subresource="status", status={"currentSynthesis": fields or FOREIGN})


def pause_after(world: World) -> float | None:
    """Run, and return the pause in seconds that the gate asks for, None when it asks for none."""
    try:
        run(world)
    except Retryable as error:
        return error.retry_after
    return None


def begin_deletion(world: World) -> None:
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")


def remove_slice(world: World, name: str = "a", *, for_good: bool = True) -> None:
    if for_good:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, name, {"metadata": {"finalizers": None}})
    world.up.delete(RESOURCE_SLICES, NAMESPACE, name)


def requested(world: World) -> str | None:
    """The synthesis that a resynthesis was requested of."""
    return world.composition().annotations.get("eno.azure.io/force-resynthesis")


@dataclass
class Recording(Tap):
    """Remembers the patches as they were sent."""

    patches: list[tuple[list[Json], dict[str, Any]]] = field(default_factory=list)

    def json_patch(self, resource: Any, namespace: Any, name: Any, operations: Any, **options: Any) -> Json:
        self.patches.append((list(operations), options))
        return super().json_patch(resource, namespace, name, operations, **options)


# --- which compositions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregation", "opted_in", "aggregated"),
    [
        ("opted-in", True, True),
        ("opted-in", False, False),
        ("all", True, True),
        ("all", False, True),
        ("off", True, False),
        ("off", False, False),
    ],
)
def test_the_setting_says_whose_readiness_is_aggregated(aggregation: str, opted_in: bool, aggregated: bool) -> None:
    world = World(settings={"aggregation": aggregation})
    holding(world, DONE, current=DECIDED, opted_in=opted_in)
    outcome = run(world)
    assert readiness(world) == ((format_time(NOW), EARLY) if aggregated else (None, None))
    assert outcome.reason == ("nothing holds readiness back" if aggregated else "aggregated by somebody else")


def test_where_somebody_else_aggregates_the_gate_holds_all_the_same() -> None:
    world = World(settings={"aggregation": "off"})
    holding(world, DONE, current=FOREIGN, simplified={"status": "Reconciling", "error": "theirs"})
    run(world)
    assert readiness(world) == (None, None)
    remove_slice(world, for_good=False)
    run(world)
    assert requested(world) == UUID, "a terminating slice would keep recovery waiting for ever"
    simplified = world.composition().simplified
    assert simplified is not None
    assert simplified.error == "theirs"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param({"composition_namespace": "other"}, "outside other", id="namespace"),
        pytest.param({"composition_label_selector": "a=b"}, "labels do not match", id="labels"),
    ],
)
def test_a_composition_out_of_scope_is_left_alone(settings: dict[str, Any], reason: str) -> None:
    world = World(settings=settings)
    holding(world, DONE, current=FOREIGN)
    outcome = run(world)
    assert outcome.kind is Kind.NOT_IN_SCOPE
    assert reason in outcome.reason
    assert world.writes == []


def test_a_composition_that_is_gone_or_another_one_or_at_another_synthesis_is_superseded() -> None:
    world = World()
    holding(world, DONE, current=FOREIGN)
    message = gate_message(world.composition())
    assert run(world, uuid="older") == Outcome(Kind.SUPERSEDED, "another synthesis is current")
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    assert gate(message, world.context) == Outcome(Kind.SUPERSEDED, "gone")
    world.add_composition(current=synthesis(**FOREIGN))
    assert gate(message, world.context) == Outcome(Kind.SUPERSEDED, "recreated under another UID")
    assert world.writes == []


def test_what_is_not_synthesized_has_nothing_to_aggregate() -> None:
    world = World()
    world.add_composition(current=synthesis(synthesized=None))
    assert run(world) == Outcome(Kind.UNCHANGED, "not synthesized")
    world.patch_composition(subresource="status", status={"currentSynthesis": None})
    assert run(world, uuid="") == Outcome(Kind.UNCHANGED, "not synthesized")
    assert world.writes == []


# --- skipped decisions --------------------------------------------------------------------------------------

skipping = pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"enable_tombstone_recovery": False}, id="disabled"),
        pytest.param({"pod_namespace": "other", "all_namespaces": True}, id="outside"),
    ],
)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"enable_tombstone_recovery": False}, "TombstoneRecoveryOperatorNotEnabled"),
        ({"pod_namespace": "other", "all_namespaces": True}, "OutsideRecoveryNamespace"),
    ],
    ids=["disabled", "outside"],
)
def test_where_nobody_recovers_the_decision_says_so_and_releases_the_gate(
    settings: dict[str, Any], reason: str
) -> None:
    world = World(settings=settings)
    holding(world, DONE)
    assert run(world) == Outcome(Kind.DONE, reason)
    assert world.decision() == decided(reason)
    current = world.composition().current
    assert current is not None
    assert current.recovery_required is True, "it is left alone, so that a successor recovers"
    settle_down(world)
    assert readiness(world) == (format_time(NOW), EARLY)
    assert [reason for _, reason, _ in world.events()] == [reason]


@skipping
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"opted_in": False}, id="not opted in"),
        pytest.param({"current": synthesis(synthesized=None)}, id="not synthesized"),
        pytest.param({"current": synthesis(**DECIDED)}, id="finished"),
    ],
)
def test_no_decision_is_skipped_for_what_has_none_to_make(settings: dict[str, Any], fields: dict[str, Any]) -> None:
    world = World(settings=settings)
    world.add_composition(**fields)
    before = world.decision()
    run(world)
    assert world.decision() == before


@skipping
def test_no_decision_is_skipped_while_deleting(settings: dict[str, Any]) -> None:
    world = World(settings=settings)
    holding(world, {**DONE, "deleted": True})
    begin_deletion(world)
    run(world)
    assert world.decision() is None
    assert readiness(world) == (format_time(NOW), EARLY), "deleting bypasses the gate"


def test_a_successor_of_a_skipped_synthesis_recovers_once_the_operator_is_enabled() -> None:
    world = World(settings={"enable_tombstone_recovery": False})
    holding(world, DONE)
    run(world)
    world.loaded = World().loaded
    settle_down(world)
    assert world.decision() == decided("TombstoneRecoveryOperatorNotEnabled"), "a terminal decision is not reopened"
    world.patch_composition(metadata={"annotations": {"eno.azure.io/force-resynthesis": UUID}})
    eno = Eno(world.up, world.clock, lambda: "synthesis-3")
    assert eno.synthesize(NAMESPACE, "shop", [manifest(name="n0")]) == "synthesis-3"
    world.remember([entry(name="n0"), entry(name="lost")])
    assert recover(recover_message(world.composition(), "synthesis-3"), world.context).kind is Kind.DONE
    assert world.decision() == decided(uuid="synthesis-3"), "a new synthesis is"
    assert world.tombstones() == ["lost"]


def test_a_skipped_decision_is_published_under_the_guards_of_recover() -> None:
    world = World(settings={"enable_tombstone_recovery": False})
    holding(world, DONE)
    world.upstream = recording = Recording(world.up)
    run(world)
    ((operations, options),) = recording.patches
    assert options == {"subresource": "status", "strict": True}
    assert [(each["op"], each["path"]) for each in operations] == [
        ("test", "/metadata/uid"),
        ("test", "/metadata/resourceVersion"),
        ("test", "/status/currentSynthesis/uuid"),
        ("add", "/status/currentSynthesis/tombstoneRecoveryStatus"),
    ]


@skipping
def test_without_a_uuid_there_is_no_decision_and_no_readiness(settings: dict[str, Any]) -> None:
    world = World(settings=settings)
    holding(world, DONE, current={"uuid": None, **FOREIGN})
    for _ in range(2):
        with pytest.raises(MalformedObject, match="uuid is empty"):
            run(world, uuid="")
        assert readiness(world) == (None, None)
        assert world.decision() is None
    assert world.writes == ["patch compositions/status"]


# --- aggregation --------------------------------------------------------------------------------------------


def test_reconciled_and_ready_follow_from_the_states_in_one_guarded_patch_of_exactly_these_fields() -> None:
    world = World()
    simplified = {"status": "Reconciling"}
    error = {"reconciliationError": "first"}
    holding(world, {**DONE, **error}, {**DONE, "ready": LATE}, current=DECIDED, simplified=simplified)
    version = world.composition().resource_version
    world.upstream = recording = Recording(world.up)
    run(world)
    ((operations, options),) = recording.patches
    assert options == {"subresource": "status", "strict": True}
    assert operations == [
        {"op": "test", "path": "/metadata/uid", "value": world.composition().uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "test", "path": "/status/currentSynthesis/uuid", "value": UUID},
        {"op": "add", "path": "/status/currentSynthesis/reconciled", "value": format_time(NOW)},
        {"op": "add", "path": "/status/currentSynthesis/ready", "value": LATE},
        {"op": "add", "path": "/status/simplified/error", "value": "first"},
    ]


def test_the_composition_is_read_before_the_first_slice_and_not_again() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a", "b"], **DECIDED))
    for name in ("a", "b"):
        world.add_slice(name, [manifest(name=name)], states=[DONE])
    run(world)
    assert [f"{call} {call.name}" for call in world.upstream.calls] == [
        "get compositions shop",
        "get resourceslices a",
        "get resourceslices b",
        "patch compositions/status shop",
    ]


def test_it_writes_only_on_change() -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    run(world)
    before = world.composition().resource_version
    world.clock.advance(hours=1)
    for _ in range(3):
        assert run(world) == Outcome(Kind.UNCHANGED, "nothing holds readiness back")
    assert world.composition().resource_version == before
    assert len(world.writes) == 1


def test_the_same_instant_in_another_notation_is_no_change() -> None:
    world = World()
    same = {"ready": "2026-03-01T12:10:00+01:00", "reconciled": "2026-03-01T12:10:00.000+01:00"}
    holding(world, DONE, current={**DECIDED, **same})
    assert run(world).kind is Kind.UNCHANGED
    assert world.writes == []


def test_readiness_that_holds_no_longer_is_taken_back() -> None:
    world = World()
    holding(world, {"reconciled": False}, current={**DECIDED, **FOREIGN})
    run(world)
    assert readiness(world) == (None, None)


def test_an_empty_synthesis_becomes_ready_at_its_reconciled_time_one_pass_later() -> None:
    world = World()
    world.add_composition(current=synthesis(**DECIDED))
    run(world)
    assert readiness(world) == (format_time(NOW), None)
    world.clock.advance(seconds=30)
    run(world)
    assert readiness(world) == (format_time(NOW), format_time(NOW))


def test_appended_tombstones_are_not_overlooked_while_the_status_array_is_short() -> None:
    world = World()
    holding(world, DONE, resources=2, current=DECIDED)
    assert run(world) == Outcome(Kind.UNCHANGED, "slice a: 1 of 2 resources has no state yet")
    assert readiness(world) == (None, None)
    states = [DONE, {"reconciled": True, "ready": LATE, "deleted": True}]
    world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"status": {"resources": states}}, subresource="status")
    run(world)
    assert readiness(world) == (format_time(NOW), LATE), "the latest ready time"


def test_tombstones_of_a_recovery_hold_readiness_until_eno_has_carried_them_out() -> None:
    world = World()
    holding(world, DONE)
    world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"status": None}, subresource="status")
    world.remember([entry(name="n0"), entry(name="lost")])
    run(world)
    assert recover(recover_message(world.composition()), world.context).kind is Kind.DONE
    settle_down(world)
    assert readiness(world) == (None, None)
    Eno(world.up, world.clock).reconcile(NAMESPACE, "shop")
    settle_down(world)
    assert readiness(world) == (format_time(NOW), format_time(NOW))


@pytest.mark.parametrize(
    ("annotations", "state", "reconciled"),
    [
        pytest.param({}, DONE, False, id="not deleted"),
        pytest.param({}, {**DONE, "deleted": True}, True, id="deleted"),
        pytest.param({"eno.azure.io/deletion-strategy": "orphan"}, DONE, True, id="orphans"),
    ],
)
@pytest.mark.parametrize("current", [{}, DECIDED], ids=["undecided", "decided"])
def test_a_deleting_composition_bypasses_the_gate_and_is_reconciled_once_its_resources_are_deleted(
    annotations: dict[str, str], state: Json, reconciled: bool, current: Json
) -> None:
    world = World()
    holding(world, state, current=current, annotations=annotations)
    begin_deletion(world)
    run(world)
    assert (readiness(world)[0] is not None) is reconciled


def test_an_unannotated_composition_bypasses_the_gate_but_not_the_aggregation() -> None:
    world = World(settings={"aggregation": "all"})
    holding(world, DONE, opted_in=False)
    run(world)
    assert readiness(world) == (format_time(NOW), EARLY)
    assert world.decision() is None


def test_slices_of_a_symphony_that_is_deleting_are_not_even_read() -> None:
    world = World()
    holding(world, {}, current=DECIDED, metadata={"labels": {"eno.azure.io/symphony-deleting": "true"}})
    settle_down(world)
    assert readiness(world) == (format_time(NOW), format_time(NOW))
    assert "get resourceslices" not in world.upstream.counts()


def test_references_that_lead_nowhere_are_skipped_while_deleting() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a", "", "nowhere"]))
    world.add_slice("a", [manifest()], states=[{**DONE, "deleted": True}])
    begin_deletion(world)
    run(world)
    assert readiness(world) == (format_time(NOW), EARLY)
    assert requested(world) is None


def test_a_missing_slice_leaves_readiness_as_it_is() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["nowhere"], **DECIDED, **FOREIGN))
    run(world)
    assert readiness(world) == (LATE, LATE)


@pytest.mark.parametrize(
    ("simplified", "expected"),
    [
        pytest.param({"status": "Reconciling"}, "b", id="reconciling"),
        pytest.param({"status": "Reconciling", "error": "old"}, "b", id="an old error is replaced"),
        pytest.param({"status": "Ready", "error": "old"}, "old", id="anything else is not ours"),
    ],
)
@pytest.mark.parametrize("current", [{}, DECIDED], ids=["undecided", "decided"])
def test_the_simplified_error_is_the_greatest_while_reconciling(simplified: Json, expected: str, current: Json) -> None:
    world = World()
    errors = [{"reconciliationError": each} for each in ("a", "b")]
    holding(world, *errors, current=current, simplified=simplified)
    settle_down(world)
    found = world.composition().simplified
    assert found is not None
    assert found.error == expected


def test_a_simplified_error_goes_when_its_cause_is_gone() -> None:
    world = World()
    holding(world, {}, current=DECIDED, simplified={"status": "Reconciling", "error": "old"})
    settle_down(world)
    found = world.composition().simplified
    assert found is not None
    assert found.error == ""


@pytest.mark.parametrize(
    "error",
    [
        ServerError("get slice", status=503),
        Throttled("get slice", status=429, retry_after=7.0),
        MalformedObject("spec is not an object"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_slice_that_cannot_be_read_stops_the_pass_and_is_not_taken_for_missing(error: SextonError) -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    world.upstream.before = fail(error, on="get resourceslices")
    with pytest.raises(type(error)) as caught:
        run(world)
    assert caught.value is error
    assert world.writes == []


# --- holding ------------------------------------------------------------------------------------------------


def test_an_undecided_synthesis_is_neither_ready_nor_reconciled() -> None:
    world = World()
    holding(world, DONE)
    assert run(world) == Outcome(Kind.UNCHANGED, "tombstone recovery has not decided yet")
    assert world.writes == []


@pytest.mark.parametrize(
    "fields", [FOREIGN, {"ready": LATE}, {"reconciled": LATE}], ids=["both", "ready", "reconciled"]
)
@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(None, id="no decision"),
        pytest.param(decided(uuid="older"), id="a decision of another synthesis"),
        pytest.param({**decided("InventoryGetError"), "status": False}, id="a retriable decision"),
    ],
)
def test_what_somebody_else_sets_before_the_decision_is_cleared(fields: Json, decision: Json | None) -> None:
    world = World()
    holding(world, DONE, current={**fields, "tombstoneRecoveryStatus": decision})
    assert run(world) == Outcome(Kind.DONE, "cleared a foreign readiness")
    assert readiness(world) == (None, None)
    assert world.decision() == decision


def test_what_somebody_else_sets_is_cleared_although_no_slice_can_be_read() -> None:
    world = World()
    holding(world, DONE, current=FOREIGN)
    world.upstream.before = fail(ServerError("get slice", status=503), on="get resourceslices", times=9)
    with pytest.raises(ServerError):
        run(world)
    assert readiness(world) == (None, None)


def test_what_somebody_else_sets_is_cleared_even_before_the_synthesis() -> None:
    world = World()
    world.add_composition(current=synthesis(synthesized=None, **FOREIGN))
    run(world)
    assert readiness(world) == (None, None)


def test_an_empty_synthesis_with_history_is_held_while_the_inventory_cannot_be_read() -> None:
    world = World()
    world.add_composition(current=synthesis())
    world.remember([entry(name="lost")])
    world.downstream.before = fail(ServerError("list secrets", status=503), on="list secrets", times=3)
    pauses = []
    for _ in range(3):
        with pytest.raises(ServerError):
            recover(recover_message(world.composition()), world.context)
        set_readiness(world)
        pauses.append(pause_after(world))
        assert readiness(world) == (None, None)
        run(world)
        assert readiness(world) == (None, None), "Sexton itself sets neither"
    assert pauses == [None, None, 2.0]
    assert recover(recover_message(world.composition()), world.context).kind is Kind.DONE
    settle_down(world)
    assert readiness(world) == (None, None), "the tombstone has no state yet"
    Eno(world.up, world.clock).reconcile(NAMESPACE, "shop")
    settle_down(world)
    assert readiness(world) == (format_time(NOW), format_time(NOW))


def test_a_contested_readiness_is_corrected_with_growing_pauses_from_the_third_time_within_a_minute_on() -> None:
    world = World()
    holding(world, DONE)
    pauses = []
    for _ in range(6):
        set_readiness(world)
        pauses.append(pause_after(world))
        assert readiness(world) == (None, None), "it is corrected each time"
        world.clock.advance(seconds=1)
    assert pauses == [None, None, 2.0, 4.0, 8.0, 16.0]
    assert [event[:2] for event in world.events()] == [("Warning", "ReadinessContested")], "told once"
    world.clock.advance(minutes=2)
    set_readiness(world)
    assert run(world).kind is Kind.DONE, "a minute without counts as peace"


def test_a_contest_over_a_decided_composition_is_paused_too() -> None:
    world = World()
    holding(world, DONE, resources=2, current=DECIDED)
    pauses = []
    for _ in range(4):
        set_readiness(world)
        pauses.append(pause_after(world))
        assert readiness(world) == (None, None)
    assert pauses == [None, None, 2.0, 4.0]


@pytest.mark.parametrize("current", [{}, DECIDED], ids=["undecided", "decided"])
def test_a_contest_keeps_nobody_from_asking_for_a_resynthesis(current: Json) -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["nowhere"], **current))
    for _ in range(3):
        set_readiness(world)
        pause_after(world)
    assert requested(world) == UUID


def test_corrections_of_one_synthesis_do_not_slow_down_those_of_another() -> None:
    world = World()
    holding(world, DONE)
    for uuid in ("one", "two", "three", "four"):
        set_readiness(world, uuid=uuid, **FOREIGN)
        assert run(world, uuid=uuid).kind is Kind.DONE


# --- resynthesis --------------------------------------------------------------------------------------------


def missing(world: World, **current: Any) -> None:
    world.add_composition(current=synthesis(slices=["nowhere"], **current))


def nameless(world: World, **current: Any) -> None:
    world.add_composition(current=synthesis(slices=[""], **current))


def terminating(world: World, **current: Any) -> None:
    world.add_composition(current=synthesis(slices=["a", "b"], **current))
    world.add_slice("a", [manifest()])
    world.add_slice("b", [manifest(name="other")])
    remove_slice(world, "b", for_good=False)


DAMAGES = [missing, nameless, terminating]
damages = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (missing, "a slice is missing"),
        (nameless, "a slice reference has no name"),
        (terminating, "a slice is terminating before its recovery was decided"),
    ],
    ids=["missing", "nameless", "terminating"],
)
def test_a_resynthesis_is_requested_once_for(damage: Callable[..., None], why: str) -> None:
    world = World()
    damage(world)
    assert run(world) == Outcome(Kind.DONE, f"resynthesis requested: {why}")
    assert requested(world) == UUID
    assert ("Normal", "ResynthesisRequested", f"Resynthesis requested: {why}.") in world.events()
    for _ in range(3):
        assert run(world).kind is Kind.UNCHANGED
    assert world.writes == ["patch compositions"]


def test_a_resynthesis_is_requested_by_one_guarded_patch() -> None:
    world = World()
    missing(world, **DECIDED)
    version = world.composition().resource_version
    world.upstream = recording = Recording(world.up)
    run(world)
    ((operations, options),) = recording.patches
    assert options == {}
    assert operations == [
        {"op": "test", "path": "/metadata/uid", "value": world.composition().uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/annotations/eno.azure.io~1force-resynthesis", "value": UUID},
    ]


def test_a_hundred_events_for_one_missing_slice_are_one_request() -> None:
    world = World()
    missing(world)
    message = gate_message(world.composition())
    for _ in range(100):
        gate(message, world.context)
    assert world.writes.count("patch compositions") == 1


@damages
def test_gates_in_any_order_of_their_calls_make_one_request(damage: Callable[..., None]) -> None:
    world = World()
    damage(world)
    before = world.up.store.version

    def one_request(world: World) -> None:
        changed = [each for each in world.up.store.changes_since(before) if each.resource[1] == "compositions"]
        assert len(changed) <= 1

    def requested_once(world: World) -> None:
        one_request(world)
        assert requested(world) == UUID

    actors = {"first": gating(world), "second": gating(world)}
    assert explore(world, actors, check=one_request, final=requested_once).ends


@damages
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"annotations": {"eno.azure.io/ignore-side-effects": "true"}}, id="side effects are ignored"),
        pytest.param({"annotations": {"eno.azure.io/force-resynthesis": UUID}}, id="already requested"),
    ],
)
def test_a_resynthesis_is_never_requested_when(damage: Callable[..., None], fields: Json) -> None:
    world = World()
    damage(world)
    world.patch_composition(metadata=fields)
    before = world.composition()
    run(world)
    assert world.composition() == before
    assert world.writes == []


@damages
def test_a_resynthesis_is_never_requested_while_one_is_in_flight(damage: Callable[..., None]) -> None:
    world = World()
    damage(world)
    world.patch_composition(subresource="status", status={"inFlightSynthesis": {"uuid": "next"}})
    run(world)
    assert requested(world) is None


@damages
def test_a_resynthesis_is_never_requested_while_deleting(damage: Callable[..., None]) -> None:
    world = World()
    damage(world)
    begin_deletion(world)
    run(world)
    assert requested(world) is None


@damages
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": {"inFlightSynthesis": {"uuid": "next"}}}, id="a synthesis starts"),
        pytest.param({"metadata": {"annotations": {"eno.azure.io/ignore-side-effects": "true"}}}, id="ignored"),
        pytest.param({"status": {"currentSynthesis": {"uuid": "next"}}}, id="superseded"),
    ],
)
def test_a_resynthesis_that_is_overtaken_is_not_requested(damage: Callable[..., None], change: Json) -> None:
    world = World()
    damage(world)
    subresource = "status" if "status" in change else ""
    world.upstream.before = once(
        lambda: world.patch_composition(subresource=subresource, **change), on="patch compositions"
    )
    run(world)
    assert requested(world) is None


def test_a_slice_that_went_missing_just_now_is_waited_for() -> None:
    world = World()
    missing(world, synthesized=format_time(NOW - timedelta(seconds=2)))
    assert run(world) == Outcome(Kind.WAITING, "a slice is missing", NOW + timedelta(seconds=3))
    assert world.writes == []
    world.clock.advance(seconds=3)
    assert run(world).kind is Kind.DONE
    assert requested(world) == UUID


def test_a_nameless_reference_is_not_waited_for() -> None:
    world = World()
    nameless(world, synthesized=format_time(NOW))
    run(world)
    assert requested(world) == UUID


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        pytest.param({}, {"current": DECIDED}, id="recovery is finished"),
        pytest.param({"aggregation": "all"}, {"opted_in": False}, id="not opted in"),
    ],
)
def test_a_terminating_slice_that_no_recovery_waits_for_is_left_to_end(
    settings: dict[str, Any], fields: dict[str, Any]
) -> None:
    world = World(settings=settings)
    holding(world, DONE, **fields)
    remove_slice(world, for_good=False)
    settle_down(world)
    assert requested(world) is None
    assert readiness(world) == (format_time(NOW), EARLY)


def test_a_missing_slice_of_an_unannotated_composition_is_asked_for_where_all_are_aggregated() -> None:
    world = World(settings={"aggregation": "all"})
    world.add_composition(current=synthesis(slices=["nowhere"]), opted_in=False)
    run(world)
    assert requested(world) == UUID


# --- interleavings ------------------------------------------------------------------------------------------


def gating(world: World) -> Actor:
    """A worker with the gate's message, which it takes up again until nothing is left to do."""
    message = gate_message(world.composition())

    def work(context: Context) -> None:
        for _ in range(2):
            with suppress(SextonError):
                gate(message, context)

    return Actor(work, frozenset({COMPOSITIONS}))


def recovering(world: World) -> Actor:
    """A worker with the message of the recovery."""
    message = recover_message(world.composition())
    return Actor(lambda context: recover(message, context), frozenset({COMPOSITIONS, RESOURCE_SLICES}))


def loading(world: World) -> Actor:
    """Eno's reconciler: it loads the synthesis once the decision is finished, and reports the states."""
    return Actor(
        lambda context: Eno(context.upstream, world.clock).reconcile(NAMESPACE, "shop"),
        frozenset({RESOURCE_SLICES}),
        mortal=False,
    )


def owing_a_tombstone(*states: Json) -> World:
    """Undecided; history lists one resource that the slice lacks."""
    world = World()
    holding(world, *states, resources=1)
    world.remember([entry(name="n0"), entry(name="lost")])
    return world


def unfinished(each: Json) -> bool:
    return len(each.get("status", {}).get("resources", [])) < len(each["spec"]["resources"])


def never_too_early(world: World) -> None:
    """Nothing is ready while the decision is open, or while a tombstone has no state."""
    if world.decision() is None or any(unfinished(each) for each in world.all(RESOURCE_SLICES)):
        assert readiness(world) == (None, None)


def ready_in_the_end(world: World) -> None:
    settle_down(world)
    never_too_early(world)
    assert world.tombstones() == ["lost"]
    Eno(world.up, world.clock).reconcile(NAMESPACE, "shop")
    settle_down(world)
    assert None not in readiness(world)


@pytest.mark.parametrize("states", [[DONE], []], ids=["loaded before it was decided", "not loaded"])
def test_a_verdict_from_slices_read_before_the_decision_is_never_published_after_it(states: list[Json]) -> None:
    world = owing_a_tombstone(*states)
    actors = {"gate": gating(world), "recover": recovering(world), "eno": loading(world)}
    assert explore(world, actors, check=never_too_early, final=ready_in_the_end, crashes=1).ends


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uuid": "next"}, id="superseded"),
        pytest.param({"resourceSlices": [{"name": "a"}, {"name": "b"}]}, id="another slice is referenced"),
        pytest.param({"tombstoneRecoveryStatus": decided(uuid="older")}, id="its decision is replaced"),
    ],
)
def test_a_verdict_that_is_overtaken_is_refused_by_its_guards(change: Json) -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    hook = once(
        lambda: world.patch_composition(subresource="status", status={"currentSynthesis": change}),
        on="patch compositions/status",
    )
    world.upstream.before = hook
    run(world)
    assert readiness(world) == (None, None)


def test_a_verdict_on_an_unannotated_composition_is_not_published_on_one_that_opted_in_meanwhile() -> None:
    world = World(settings={"aggregation": "all"})
    holding(world, DONE, opted_in=False)
    opt_in = {"eno.azure.io/recovery-enabled": "true"}
    world.upstream.before = once(
        lambda: world.patch_composition(metadata={"annotations": opt_in}), on="patch compositions/status"
    )
    assert run(world) == Outcome(Kind.UNCHANGED, "tombstone recovery has not decided yet")
    assert readiness(world) == (None, None)


def test_a_composition_that_changes_all_the_time_is_left_to_a_later_task() -> None:
    world = World()
    holding(world, DONE, current=DECIDED)

    def touch(call: Call) -> None:
        if call.writes:
            world.patch_composition(metadata={"labels": {"touched": str(len(world.upstream.calls))}})

    world.upstream.before = touch
    with pytest.raises(StartOver):
        run(world)
    assert world.writes.count("patch compositions/status") == 3
    assert readiness(world) == (None, None)


@pytest.mark.parametrize("on", ["get resourceslices", "patch compositions/status"])
def test_a_composition_that_is_deleted_meanwhile_is_superseded(on: str) -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    world.upstream.before = once(lambda: world.up.delete(COMPOSITIONS, NAMESPACE, "shop"), on=on)
    assert run(world) == Outcome(Kind.SUPERSEDED, "gone")


def test_a_refusal_that_stays_is_permanent_and_does_not_loop() -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    refusal = Invalid("patch compositions", status=422, reason="Invalid")
    world.upstream.before = fail(refusal, on="patch compositions/status", times=9)
    with pytest.raises(Invalid):
        run(world)
    assert world.writes == ["patch compositions/status"]


def test_a_conflict_without_a_change_is_no_lost_race() -> None:
    world = World()
    holding(world, DONE, current=DECIDED)
    world.upstream.before = fail(Conflict("patch compositions", status=409), on="patch compositions/status")
    with pytest.raises(Conflict):
        run(world)
    assert run(world).kind is Kind.DONE


def test_a_404_that_names_no_object_is_no_missing_slice() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=decided()))
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    world.add_slice("slice-0", [manifest()], states=[{"reconciled": True, "ready": STAMP}])
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    proxy = error_from_status("get resourceslices", 404, b"404 page not found\n")
    world.upstream.before = fail(proxy, on="get resourceslices")
    with pytest.raises(NotServed):
        gate(gate_message(world.composition()), world.context)
    assert world.writes == []
