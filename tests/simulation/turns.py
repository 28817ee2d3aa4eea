"""One worker at a time, one step at a time: how two handlers are run side by side in every order of their calls.

A handler is a function of the replies it gets. To take its next step it is run from its start, given the replies
it had so far, lets one more call through, and is suspended at the call after that. What the other one cannot
change is read at once: such a read is the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from eno.errors import SextonError
from kube.resources import COMPOSITIONS, EVENTS, RESOURCE_SLICES, SECRETS, Resource
from runtime.messages import Message, TaskName
from tests.simulation.state import State
from tests.simulation.wire import Call, Side, answered, failed
from workers.context import Uncounted
from workers.outcome import Outcome

if TYPE_CHECKING:
    from tests.simulation.machine import Machine

WRITES: dict[TaskName, frozenset[Resource]] = {
    TaskName.RECOVER: frozenset({COMPOSITIONS, RESOURCE_SLICES}),
    TaskName.GATE: frozenset({COMPOSITIONS, SECRETS}),
    TaskName.RECORD: frozenset({SECRETS}),
    TaskName.CLEANUP: frozenset({RESOURCE_SLICES}),
    TaskName.RETIRE: frozenset({SECRETS}),
}
"""What each task may write."""


class Suspended(BaseException):
    """Unwinds a handler that has used up its step. Nothing may catch it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call was answered with, as text: whoever changes an object must not change what is replayed."""

    kind: type[object]
    text: bytes
    error: SextonError | None = None

    def given(self) -> Any:
        """The answer, once more."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return msgspec.json.decode(self.text, type=self.kind)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a worker has come with a message. `end` is set when it is through."""

    message: Message
    start: State
    replies: tuple[Reply, ...] = ()
    digest: bytes = b""
    end: Outcome | SextonError | None = None


@dataclass
class Turn:
    """Replays the past, then lets calls through until the first that is a step of its own after a step was taken."""

    past: tuple[Reply, ...]
    digest: bytes
    contested: Collection[Resource]
    fresh: list[Reply] = field(default_factory=list)
    position: int = 0
    stepped: bool = False

    def call(self, machine: Machine, side: Side, call: Call, request: Callable[[], Any]) -> Any:
        """What becomes of the next call of the worker whose turn it is."""
        if self.position < len(self.past):
            reply = self.past[self.position]
            self.position += 1
            return self._replayed(machine, call, reply)
        if call.resource is not EVENTS and (call.writes or call.resource in self.contested):
            if self.stepped:
                raise Suspended
            self.stepped = True
        try:
            given = machine.judged(side, call, request)
            reply = Reply(type(given), msgspec.json.encode(given))
        except SextonError as error:
            reply = Reply(type(error), repr((type(error), error.args)).encode(), error)
        self.fresh.append(reply)
        self.digest = sha256(self.digest + reply.text).digest()
        self.position += 1
        return reply.given()

    @staticmethod
    def _replayed(machine: Machine, call: Call, reply: Reply) -> Any:
        if reply.error is not None:
            machine.attempt.append(failed(call, reply.error))
            return reply.given()
        given = reply.given()
        machine.attempt.append(answered(call, given))
        return given


def step(machine: Machine, mine: Progress, other: Progress) -> Progress:
    """The progress of a worker after one more step, taken on `machine`."""
    contested = WRITES[other.message.task] if other.end is None else frozenset()
    turn = Turn(mine.replies, mine.digest, contested)
    machine.turn, machine.attempt, machine.message, machine.start = turn, [], mine.message, mine.start
    machine.broken_list = ""
    context, machine.context = machine.context, replace(machine.context, corrections=Uncounted())
    end: Outcome | SextonError | None = None
    try:
        end = machine.handle(mine.message)
    except Suspended:
        """It waits for its next turn."""
    finally:
        machine.turn = machine.message = None
        machine.context = context
    return Progress(mine.message, mine.start, mine.replies + tuple(turn.fresh), turn.digest, end)
