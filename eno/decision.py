"""The decision of a recovery, and whether a task may still act on what it was made for.

Source of the rules: specification 01 (reasons, *finished*), 02 (order of checks) and promise P5. A decision is
bound to the UUID of the synthesis it was made for; bound to another one it counts as none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eno.objects import FORCE_RESYNTHESIS_ANNOTATION, IGNORE_SIDE_EFFECTS_ANNOTATION, Composition, Synthesis

RESYNTHESIS_OWED = "The synthesis had been loaded before this decision, so a resynthesis is requested."
"""Ends the message of a decision whose tombstones the loaded synthesis does not see.

It is kept in the object because the request is a second write: after a crash in between, the object itself must
say that something is still owed (P6).
"""


_ADOPTED = re.compile(r"The history of (\S+) was adopted\.")


def adoption_note(source: str) -> str:
    """What the message says when history of another name was taken over; read back by `adopted_source`."""
    return f"The history of {source} was adopted."


def adopted_source(synthesis: Synthesis) -> str:
    """The source name that the synthesis' decision took history over from, or empty."""
    decision = synthesis.recovery
    if decision is None or decision.reason != Reason.FINISHED or not finished(synthesis):
        return ""
    found = _ADOPTED.match(decision.message)
    return found[1] if found else ""


class Reason(StrEnum):
    """Why a recovery was decided, or why it could not be yet."""

    NOT_NEEDED = "NotNeeded"
    FINISHED = "FinishedTombstoneRecovery"
    INVENTORY_NOT_FOUND = "InventoryNotFound"
    INVENTORY_INVALID = "InventoryInvalid"
    OPERATOR_NOT_ENABLED = "TombstoneRecoveryOperatorNotEnabled"
    OUTSIDE_NAMESPACE = "OutsideRecoveryNamespace"
    INVENTORY_GET_ERROR = "InventoryGetError"
    SLICE_ERROR = "CurrentSynthesisResourceSliceError"
    UPDATE_ERROR = "ErrUpdateResourceSlice"

    @property
    def terminal(self) -> bool:
        """Whether this reason ends the recovery of its synthesis."""
        return self not in (Reason.INVENTORY_GET_ERROR, Reason.SLICE_ERROR, Reason.UPDATE_ERROR)


@dataclass(frozen=True, slots=True)
class Decision:
    """A reason, with a message that is the same for the same cause (a repeated error is no new write)."""

    reason: Reason
    message: str = ""

    def to_status(self, synthesis_uuid: str) -> dict[str, Any]:
        """`tombstoneRecoveryStatus` as published: `message` is omitted when empty."""
        status: dict[str, Any] = {
            "status": self.reason.terminal,
            "reason": str(self.reason),
            "synthesisUUID": synthesis_uuid,
        }
        if self.message:
            status["message"] = self.message
        return status


def finished(synthesis: Synthesis) -> bool:
    """Whether the synthesis has a terminal decision of its own."""
    decision = synthesis.recovery
    return (
        decision is not None and decision.status and bool(synthesis.uuid) and decision.synthesis_uuid == synthesis.uuid
    )


def recovery_required(composition: Composition, *, infer: bool) -> bool:
    """Whether the current synthesis may lack history.

    The field is absent on a composition without a previous synthesis only where Eno does not know the field at
    all; `infer` decides what that means.
    """
    current = composition.current
    if current is None:
        return False
    if current.recovery_required is None and composition.previous is None:
        return infer
    return bool(current.recovery_required)


def nothing_to_decide(composition: Composition) -> str | None:
    """Why recover has no decision to make here, or None when one is due.

    The order of checks is that of specification 02; a composition that is gone is the caller's business.
    """
    if composition.deleting:
        return "deleting"
    if composition.current is None or composition.current.synthesized is None:
        return "not synthesized"
    if not composition.opted_in:
        return "not opted in"
    if finished(composition.current):
        return "decided"
    return None


def nothing_to_record(composition: Composition) -> str | None:
    """Why there is no inventory to record, or None when the current synthesis is ready and decided."""
    why = nothing_to_decide(composition)
    if why != "decided":
        return why or "undecided"
    if composition.current is None or composition.current.ready is None:
        return "not ready"
    return None


def skipped_decision(composition: Composition, *, enabled: bool, recovery_namespace: str) -> Reason | None:
    """The decision for a composition that nobody will recover, so that its gate does not wait for ever.

    Specification 03, *Skipped decisions*. A terminal decision is never reopened.
    """
    if nothing_to_decide(composition) is not None:
        return None
    if not enabled:
        return Reason.OPERATOR_NOT_ENABLED
    return Reason.OUTSIDE_NAMESPACE if composition.namespace != recovery_namespace else None


def recovery_skipped(composition: Composition) -> bool:
    """Whether readiness was let go without the recovery that is still owed: the next synthesis inherits the debt."""
    current = composition.current
    return (
        current is not None
        and current.recovery_required is True
        and finished(current)
        and current.recovery is not None
        and current.recovery.reason in (Reason.OPERATOR_NOT_ENABLED, Reason.OUTSIDE_NAMESPACE)
    )


def superseded(composition: Composition, uid: str, synthesis_uuid: str) -> str | None:
    """Why the object is not the one that a task was made for any more, or None."""
    if composition.uid != uid:
        return "recreated under another UID"
    current = composition.current
    if current is not None and current.uuid != synthesis_uuid:
        return "another synthesis is current"
    return None


def resynthesis_owed(composition: Composition) -> bool:
    """Whether the current decision still waits for the resynthesis it announced."""
    current = composition.current
    return (
        current is not None
        and finished(current)
        and current.recovery is not None
        and current.recovery.message.endswith(RESYNTHESIS_OWED)
        and composition.opted_in
        and resynthesis_refused(composition) is None
    )


def resynthesis_refused(composition: Composition) -> str | None:
    """Why no resynthesis may be requested now, or None (specification 03, *Resynthesis*)."""
    if composition.deleting:
        return "deleting"
    if composition.annotations.get(IGNORE_SIDE_EFFECTS_ANNOTATION) == "true":
        return "side effects are ignored"
    if composition.in_flight is not None:
        return "a synthesis is in flight"
    if composition.annotations.get(FORCE_RESYNTHESIS_ANNOTATION) == composition.latest_uuid:
        return "already requested"
    return None


def recovery_due(composition: Composition) -> bool:
    """Whether a recover task has anything to do: a decision to make, or a resynthesis to ask for."""
    return nothing_to_decide(composition) is None or resynthesis_owed(composition)
