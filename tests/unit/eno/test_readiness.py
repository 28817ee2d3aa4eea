"""When a synthesis is reconciled and ready, and when a new one has to be asked for: a table per rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eno.objects import Composition, ResourceSlice
from eno.readiness import (
    Hole,
    Resynthesis,
    Verdict,
    correction_pause,
    held,
    obstacles,
    resynthesis,
    verdict,
)
from eno.times import format_time
from tests.support.factories import (
    NOW,
    UUID,
    Json,
    composition,
    decided,
    manifest,
    resource_slice,
    synthesis,
)

EARLY = datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC)
LATE = datetime(2026, 3, 1, 11, 30, 0, tzinfo=UTC)
DELETING: dict[str, Any] = {"deletionTimestamp": "2026-03-01T11:00:00Z"}
ORPHAN = {"eno.azure.io/deletion-strategy": "orphan"}


def state(*, reconciled: bool = True, ready: datetime | None = EARLY, deleted: bool = False, error: str = "") -> Json:
    """A state as Eno writes it; healthy by default."""
    body: Json = {"reconciled": reconciled, "deleted": deleted, "reconciliationError": error}
    body["ready"] = format_time(ready) if ready else None
    return {key: value for key, value in body.items() if value}


def a_slice(*states: Json, resources: int | None = None, **fields: Any) -> ResourceSlice:
    """A slice with one resource per state, unless said otherwise."""
    count = len(states) if resources is None else resources
    return resource_slice("a", [manifest(name=f"n{index}") for index in range(count)], states=states, **fields)


def a_composition(*, deleting: bool = False, **fields: Any) -> Composition:
    """Decided; `current` names what else its synthesis holds."""
    current = {"tombstoneRecoveryStatus": decided(), **fields.pop("current", {})}
    metadata = {**(DELETING if deleting else {}), **fields.pop("metadata", {})}
    return composition(current=synthesis(**current), metadata=metadata, **fields)


UNDECIDED = {"tombstoneRecoveryStatus": None}


@pytest.mark.parametrize(
    ("state", "deleting", "annotations", "reconciled"),
    [
        pytest.param(state(), False, {}, True, id="its state says so"),
        pytest.param(state(reconciled=False), False, {}, False, id="its state does not say so"),
        pytest.param({}, False, {}, False, id="its state says nothing"),
        pytest.param(state(), True, {}, False, id="deleting: it must also be deleted"),
        pytest.param(state(deleted=True), True, {}, True, id="deleting: it is also deleted"),
        pytest.param(state(), True, ORPHAN, True, id="deleting: orphans count as deleted"),
        pytest.param(state(reconciled=False, deleted=True), True, {}, False, id="deleted alone is not reconciled"),
        pytest.param(state(reconciled=False), True, ORPHAN, False, id="orphans must be reconciled all the same"),
        pytest.param(state(), True, {"eno.azure.io/deletion-strategy": "Orphan"}, False, id="another strategy"),
    ],
)
def test_a_resource_is_reconciled_when(
    state: Json, deleting: bool, annotations: dict[str, str], reconciled: bool
) -> None:
    found = verdict(a_composition(deleting=deleting, annotations=annotations), [a_slice(state)], NOW)
    assert found is not None
    assert found.reconciled == (NOW if reconciled else None)


def test_all_resources_of_all_slices_have_to_be_reconciled() -> None:
    slices = [a_slice(state(), state()), a_slice(state(), state(reconciled=False))]
    assert verdict(a_composition(), slices, NOW) == Verdict(None, EARLY)


def test_the_ready_time_is_the_latest_of_all_states() -> None:
    slices = [a_slice(state(), state(ready=LATE)), a_slice(state())]
    assert verdict(a_composition(), slices, NOW) == Verdict(NOW, LATE)


def test_one_state_without_a_ready_time_is_not_ready() -> None:
    assert verdict(a_composition(), [a_slice(state(), state(ready=None))], NOW) == Verdict(NOW, None)


def test_a_reconciled_time_that_stands_is_kept() -> None:
    stands = a_composition(current={"reconciled": format_time(EARLY)})
    assert verdict(stands, [a_slice(state())], NOW) == Verdict(EARLY, EARLY)


def test_a_reconciled_time_that_holds_no_longer_is_taken_back() -> None:
    stands = a_composition(current={"reconciled": format_time(EARLY), "ready": format_time(EARLY)})
    assert verdict(stands, [a_slice(state(reconciled=False, ready=None))], NOW) == Verdict(None, None)


@pytest.mark.parametrize("slices", [[], [a_slice()], [a_slice(), a_slice()]], ids=["no slice", "one", "two"])
def test_an_empty_synthesis_becomes_ready_at_its_reconciled_time_one_pass_later(slices: list[ResourceSlice]) -> None:
    assert verdict(a_composition(), slices, NOW) == Verdict(NOW, None)
    later = a_composition(current={"reconciled": format_time(EARLY)})
    assert verdict(later, slices, NOW) == Verdict(EARLY, EARLY)


@pytest.mark.parametrize(
    ("states", "resources"),
    [
        pytest.param([state()], 2, id="newly appended tombstones"),
        pytest.param([], 1, id="not loaded yet"),
    ],
)
def test_a_status_array_that_is_too_short_is_unfinished(states: list[Json], resources: int) -> None:
    assert verdict(a_composition(), [a_slice(*states, resources=resources)], NOW) == Verdict(None, None)
    stands = a_composition(current={"reconciled": format_time(EARLY), "ready": format_time(EARLY)})
    assert verdict(stands, [a_slice(*states, resources=resources)], NOW) == Verdict(None, None)


def test_a_short_slice_beside_a_whole_one_is_unfinished() -> None:
    assert verdict(a_composition(), [a_slice(state()), a_slice(state(), resources=2)], NOW) == Verdict(None, None)


def test_states_beyond_the_resources_do_not_count() -> None:
    extra = a_slice(state(), state(reconciled=False, ready=None), resources=1)
    assert verdict(a_composition(), [extra], NOW) == Verdict(NOW, EARLY)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"current": UNDECIDED}, True, id="no decision"),
        pytest.param(
            {"current": {"tombstoneRecoveryStatus": decided(uuid="another")}},
            True,
            id="a decision of another synthesis",
        ),
        pytest.param(
            {"current": {"tombstoneRecoveryStatus": {**decided(), "status": False}}}, True, id="a retriable decision"
        ),
        pytest.param({"current": {"uuid": "", **UNDECIDED}}, True, id="no UUID that a decision could be bound to"),
        pytest.param({}, False, id="decided"),
        pytest.param({"current": UNDECIDED, "opted_in": False}, False, id="not annotated"),
        pytest.param({"current": UNDECIDED, "deleting": True}, False, id="deleting"),
    ],
)
def test_readiness_is_held(fields: dict[str, Any], expected: bool) -> None:
    current = {"reconciled": format_time(EARLY), "ready": format_time(EARLY), **fields.get("current", {})}
    view = a_composition(**{**fields, "current": current})
    assert held(view) is expected
    for slices in ([], [a_slice(state(deleted=True))]):
        assert (verdict(view, slices, NOW) == Verdict(None, None)) is expected


def test_unannotated_compositions_are_aggregated_without_a_decision() -> None:
    view = a_composition(opted_in=False, current=UNDECIDED)
    assert verdict(view, [a_slice(state())], NOW) == Verdict(NOW, EARLY)


def test_slices_of_a_symphony_that_is_deleting_are_skipped() -> None:
    view = a_composition(metadata={"labels": {"eno.azure.io/symphony-deleting": "true"}})
    assert verdict(view, [a_slice(state(reconciled=False)), Hole.MISSING], NOW) == Verdict(NOW, None)


@pytest.mark.parametrize("hole", list(Hole))
def test_a_hole_is_skipped_while_deleting_and_otherwise_leaves_it_open(hole: Hole) -> None:
    slices: list[ResourceSlice | Hole] = [a_slice(state(deleted=True)), hole]
    assert verdict(a_composition(deleting=True), slices, NOW) == Verdict(NOW, EARLY)
    assert verdict(a_composition(), slices, NOW) is None
    assert verdict(a_composition(current=UNDECIDED), slices, NOW) == Verdict(None, None), "held even so"


@pytest.mark.parametrize(
    ("simplified", "errors", "expected"),
    [
        pytest.param({"status": "Reconciling"}, ["", "b", "a"], "b", id="the greatest"),
        pytest.param({"status": "Reconciling", "error": "gone"}, ["", ""], "", id="none: an old one goes"),
        pytest.param({"status": "Ready"}, ["b"], None, id="not reconciling: not ours to set"),
        pytest.param(None, ["b"], None, id="no summary"),
    ],
)
def test_the_simplified_error(simplified: Json | None, errors: list[str], expected: str | None) -> None:
    fields: dict[str, Any] = {} if simplified is None else {"simplified": simplified}
    slices = [a_slice(state(error=each)) for each in errors]
    for current in ({}, UNDECIDED):
        found = verdict(a_composition(current=current, **fields), slices, NOW)
        assert found is not None
        assert found.error == expected


def test_what_is_not_synthesized_yet_is_held() -> None:
    assert held(composition(current=None))


def test_a_composition_without_a_synthesis_has_no_verdict() -> None:
    assert verdict(composition(current=None), [], NOW) is None


@pytest.mark.parametrize(
    ("view", "slices", "expected"),
    [
        pytest.param(a_composition(), [a_slice(state())], [], id="nothing"),
        pytest.param(
            a_composition(current=UNDECIDED),
            [a_slice(state(), resources=3)],
            ["tombstone recovery has not decided yet", "slice a: 2 of 3 resources have no state yet"],
            id="undecided, and a short slice",
        ),
        pytest.param(
            a_composition(),
            [a_slice(state(), state(reconciled=False, ready=None)), a_slice(state(ready=None))],
            ["slice a: 1 of 2 resources is not reconciled", "slice a: 1 of 1 resource is not ready"],
            id="unfinished resources",
        ),
        pytest.param(
            a_composition(deleting=True),
            [a_slice(state()), Hole.MISSING],
            ["slice a: 1 of 1 resource is not deleted"],
            id="deleting, holes do not matter",
        ),
        pytest.param(a_composition(), [Hole.MISSING], ["a slice is missing"], id="a hole"),
    ],
)
def test_what_is_in_the_way_is_told(view: Composition, slices: list[ResourceSlice | Hole], expected: list[str]) -> None:
    assert obstacles(view, slices) == expected


def test_a_foreign_readiness_is_corrected_with_growing_pauses_from_the_third_time_on() -> None:
    pauses = [correction_pause(times) for times in range(1, 6)]
    assert pauses == [None, None, timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=8)]
    assert correction_pause(10**6) == timedelta(minutes=1), "and never for longer than a minute"


TERMINATING = a_slice(state(), **DELETING)
UNLOADED = a_slice(resources=1)


@pytest.mark.parametrize(
    ("slices", "current", "why"),
    [
        pytest.param([Hole.NAMELESS], {}, "a slice reference has no name", id="a nameless reference"),
        pytest.param([Hole.NAMELESS], {"synthesized": format_time(NOW)}, "a slice reference has no name", id="at once"),
        pytest.param([Hole.MISSING], {}, "a slice is missing", id="a missing slice"),
        pytest.param(
            [TERMINATING], UNDECIDED, "a slice is terminating before its recovery was decided", id="a terminating slice"
        ),
        pytest.param(
            [UNLOADED, TERMINATING],
            UNDECIDED,
            "a slice is terminating before its recovery was decided",
            id="a later slice is looked at although an earlier one has no status yet",
        ),
        pytest.param(
            [Hole.MISSING, TERMINATING],
            UNDECIDED | {"synthesized": format_time(NOW)},
            "a slice is terminating before its recovery was decided",
            id="a terminating slice does not wait for a missing one",
        ),
    ],
)
def test_a_resynthesis_is_called_for_by(slices: list[ResourceSlice | Hole], current: Json, why: str) -> None:
    assert resynthesis(a_composition(current=current), slices, NOW, recovers=True) == Resynthesis(why)


@pytest.mark.parametrize(
    ("slices", "fields", "recovers"),
    [
        pytest.param([a_slice(state())], {"current": UNDECIDED}, True, id="whole slices"),
        pytest.param([TERMINATING], {}, True, id="a terminating slice of a decided synthesis"),
        pytest.param([TERMINATING], {"current": UNDECIDED}, False, id="a terminating slice outside the recovery scope"),
        pytest.param(
            [TERMINATING], {"current": UNDECIDED, "opted_in": False}, True, id="a terminating slice, not opted in"
        ),
        pytest.param([Hole.MISSING], {"current": {"synthesized": None}}, True, id="not synthesized yet"),
    ],
)
def test_no_resynthesis_is_called_for_by(
    slices: list[ResourceSlice | Hole], fields: dict[str, Any], recovers: bool
) -> None:
    assert resynthesis(a_composition(**fields), slices, NOW, recovers=recovers) is None


@pytest.mark.parametrize(
    "slices", [[Hole.NAMELESS], [Hole.MISSING], [TERMINATING]], ids=["nameless", "missing", "ends"]
)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"annotations": {"eno.azure.io/ignore-side-effects": "true"}}, id="side effects are ignored"),
        pytest.param({"inFlightSynthesis": {"uuid": "next"}}, id="a synthesis is in flight"),
        pytest.param({"annotations": {"eno.azure.io/force-resynthesis": UUID}}, id="it was already requested"),
        pytest.param({"deleting": True}, id="deleting"),
    ],
)
def test_a_resynthesis_is_never_asked_for_when(slices: list[ResourceSlice | Hole], fields: dict[str, Any]) -> None:
    assert resynthesis(a_composition(current=UNDECIDED, **fields), slices, NOW, recovers=True) is None


def test_a_request_for_an_older_synthesis_does_not_count() -> None:
    view = a_composition(annotations={"eno.azure.io/force-resynthesis": "older"})
    assert resynthesis(view, [Hole.MISSING], NOW, recovers=True) is not None


@pytest.mark.parametrize(
    ("age", "wait"),
    [(0, 5), (4.999999, 0.000001), (5, 0), (3600, 0)],
    ids=["just synthesized", "a moment before", "after 5 s", "long after"],
)
def test_a_missing_slice_counts_5_s_after_its_synthesis(age: float, wait: float) -> None:
    now = EARLY + timedelta(seconds=age)
    view = a_composition(current={"synthesized": format_time(EARLY)})
    expected = Resynthesis("a slice is missing", now + timedelta(seconds=wait) if wait else None)
    assert resynthesis(view, [Hole.MISSING], now, recovers=True) == expected
