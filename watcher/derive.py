"""Which tasks a state calls for, and when to look again: pure, the same answer for the same state.

Events, timers, restarts and changes of leader all end here, so nothing depends on which of them came, how often
or in what order (P6). One small rule per task; every rule sees the same subject and knows nothing of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from eno.scope import Scope
from runtime.messages import Message, TaskName, parse
from watcher.records import CompositionRecord, Subject


@dataclass(frozen=True, slots=True)
class Derived:
    """`look_again` is the earliest instant at which time alone changes the answer; None: never."""

    tasks: tuple[Message, ...] = ()
    look_again: datetime | None = None


Rule: TypeAlias = Callable[[Subject, datetime, Scope], Derived]

NOTHING = Derived()


def recover(subject: Subject, _now: datetime, scope: Scope) -> Derived:
    """In the recovery scope, and the decision or the resynthesis that it announced is still owed."""
    composition = subject.composition
    if composition is None or not composition.in_recovery_scope or not composition.recovery_due:
        return NOTHING
    return Derived((_about(composition, TaskName.RECOVER, scope),))


RULES: tuple[Rule, ...] = (recover,)
"""Every rule there is. Their order is the order in which tasks are enqueued."""


def derive(subject: Subject, now: datetime, scope: Scope) -> Derived:
    """What all rules together say.

    Raises InvalidMessage when the object carries a UUID that no message can carry.
    """
    answers = [rule(subject, now, scope) for rule in RULES]
    instants = [answer.look_again for answer in answers if answer.look_again is not None]
    return Derived(
        tasks=tuple(task for answer in answers for task in answer.tasks),
        look_again=min(instants, default=None),
    )


def _about(composition: CompositionRecord, task: TaskName, scope: Scope) -> Message:
    """A message about the composition and its current synthesis."""
    return parse(
        task,
        {
            "namespace": composition.key.namespace,
            "name": composition.key.name,
            "uid": composition.uid,
            "synthesis_uuid": composition.current.uuid if composition.current else "",
            "scope": scope,
        },
    )
