"""recover: make the tombstones that a history-less synthesis is owed, and publish the decision.

Read live → decide (`workers.recovery`) → before each write read fresh → write under a guard → publish decision
and new slice references in one patch. A crash anywhere leaves what was written; the next run computes the rest.
Specification 02.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from eno.decision import RESYNTHESIS_OWED, Decision, Reason, resynthesis_owed
from eno.errors import MissingCapability, SextonError, StartOver
from eno.objects import ACKNOWLEDGE_ANNOTATION, Composition
from eno.packing import Append
from eno.wording import counted
from runtime.messages import RecoverMessage
from runtime.metrics import DECISIONS, HELD, MASS_BURIALS, TOMBSTONES
from workers.attempts import persistently
from workers.context import Context
from workers.events import EventType, announce
from workers.freshness import Live, read_named, recovery_stop
from workers.outcome import Kind, Outcome
from workers.publishing import publish, request_resynthesis
from workers.recovery import Prepared, prepare
from workers.slices import append, create_overflow

log = logging.getLogger(__name__)

ACKNOWLEDGE_PAUSE = timedelta(seconds=60)
"""How long a mass burial waits before it looks for its acknowledgement again."""


def recover(message: RecoverMessage, context: Context) -> Outcome:
    """Run one recovery to its end.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: RecoverMessage, context: Context) -> Outcome:
    live = read_named(context.upstream, message)
    if isinstance(live, Outcome):
        return live
    outside = context.settings.scope.outside_recovery(live.composition)
    if outside is None and resynthesis_owed(live.composition):
        return _resynthesize(message, context)
    stop = recovery_stop(live, context.settings.scope)
    if stop is not None:
        return stop
    prepared = prepare(live, context)
    if isinstance(prepared, Outcome):
        return prepared
    if prepared.cause is not None:
        _report(live, prepared.decision, context)
        raise prepared.cause
    return _hold_mass_burial(prepared, context) or _carry_out(prepared, message, context)


def _carry_out(prepared: Prepared, message: RecoverMessage, context: Context) -> Outcome:
    """Write the plan, then publish. Any failure is reported on the composition before it is raised."""
    live = prepared.live
    overflow: list[str] = []
    try:
        for step in prepared.plan.steps:
            fresh = _fresh(message, context)
            if isinstance(fresh, Outcome):
                return fresh
            live = fresh
            if isinstance(step, Append):
                append(context.upstream, step)
                context.meter.record(TOMBSTONES, len(step.tombstones))
            else:
                name, written = create_overflow(context.upstream, live.composition, step)
                overflow.append(name)
                context.meter.record(TOMBSTONES, len(step) if written else 0)
        published = publish(context.upstream, live, prepared.decision, overflow)
    except (StartOver, MissingCapability):
        raise
    except SextonError as error:
        _report(live, Decision(Reason.UPDATE_ERROR, error.summary), context)
        raise
    _tell(published, prepared, context)
    if prepared.decision.message.endswith(RESYNTHESIS_OWED):
        return _resynthesize(message, context)
    return Outcome(Kind.DONE, prepared.decision.reason)


def _fresh(message: RecoverMessage, context: Context) -> Live | Outcome:
    """The composition as it is now, if everything that called for this recovery still holds."""
    live = read_named(context.upstream, message)
    if isinstance(live, Outcome):
        return live
    stop = recovery_stop(live, context.settings.scope)
    return Outcome(Kind.SUPERSEDED, stop.reason) if stop else live


def _report(live: Live, decision: Decision, context: Context) -> None:
    """Publish a retriable decision. A failing report never hides the cause, which the caller raises."""
    try:
        published = publish(context.upstream, live, decision)
    except SextonError as error:
        log.warning("not reported: %s", error, extra={"action": "report", **_fields(live.composition)})
        return
    if published is not live:
        context.meter.record(DECISIONS, 1, decision.reason)
        _announce(published, EventType.WARNING, decision.reason, decision.message, context)


def _tell(published: Live, prepared: Prepared, context: Context) -> None:
    decision = prepared.decision
    context.meter.record(DECISIONS, 1, decision.reason)
    context.meter.record(HELD, len(prepared.debt.held))
    buried = f"{counted(len(prepared.debt.buried), 'tombstone')} written. " if prepared.debt.buried else ""
    _announce(published, EventType.NORMAL, decision.reason, f"{buried}{decision.message}".strip(), context)
    if prepared.warning:
        _announce(published, EventType.WARNING, f"{decision.reason}Warning", prepared.warning, context)


def _hold_mass_burial(prepared: Prepared, context: Context) -> Outcome | None:
    """Tell people before much is buried; wait for their word where the settings ask for it."""
    if not prepared.mass_burial:
        return None
    composition = prepared.live.composition
    uuid = composition.current.uuid if composition.current else ""
    waits = context.settings.acknowledge_mass_burial and composition.annotations.get(ACKNOWLEDGE_ANNOTATION) != uuid
    text = f"{len(prepared.debt.buried)} of {prepared.inventory_size} recorded resources are to be buried."
    if waits:
        text += f" Annotate the composition with {ACKNOWLEDGE_ANNOTATION}={uuid} to let it go on."
    if _announce(prepared.live, EventType.WARNING, "MassBurial", text, context):
        context.meter.record(MASS_BURIALS)
    log.warning(text, extra={"action": "mass-burial", **_fields(composition)})
    if not waits:
        return None
    return Outcome(Kind.WAITING, "mass burial is not acknowledged", context.clock() + ACKNOWLEDGE_PAUSE)


def _resynthesize(message: RecoverMessage, context: Context) -> Outcome:
    """Ask for the resynthesis that the published decision announces, unless somebody has, or nobody may."""
    live = read_named(context.upstream, message)
    if isinstance(live, Outcome) or not resynthesis_owed(live.composition):
        return Outcome(Kind.DONE, "decided; no resynthesis to request")
    request_resynthesis(context.upstream, live)
    return Outcome(Kind.DONE, "resynthesis requested")


def _fields(composition: Composition) -> dict[str, str]:
    synthesis = composition.current.uuid if composition.current else ""
    return {"composition": composition.title, "uid": composition.uid, "synthesis": synthesis}


def _announce(live: Live, kind: EventType, reason: str, text: str, context: Context) -> bool:
    return announce(context.upstream, live.composition, kind, reason, text, context.clock())
