"""Which tasks a state calls for, and when to look again: pure, the same answer for the same state.

Events, timers, restarts and changes of leader all end here, so nothing depends on which of them came, how often
or in what order (P6). One small rule per task; every rule sees the same subject and knows nothing of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from eno.retention import OVERFLOW_PAUSE
from eno.scope import Scope
from runtime.messages import InvalidMessage, Message, TaskName, parse
from watcher.inventories import is_recorded, retirement
from watcher.keys import Key, lineage_key
from watcher.records import CompositionRecord, SliceRecord, Subject
from watcher.slices import hole_counts_at, let_go_at

SLICES_PER_MESSAGE = 200
"""Slices that one cleanup is asked to look at. At two slice writes a second it ends well within its time limit."""


@dataclass(frozen=True, slots=True)
class Derived:
    """`look_again` is the earliest instant at which time alone changes the answer; None: never.

    `findings` are for people: what is left alone although it looks wrong.
    """

    tasks: tuple[Message, ...] = ()
    look_again: datetime | None = None
    findings: tuple[str, ...] = ()


Rule: TypeAlias = Callable[[Subject, datetime, Scope], Derived]

NOTHING = Derived()


def recover(subject: Subject, _now: datetime, scope: Scope) -> Derived:
    """In the recovery scope, and the decision or the resynthesis that it announced is still owed."""
    composition = subject.composition
    if composition is None or not composition.in_recovery_scope or not composition.recovery_due:
        return NOTHING
    return Derived((_about(composition, TaskName.RECOVER, scope),))


def gate(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """Its readiness is held, which also waits for the decision of a skipped recovery, or aggregated and unsettled."""
    composition = subject.composition
    if composition is None or not composition.in_watch_scope:
        return NOTHING
    if not (_is_held(composition) or _is_unsettled(subject, composition, scope)):
        return NOTHING
    at = hole_counts_at(subject)
    return Derived((_about(composition, TaskName.GATE, scope),), at if at is not None and now < at else None)


def record(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """Ready and decided, and its snapshot is not complete, or something is left that it replaces."""
    composition = subject.composition
    if composition is None or not composition.in_recovery_scope or not composition.history.to_record:
        return NOTHING
    if subject.inventories is None:
        return NOTHING
    return NOTHING if is_recorded(subject, now) else Derived((_about(composition, TaskName.RECORD, scope),))


def cleanup(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """Terminating slices, and those that are old enough and that nothing is seen to need; one task per owner UID."""
    composition = subject.composition
    if composition is not None and not composition.in_watch_scope:
        return NOTHING
    owned = [each for each in subject.slices if composition is None or each.owner_name == composition.key.name]
    timed = [(each, at) for each in owned if (at := let_go_at(each, composition, scope)) is not None]
    due = sorted((each for each, at in timed if at <= now), key=lambda each: (each.owner_uid, not each.deleting))
    instants = [at for _, at in timed if now < at]
    # Only a look at its spec tells overflow that a recovery is about to publish.
    instants += [now + OVERFLOW_PAUSE for each in due if each.overflow and not each.deleting]
    findings = [f"no composition controls {each.key}" for each in owned if not each.owner_uid and not each.deleting]
    tasks = []
    for _, group in groupby(due, attrgetter("owner_uid")):
        try:
            tasks.append(_about_slices(list(group), composition, scope))
        except InvalidMessage as error:
            findings.append(str(error))
    return Derived(tuple(tasks), min(instants, default=None), tuple(findings))


def retire(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """Inventories that are to be marked, unmarked or let go, and the instant at which a grace ends."""
    lineage, namespace = subject.lineage, scope.recovery_namespace
    if lineage is None or not scope.recovers_in(namespace):
        return NOTHING
    plans = retirement(lineage, now, scope)
    waits = [plan.until for plan in plans if plan.until is not None]
    if not any(plan.mark or plan.unmark or plan.delete for plan in plans):
        return Derived(look_again=min(waits, default=None))
    payload = {"namespace": namespace, "lineage": lineage.id, "scope": scope}
    message = _message(TaskName.RETIRE, payload, lineage_key(lineage.id))
    return Derived((message,), min(waits, default=None))


RULES: tuple[Rule, ...] = (recover, gate, record, cleanup, retire)
"""Every rule there is. Their order is the order in which tasks are enqueued."""


def derive(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """What all rules together say. What no message can carry becomes a finding, and keeps nothing else back."""
    answers = [_answer(rule, subject, now, scope) for rule in RULES]
    instants = [answer.look_again for answer in answers if answer.look_again is not None]
    return Derived(
        tasks=tuple(task for answer in answers for task in answer.tasks),
        look_again=min(instants, default=None),
        findings=tuple(finding for answer in answers for finding in answer.findings),
    )


def _answer(rule: Rule, subject: Subject, now: datetime, scope: Scope) -> Derived:
    try:
        return rule(subject, now, scope)
    except InvalidMessage as error:
        return Derived(findings=(str(error),))


def _about(composition: CompositionRecord, task: TaskName, scope: Scope) -> Message:
    """A message about the composition and its current synthesis."""
    payload = {
        "namespace": composition.key.namespace,
        "name": composition.key.name,
        "uid": composition.uid,
        "synthesis_uuid": composition.current.uuid if composition.current else "",
        "scope": scope,
    }
    return _message(task, payload, composition.key)


def _about_slices(due: Sequence[SliceRecord], composition: CompositionRecord | None, scope: Scope) -> Message:
    """A message about slices of one owner, and the current synthesis of the composition of the owner's name."""
    current = composition.current if composition else None
    payload = {
        "namespace": due[0].key.namespace,
        "name": due[0].owner_name,
        "uid": due[0].owner_uid,
        "synthesis_uuid": current.uuid if current else "",
        "slices": [each.key.name for each in due[:SLICES_PER_MESSAGE]],
        "scope": scope,
    }
    return _message(TaskName.CLEANUP, payload, due[0].key)


def _message(task: TaskName, payload: Mapping[str, Any], about: Key) -> Message:
    """Raises InvalidMessage, which says what the message would have been about."""
    try:
        return parse(task, payload)
    except InvalidMessage as error:
        raise InvalidMessage(error.what, where=f"{error.where} about {about}") from error


def _is_held(composition: CompositionRecord) -> bool:
    """Opted in and undecided, with something that may not be ready, or that somebody else has called ready."""
    current = composition.current
    if current is None or current.decided or not composition.opted_in or composition.deleting:
        return False
    return current.synthesized is not None or current.ready or current.reconciled


def _is_unsettled(subject: Subject, composition: CompositionRecord, scope: Scope) -> bool:
    """Aggregated here, and not ready and reconciled, or deleting, or something about its slices changed.

    Metadata cannot show readiness, so what is settled is not looked at again only because it is listed.
    """
    current = composition.current
    if current is None or current.synthesized is None or not scope.aggregates(opted_in=composition.opted_in):
        return False
    settled = current.ready and current.reconciled and not composition.deleting
    return not settled or subject.slices_changed or hole_counts_at(subject) is not None
