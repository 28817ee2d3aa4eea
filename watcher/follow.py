"""From streams to tasks: what changed is looked at, and what a look finds due is enqueued.

Nothing is remembered about a task after it was enqueued. An object that still calls for it is looked at again,
at the latest after one resync, which is how anything that Redis or a worker lost comes back. An object that
calls for nothing is not looked at until it changes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

from eno.errors import BrokerUnavailable
from eno.scope import Scope
from kube.cluster import Json
from kube.reflector import Stop
from runtime.dispatch import Dispatched, Enqueued, NotBefore, Parked, Running
from runtime.messages import Message, TaskName
from watcher.agenda import Agenda, Look
from watcher.cache import Cache
from watcher.derive import Derived, derive
from watcher.keys import Key, Kind
from watcher.records import Record, Unreadable, read

TICK_SECONDS = 0.5
"""How often an idle loop wakes up: how late a timer or a request to stop may be noticed."""

BATCH = 100
"""Looks that ask Redis together: a larger batch saves no more round trips worth counting."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
"""Pauses while Redis is away double up to here: short enough that its return is noticed at once."""

_log = logging.getLogger(__name__)


class Queue(Protocol):
    """The part of `runtime.dispatch.Dispatcher` that a watcher uses. Raises BrokerUnavailable."""

    def enqueue_all(self, messages: Sequence[Message]) -> list[Dispatched]:
        """Send each message unless its key is pending, runs, waits or is parked, and tell which."""
        ...

    def unpark(self, key: str) -> bool:
        """Let a key that is parked or waits be enqueued again. False when it did neither."""
        ...


class Leadership(Protocol):
    """The part of `kube.lease.Candidate` that a watcher uses."""

    def require(self) -> None:
        """Raises SextonError unless this process leads at this very moment."""
        ...


@dataclass
class Tally:
    """What a follower has done, for metrics: messages enqueued, looks, and steps that Redis failed."""

    enqueued: Counter[TaskName] = field(default_factory=Counter)
    looks: int = 0
    broker_errors: int = 0


class CacheSink:
    """Takes what the reflector of one kind sees over into the cache, and puts it on the agenda."""

    def __init__(self, kind: Kind, scope: Scope, cache: Cache, agenda: Agenda) -> None:
        self._kind = kind
        self._scope = scope
        self._cache = cache
        self._agenda = agenda
        self._listed = False

    def record(self, obj: Json) -> Record | Unreadable:
        """See `kube.reflector.Sink`."""
        return read(self._kind, obj, self._scope)

    def replace(self, records: list[Record | Unreadable], _version: str) -> None:
        """See `kube.reflector.Sink`. What the first list shows is no change: it may have stood there for years."""
        self._look(self._cache.replace(self._kind, records), changed=self._listed)
        self._listed = True

    def changed(self, obj: Json) -> None:
        """See `kube.reflector.Sink`."""
        self._look(self._cache.change(self.record(obj)), changed=True)

    def deleted(self, obj: Json) -> None:
        """See `kube.reflector.Sink`."""
        self._look(self._cache.remove(self.record(obj)), changed=True)

    def bookmark(self, version: str) -> None:
        """See `kube.reflector.Sink`. The reflector itself keeps the version."""

    def _look(self, keys: set[Key], *, changed: bool) -> None:
        self._agenda.look(keys, changed=changed, slices_changed=changed and self._kind is Kind.SLICE)


class Follower:
    """Takes looks off the agenda, up to BATCH at a time. `clock` returns an aware instant, `resync` is a duration."""

    def __init__(
        self,
        scope: Scope,
        cache: Cache,
        agenda: Agenda,
        queue: Queue,
        leadership: Leadership,
        *,
        clock: Callable[[], datetime],
        resync: timedelta,
    ) -> None:
        self._scope = scope
        self._cache = cache
        self._agenda = agenda
        self._queue = queue
        self._leadership = leadership
        self._clock = clock
        self._resync = resync
        self._failures = 0
        self.tally = Tally()

    def take_over(self) -> None:
        """Put everything that is known on the agenda: nobody knows what the leader before had come to."""
        self._agenda.look(self._cache.everything(), changed=False)

    def run(self, stop: Stop, beat: Callable[[], None]) -> None:
        """Look at whatever is due until `stop` is set, calling `beat` before each step and at each tick."""
        while not stop.is_set():
            beat()
            pause = self.step()
            if pause is None:
                self._agenda.wait(TICK_SECONDS)
            elif pause > 0:
                stop.wait(pause)

    def step(self) -> float | None:
        """Look at the next keys. Returns the seconds to pause before the next step, None when no key is due.

        Raises SextonError when something is to be enqueued and this process does not lead.
        """
        looks = list(islice(iter(lambda: self._agenda.take(self._clock()), None), BATCH))
        if not looks:
            return None
        now = self._clock()
        self.tally.looks += len(looks)
        due = []
        for look in looks:
            if (derived := self._derive(look, now)).tasks:
                due.append((look, derived))
            else:
                self._look_again(look, derived, (), now)
        try:
            self._ask(due, now)
        except BrokerUnavailable as error:
            for look, _ in due:
                self._agenda.look([look.key], changed=look.changed, slices_changed=look.slices_changed)
            return self._broker_lost(error)
        return 0.0

    def _ask(self, due: Sequence[tuple[Look, Derived]], now: datetime) -> None:
        """Enqueue what is due, and put the next look at each key on the agenda."""
        answers = iter(self._enqueue([(message, look.changed) for look, derived in due for message in derived.tasks]))
        for look, derived in due:
            self._look_again(look, derived, [(message, next(answers)) for message in derived.tasks], now)

    def _derive(self, look: Look, now: datetime) -> Derived:
        subject = replace(self._cache.subject(look.key), slices_changed=look.slices_changed)
        derived = derive(subject, now, self._scope)
        for finding in derived.findings:
            _log.warning("%s", finding, extra={"action": "object-left-alone", "object": str(look.key)})
        return derived

    def _look_again(
        self, look: Look, derived: Derived, answers: Sequence[tuple[Message, Dispatched]], now: datetime
    ) -> None:
        resync = now + self._resync
        # Whatever Redis said of a key, Redis may forget.
        instants = [min(answer.at, resync) if isinstance(answer, NotBefore) else resync for _, answer in answers]
        if derived.look_again is not None:
            instants.append(derived.look_again)
        # Of a settled composition only this look knows that the gate is due.
        held_back = any(
            message.task is TaskName.GATE and isinstance(answer, NotBefore | Parked | Running)
            for message, answer in answers
        )
        self._agenda.look_at(look.key, min(instants, default=None), slices_changed=look.slices_changed and held_back)

    def _enqueue(self, asked: Sequence[tuple[Message, bool]]) -> list[Dispatched]:
        """The answer to each message. With each comes whether its object changed, which ends a wait."""
        if not asked:
            return []
        # Here and nowhere earlier: the process may have been stopped for any time between two lines.
        self._leadership.require()
        answers = self._queue.enqueue_all([message for message, _ in asked])
        self._broker_found()
        unparked = [
            index
            for index, (message, changed) in enumerate(asked)
            if changed and isinstance(answers[index], NotBefore | Parked) and self._queue.unpark(message.key)
        ]
        if unparked:
            self._leadership.require()
            retried = self._queue.enqueue_all([asked[index][0] for index in unparked])
            for index, answer in zip(unparked, retried, strict=True):
                answers[index] = answer
        for (message, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Enqueued):
                self.tally.enqueued[message.task] += 1
                _log.info("enqueued", extra={"action": "task-enqueued", **message.log_context()})
        return answers

    def _broker_lost(self, error: BrokerUnavailable) -> float:
        if self._failures == 0:
            _log.error("%s", error, extra={"action": "broker-lost"})
        self._failures += 1
        self.tally.broker_errors += 1
        return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 16))

    def _broker_found(self) -> None:
        if self._failures:
            self._failures = 0
            _log.info("Redis answers again", extra={"action": "broker-found"})
