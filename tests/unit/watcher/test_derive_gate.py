"""When a gate is called for: one table per answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eno.scope import Aggregation, Scope
from eno.times import format_time
from kube.cluster import Json
from runtime.messages import GateMessage
from tests.support.factories import STAMP
from tests.unit.watcher.factories import NOW, SCOPE, composition, decision, resource_slice, synthesis
from watcher.derive import NOTHING, gate
from watcher.keys import Kind
from watcher.records import CompositionRecord, SliceRecord, Subject, read

DELETING = {"deletionTimestamp": STAMP}


def subject(obj: Json, scope: Scope = SCOPE, *slices: str, changed: bool = False) -> Subject:
    found = read(Kind.COMPOSITION, obj, scope)
    assert isinstance(found, CompositionRecord)
    records = [read(Kind.SLICE, resource_slice(name), scope) for name in slices or ("s-1",)]
    return Subject(found, tuple(each for each in records if isinstance(each, SliceRecord)), changed)


def decided(**fields: Any) -> Json:
    return synthesis(tombstoneRecoveryStatus=decision(), **fields)


def settled(**fields: Any) -> Json:
    """Decided, ready and reconciled."""
    return decided(**{"ready": STAMP, "reconciled": STAMP, **fields})


def scope(aggregation: str = "opted-in", **fields: Any) -> Scope:
    return SCOPE.model_copy(update={"aggregation": Aggregation(aggregation), **fields})


UNANNOTATED: dict[str, Any] = {"opt_in": None}

DUE: dict[str, tuple[dict[str, Any], Scope]] = {
    "undecided": ({}, SCOPE),
    "undecided, however ready it is called": ({"current": synthesis(ready=STAMP, reconciled=STAMP)}, SCOPE),
    "called ready before it was synthesized": ({"current": synthesis(synthesized=None, ready=STAMP)}, SCOPE),
    "decided, not ready": ({"current": decided(reconciled=STAMP)}, SCOPE),
    "decided, not reconciled": ({"current": decided(ready=STAMP)}, SCOPE),
    "deleting": ({"current": settled(), **DELETING}, SCOPE),
    "deleting and undecided": (DELETING, SCOPE),
    "a nameless reference": ({"current": settled(resourceSlices=[{}])}, SCOPE),
    "a slice that is not known": ({"current": settled(slices=("s-1", "s-2"))}, SCOPE),
    "not opted in, where all are aggregated": ({**UNANNOTATED, "current": decided()}, scope("all")),
    "undecided, where others aggregate": ({}, scope("off")),
    "nobody recovers: disabled": ({}, scope(recovery_enabled=False)),
    "nobody recovers: another namespace": ({}, scope(recovery_namespace="other")),
    "nobody recovers, and others aggregate": ({}, scope("off", recovery_enabled=False)),
}

NOT_DUE: dict[str, tuple[dict[str, Any], Scope]] = {
    "ready and reconciled": ({"current": settled()}, SCOPE),
    "decided for, while the operator is disabled": ({"current": settled()}, scope(recovery_enabled=False)),
    "not opted in": ({**UNANNOTATED, "current": decided()}, SCOPE),
    "not opted in and undecided": (UNANNOTATED, SCOPE),
    "not opted in and deleting": ({**UNANNOTATED, **DELETING}, SCOPE),
    "decided, where others aggregate": ({"current": decided()}, scope("off")),
    "deleting, where others aggregate": (DELETING, scope("off")),
    "not synthesized": ({"current": synthesis(synthesized=None)}, SCOPE),
    "no synthesis": ({"current": {}}, SCOPE),
    "labels that do not match": ({}, scope(label_selector="a=b")),
    "another namespace": ({"namespace": "other"}, SCOPE),
    "a slice that is not known, and a resynthesis in flight": (
        {"current": settled(slices=("s-2",)), "in_flight": {"uuid": "next"}},
        SCOPE,
    ),
    "a slice that is not known, and side effects are ignored": (
        {
            "current": settled(slices=("s-2",)),
            "annotations": {
                "eno.azure.io/recovery-enabled": "true",
                "eno.azure.io/ignore-side-effects": "true",
            },
        },
        SCOPE,
    ),
}


@pytest.mark.parametrize(("fields", "scope"), DUE.values(), ids=DUE.keys())
def test_gate_is_due(fields: dict[str, Any], scope: Scope) -> None:
    obj = composition(**fields)
    (message,) = gate(subject(obj, scope), NOW, scope).tasks
    uuid = obj["status"]["currentSynthesis"]["uuid"]
    assert message == GateMessage(namespace="prod", name="web", uid="uid-1", synthesis_uuid=uuid, scope=scope)


@pytest.mark.parametrize(("fields", "scope"), NOT_DUE.values(), ids=NOT_DUE.keys())
def test_gate_is_not_due(fields: dict[str, Any], scope: Scope) -> None:
    assert gate(subject(composition(**fields), scope), NOW, scope) == NOTHING


@pytest.mark.parametrize(
    ("fields", "scope", "due"),
    [
        pytest.param({"current": settled()}, SCOPE, True, id="ready and reconciled"),
        pytest.param({**UNANNOTATED, "current": settled()}, scope("all"), True, id="all are aggregated"),
        pytest.param({**UNANNOTATED, "current": settled()}, SCOPE, False, id="not opted in"),
        pytest.param({"current": settled()}, scope("off"), False, id="others aggregate"),
        pytest.param({"current": {}}, SCOPE, False, id="no synthesis"),
    ],
)
def test_a_slice_that_changed_calls_for_a_gate_of_what_is_aggregated_here(
    fields: dict[str, Any], scope: Scope, due: bool
) -> None:
    assert bool(gate(subject(composition(**fields), scope, changed=True), NOW, scope).tasks) is due


def test_a_missing_slice_is_looked_at_again_when_it_begins_to_count() -> None:
    obj = composition(current=settled(slices=("gone",), synthesized=format_time(NOW - timedelta(seconds=2))))
    assert gate(subject(obj), NOW, SCOPE).look_again == NOW + timedelta(seconds=3)
    assert gate(subject(obj), NOW + timedelta(seconds=3), SCOPE).look_again is None


def test_slices_without_a_composition_call_for_no_gate() -> None:
    assert gate(Subject(None, slices_changed=True), NOW, SCOPE) == NOTHING
