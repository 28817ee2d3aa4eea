"""What a state calls for: one table per rule."""

from __future__ import annotations

from typing import Any

import pytest

from eno.decision import RESYNTHESIS_OWED
from eno.scope import Scope
from kube.cluster import Json
from runtime.messages import RecoverMessage
from tests.unit.watcher.factories import NOW, SCOPE, composition, decision, synthesis
from watcher.derive import NOTHING, derive, recover
from watcher.keys import Kind
from watcher.records import CompositionRecord, Subject, read

ALL_NAMESPACES = Scope(recovery_namespace="prod", recovery_enabled=True)
DISABLED = Scope(composition_namespace="prod", recovery_namespace="prod")
SELECTING = SCOPE.model_copy(update={"label_selector": "team=a"})


def subject(obj: Json, scope: Scope = SCOPE) -> Subject:
    found = read(Kind.COMPOSITION, obj, scope)
    assert isinstance(found, CompositionRecord)
    return Subject(found)


DUE: dict[str, dict[str, Any]] = {
    "a first synthesis that is undecided": {},
    "an undecided synthesis that does not require recovery": {"current": synthesis(tombstoneRecoveryRequired=None)},
    "a decision of another synthesis counts as none": {
        "current": synthesis(tombstoneRecoveryStatus=decision("another"))
    },
    "a retriable decision is no end": {
        "current": synthesis(tombstoneRecoveryStatus=decision(status=False, reason="InventoryGetError"))
    },
    "an in-flight successor does not matter": {"in_flight": {"uuid": "synthesis-2"}},
    "a synthesis without slices": {"current": synthesis(slices=())},
    "a synthesis without UUID: the task says what is wrong": {"current": synthesis(uuid="")},
    "a decision whose announced resynthesis was never requested": {
        "current": synthesis(tombstoneRecoveryStatus=decision(message=f"Buried 2. {RESYNTHESIS_OWED}"))
    },
}

NOT_DUE: dict[str, dict[str, Any]] = {
    "not opted in": {"opt_in": None},
    "opted in with another spelling": {"opt_in": "True"},
    "opted in by a label": {"opt_in": None, "labels": {"eno.azure.io/recovery-enabled": "true"}},
    "deleting": {"deletionTimestamp": "2026-01-31T12:00:00Z"},
    "not synthesized yet": {"current": synthesis(synthesized=None)},
    "no current synthesis": {"current": {}, "in_flight": synthesis()},
    "decided": {"current": synthesis(tombstoneRecoveryStatus=decision())},
    "outside the recovery namespace": {"namespace": "dev"},
}


@pytest.mark.parametrize("fields", DUE.values(), ids=DUE.keys())
def test_recover_is_due(fields: dict[str, Any]) -> None:
    obj = composition(**fields)
    (message,) = recover(subject(obj), NOW, SCOPE).tasks

    uuid = obj["status"]["currentSynthesis"]["uuid"]
    assert message == RecoverMessage(namespace="prod", name="web", uid="uid-1", synthesis_uuid=uuid, scope=SCOPE)


@pytest.mark.parametrize("fields", NOT_DUE.values(), ids=NOT_DUE.keys())
def test_recover_is_not_due(fields: dict[str, Any]) -> None:
    assert recover(subject(composition(**fields), ALL_NAMESPACES), NOW, ALL_NAMESPACES) == NOTHING


def test_no_recovery_is_due_while_recovery_is_disabled() -> None:
    assert recover(subject(composition(), DISABLED), NOW, DISABLED) == NOTHING


def test_labels_decide_also_when_the_server_did_not_select() -> None:
    selected = composition(labels={"team": "a"})
    assert derive(subject(selected, SELECTING), NOW, SELECTING).tasks
    assert derive(subject(composition(), SELECTING), NOW, SELECTING) == NOTHING


def test_slices_without_a_composition_call_for_nothing_that_is_known_yet() -> None:
    assert derive(Subject(None), NOW, SCOPE) == NOTHING


def test_a_uuid_that_no_message_can_carry_is_a_finding_and_not_sent() -> None:
    derived = derive(subject(composition(current=synthesis(uuid="a:b"))), NOW, SCOPE)
    assert derived.tasks == ()
    assert any("synthesis_uuid" in finding for finding in derived.findings)


def test_what_no_message_can_carry_is_named() -> None:
    """Whoever reads the log of a watcher, or of a backfill, is told of nothing else."""
    derived = derive(subject(composition(current=synthesis(uuid="a:b"))), NOW, SCOPE)
    assert {finding.partition(": ")[0] for finding in derived.findings} == {
        "message of sexton.recover about Composition prod/web",
        "message of sexton.gate about Composition prod/web",
    }
