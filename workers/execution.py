"""One execution of one task: check the message, take its key, run its handler, leave behind how it ended.

Free of Celery, so that everything a worker decides can be tested without one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from eno.errors import BrokerUnavailable, ConfigurationMismatch, Retryable, SextonError, Terminal
from eno.scope import Scope
from eno.times import format_time
from runtime.claims import Claim, Claims, Merged, Refused
from runtime.messages import InvalidMessage, Message, TaskName, parse
from runtime.metrics import TASK_SECONDS, TASKS, Meter
from runtime.settings import Settings
from workers.context import Context
from workers.outcome import Kind, Outcome

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Any, Context], Outcome]
"""Takes the message of its own task. Raises Retryable or Terminal."""

_RECOVERY_TASKS = frozenset({TaskName.RECOVER, TaskName.RECORD, TaskName.RETIRE})


class Failure(StrEnum):
    """The ends that are errors, beside the kinds of an Outcome."""

    RETRY = "retry"
    """It may succeed later: the watcher enqueues it again at `until`."""

    PARKED = "parked"
    """It fails until a person, or the object, changes something; or it has killed its worker too often."""

    REJECTED = "rejected"
    """The message is not what its task takes."""

    KILLED = "killed"
    """The process that ran it died, or ran into the hard time limit. Only the parent process can tell."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an execution ended, as a value. `until` is the instant at which its key is looked at again."""

    outcome: Kind | Failure
    reason: str = ""
    until: datetime | None = None

    @property
    def failed(self) -> bool:
        """Whether the task shows as failed."""
        return isinstance(self.outcome, Failure)

    def to_json(self) -> dict[str, str]:
        """As Flower shows it; empty parts are left out."""
        until = format_time(self.until) if self.until else ""
        body = {"outcome": str(self.outcome), "reason": self.reason, "until": until}
        return {name: value for name, value in body.items() if value}


class Executor:
    """Executes messages in one worker process.

    `context` makes the handlers' context at its first call, and raises UsageError when it cannot. `timer` returns
    monotonic seconds.
    """

    def __init__(
        self,
        settings: Settings,
        claims: Claims,
        context: Callable[[], Context],
        meter: Meter,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scope = settings.scope
        self._claims = claims
        self._context = context
        self._meter = meter
        self._timer = timer

    def execute(self, task: TaskName, handler: Handler, payload: Mapping[str, Any], delivery: str) -> Ending:
        """Run the handler on the payload. Never raises: every end is a value, one line in the log, and counted.

        `delivery` identifies the message in its queue.
        """
        started = self._timer()
        ending = self._executed(task, handler, payload, delivery)
        self._meter.record(TASKS, 1, task.short, ending.outcome)
        self._meter.record(TASK_SECONDS, self._timer() - started, task.short)
        return ending

    def _executed(self, task: TaskName, handler: Handler, payload: Mapping[str, Any], delivery: str) -> Ending:
        try:
            message = parse(task, payload)
        except InvalidMessage as error:
            ending = Ending(Failure.REJECTED, str(error))
            extra = {"action": "message-rejected", "task": task.short, **ending.to_json()}
            log.warning("", extra=extra)
            return ending
        ending = self._claimed(handler, message, delivery)
        notable = ending.failed or ending.outcome is Kind.NOT_IN_SCOPE
        extra = {"action": "task-ended", **message.log_context(), **ending.to_json()}
        log.log(logging.WARNING if notable else logging.INFO, "", extra=extra)
        return ending

    def _claimed(self, handler: Handler, message: Message, delivery: str) -> Ending:
        try:
            begun = self._claims.begin(message, delivery)
        except BrokerUnavailable as error:
            # Nothing is recorded, so the watcher, for which the key is unfinished, enqueues it again.
            return Ending(Failure.RETRY, str(error))
        match begun:
            case Merged():
                return Ending(Kind.MERGED, "the same key is being executed")
            case Refused(until):
                return Ending(Failure.PARKED, "started too often without coming to an end", until)
            case Claim():
                ending, failure = self._handled(handler, message)
                return self._recorded(begun, ending, failure)

    def _handled(self, handler: Handler, message: Message) -> tuple[Ending, SextonError | None]:
        try:
            if message.scope is not None and message.scope != self._scope:
                raise _mismatch(message.scope, self._scope)
            if refusal := out_of_scope(message, self._scope):
                return Ending(Kind.NOT_IN_SCOPE, refusal), None
            outcome = handler(message, self._usable_context())
        except Terminal as error:
            return Ending(Failure.PARKED, str(error)), error
        except SextonError as error:
            return Ending(Failure.RETRY, str(error)), error
        except Exception as error:
            log.exception("unexpected error", extra={"action": "task-crashed", **message.log_context()})
            defect = Retryable(f"unexpected {type(error).__name__}", where=str(message.task))
            return Ending(Failure.RETRY, str(defect)), defect
        return Ending(outcome.kind, outcome.reason, outcome.until), None

    def _usable_context(self) -> Context:
        """A context that cannot be made is the worker's trouble: no key may be parked for it."""
        try:
            return self._context()
        except Terminal as error:
            raise Retryable(error.what, where=error.where, hint=error.hint, detail=error.detail) from error

    def _recorded(self, claim: Claim, ending: Ending, failure: SextonError | None) -> Ending:
        try:
            match ending.outcome, failure:
                case Failure.PARKED, SextonError():
                    return replace(ending, until=claim.park(failure))
                case Failure.RETRY, SextonError():
                    return replace(ending, until=claim.fail(getattr(failure, "retry_after", None)))
                case Kind.WAITING, None if ending.until is not None:
                    return replace(ending, until=claim.wait(ending.until))
                case _:
                    claim.done()
        except BrokerUnavailable as error:
            # What is left in Redis expires, and the watcher derives the key again where it is unfinished.
            log.warning("%s", error, extra={"action": "ending-not-recorded", **claim.message.log_context()})
        return ending


def out_of_scope(message: Message, scope: Scope) -> str | None:
    """Why the watcher of this scope could not have sent the message, or None.

    Only what the message alone can tell: labels and opt-in are checked on the live object.
    """
    if message.task in _RECOVERY_TASKS:
        if not scope.recovery_enabled:
            return "tombstone recovery is disabled"
        if message.namespace != scope.recovery_namespace:
            return f"namespace {message.namespace} is outside the recovery namespace {scope.recovery_namespace}"
    if scope.composition_namespace not in ("", message.namespace):
        return f"namespace {message.namespace} is outside {scope.composition_namespace}"
    return None


def _mismatch(theirs: Scope, ours: Scope) -> ConfigurationMismatch:
    names = [name for name in Scope.model_fields if getattr(theirs, name) != getattr(ours, name)]
    return ConfigurationMismatch(
        f"the message was made for another {' and '.join(names)}",
        where="scope",
        hint="give watcher and workers the same settings",
    )
