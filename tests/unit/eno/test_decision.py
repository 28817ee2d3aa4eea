"""When a decision is due, when it is finished, and when a resynthesis may be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from eno.decision import (
    RESYNTHESIS_OWED,
    Decision,
    Reason,
    adopted_source,
    adoption_note,
    finished,
    nothing_to_decide,
    recovery_due,
    recovery_skipped,
    resynthesis_owed,
    resynthesis_refused,
    superseded,
)
from eno.objects import Synthesis
from tests.support.factories import STAMP, UID, UUID, composition, decided, synthesis

RETRIABLE = {"status": False, "reason": "InventoryGetError", "synthesisUUID": UUID}
FORCE = "eno.azure.io/force-resynthesis"


@pytest.mark.parametrize(
    ("decision", "uuid", "expected"),
    [
        pytest.param(None, UUID, False, id="none"),
        pytest.param(decided(), UUID, True, id="terminal and bound to this synthesis"),
        pytest.param(decided(uuid="another"), UUID, False, id="bound to another synthesis"),
        pytest.param(RETRIABLE, UUID, False, id="retriable"),
        pytest.param({"reason": "FinishedTombstoneRecovery"}, UUID, False, id="without status"),
        pytest.param(decided(uuid=""), "", False, id="bound to nothing"),
    ],
)
def test_a_decision_is_finished_when_terminal_and_bound_to_its_own_synthesis(
    decision: dict[str, Any] | None, uuid: str, expected: bool
) -> None:
    assert finished(Synthesis.model_validate(synthesis(uuid, tombstoneRecoveryStatus=decision))) is expected


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({}, None, id="due"),
        pytest.param({"current": {}}, "not synthesized", id="no current synthesis"),
        pytest.param({"current": synthesis(synthesized=None)}, "not synthesized", id="not synthesized yet"),
        pytest.param({"opted_in": False}, "not opted in", id="not opted in"),
        pytest.param(
            {"opted_in": False, "annotations": {"eno.azure.io/recovery-enabled": "True"}},
            "not opted in",
            id="True is not true",
        ),
        pytest.param(
            {"opted_in": False, "annotations": {"eno.azure.io/recovery-enabled": " true "}},
            "not opted in",
            id="blanks are not true",
        ),
        pytest.param({"current": synthesis(tombstoneRecoveryStatus=decided())}, "decided", id="decided"),
        pytest.param({"current": synthesis(tombstoneRecoveryStatus=RETRIABLE)}, None, id="only a retriable decision"),
        pytest.param(
            {"current": synthesis(tombstoneRecoveryStatus=decided(uuid="older"))}, None, id="decision of an older one"
        ),
        pytest.param({"current": synthesis(tombstoneRecoveryRequired=None)}, None, id="not required is a decision too"),
    ],
)
def test_a_decision_is_due_for_a_synthesized_opted_in_undecided_composition(
    fields: dict[str, Any], why: str | None
) -> None:
    subject = composition(**fields)
    assert nothing_to_decide(subject) == why
    assert recovery_due(subject) is (why is None)


def test_a_label_is_not_an_opt_in() -> None:
    subject = composition(opted_in=False)
    labelled = subject.model_copy(
        update={"metadata": subject.metadata.model_copy(update={"labels": {"eno.azure.io/recovery-enabled": "true"}})}
    )
    assert nothing_to_decide(labelled) == "not opted in"


def test_nothing_is_decided_for_a_composition_that_is_deleting() -> None:
    subject = composition()
    deleting = subject.model_copy(
        update={"metadata": subject.metadata.model_copy(update={"deletion_timestamp": STAMP})}
    )
    assert nothing_to_decide(deleting) == "deleting"
    assert resynthesis_refused(deleting) == "deleting"


@pytest.mark.parametrize(
    ("uid", "uuid", "why"),
    [
        pytest.param(UID, UUID, None, id="the same"),
        pytest.param("other", UUID, "recreated under another UID", id="recreated"),
        pytest.param(UID, "older", "another synthesis is current", id="another synthesis"),
    ],
)
def test_a_task_is_superseded_when_uid_or_uuid_have_changed(uid: str, uuid: str, why: str | None) -> None:
    assert superseded(composition(), uid, uuid) == why


@pytest.mark.parametrize("reason", Reason)
def test_a_decision_is_published_with_the_uuid_it_was_made_for(reason: Reason) -> None:
    decision = Decision(reason, "why")
    status = decision.to_status(UUID)
    assert status == {
        "status": reason.terminal,
        "reason": reason.value,
        "synthesisUUID": UUID,
        "message": "why",
    }
    stored = Synthesis.model_validate(synthesis(tombstoneRecoveryStatus=status))
    assert finished(stored) is reason.terminal


def test_an_empty_message_is_left_out() -> None:
    assert "message" not in Decision(Reason.NOT_NEEDED).to_status(UUID)


def test_three_reasons_are_retriable() -> None:
    assert {str(reason) for reason in Reason if not reason.terminal} == {
        "InventoryGetError",
        "CurrentSynthesisResourceSliceError",
        "ErrUpdateResourceSlice",
    }


OWING = synthesis(tombstoneRecoveryStatus=decided(message=RESYNTHESIS_OWED))


@pytest.mark.parametrize(
    ("fields", "owed"),
    [
        pytest.param({"current": OWING}, True, id="announced and not requested"),
        pytest.param({"current": synthesis(tombstoneRecoveryStatus=decided())}, False, id="not announced"),
        pytest.param({"current": OWING, "annotations": {FORCE: UUID}}, False, id="already requested"),
        pytest.param({"current": OWING, "annotations": {FORCE: "older"}}, True, id="an older one was requested"),
        pytest.param({"current": OWING, "inFlightSynthesis": {"uuid": "next"}}, False, id="in flight"),
        pytest.param(
            {"current": OWING, "annotations": {"eno.azure.io/ignore-side-effects": "true"}},
            False,
            id="side effects are ignored",
        ),
        pytest.param({"current": OWING, "opted_in": False}, False, id="opted out"),
    ],
)
def test_a_resynthesis_is_owed_until_it_was_requested(fields: dict[str, Any], owed: bool) -> None:
    subject = composition(**fields)
    assert resynthesis_owed(subject) is owed
    assert recovery_due(subject) is owed


def test_a_resynthesis_that_was_announced_for_another_synthesis_is_not_owed() -> None:
    older = decided(uuid="older", message=RESYNTHESIS_OWED)
    assert not resynthesis_owed(composition(current=synthesis(tombstoneRecoveryStatus=older)))


@pytest.mark.parametrize(
    ("decision", "source"),
    [
        pytest.param(decided(message=adoption_note("old")), "old", id="buried and final"),
        pytest.param(decided(uuid="older", message=adoption_note("old")), "", id="made for another synthesis"),
        pytest.param(decided("InventoryNotFound", message=adoption_note("old")), "", id="nothing was buried"),
        pytest.param(None, "", id="none"),
    ],
)
def test_a_final_decision_that_buried_says_whose_history_was_adopted(
    decision: dict[str, Any] | None, source: str
) -> None:
    assert adopted_source(Synthesis.model_validate(synthesis(tombstoneRecoveryStatus=decision))) == source


@pytest.mark.parametrize(
    ("fields", "skipped"),
    [
        pytest.param({}, True, id="skipped"),
        pytest.param({"tombstoneRecoveryRequired": False}, False, id="no history was lacking"),
        pytest.param(
            {"tombstoneRecoveryStatus": decided("OutsideRecoveryNamespace", "older")}, False, id="another synthesis was"
        ),
        pytest.param({"tombstoneRecoveryStatus": decided()}, False, id="recovered"),
    ],
)
def test_a_skipped_recovery_leaves_its_debt_to_the_successor(fields: dict[str, Any], skipped: bool) -> None:
    body = synthesis(**{"tombstoneRecoveryStatus": decided("OutsideRecoveryNamespace"), **fields})
    assert recovery_skipped(composition(current=body)) is skipped
