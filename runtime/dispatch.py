"""The way into the queues: at most one pending message per key, none before its time.

Everything kept here is a hint with a TTL. Losing it (a flush, a restart, an eviction) makes a key be enqueued
once more than needed; keeping it too long delays a key by no more than its TTL. Nothing else depends on it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self, TypeAlias

import redis

from eno.errors import BrokerUnavailable
from eno.times import parse_time
from runtime.broker import Keys, connect, translated
from runtime.messages import Message, TaskName
from runtime.sender import CelerySender, Sender
from runtime.settings import Settings

_AGAIN_MARGIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The message is in its queue."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A message for the key waits already, and will see whatever this one would have seen."""


@dataclass(frozen=True, slots=True)
class Running:
    """The key is being executed. Whoever executes it enqueues it once more when that is over."""


@dataclass(frozen=True, slots=True)
class NotBefore:
    """The key failed or waits. Ask again at `at`, or when `Dispatcher.unpark` ended a wait."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Parked:
    """The key is parked. Ask again at `until`, or after `Dispatcher.unpark` when its object changed."""

    until: datetime


class HeldBack(StrEnum):
    """Why a key is not to be enqueued before its time: the value of the `not-before` record."""

    FAILED = "failed"
    WAITING = "waiting"
    PARKED = "parked"


Dispatched: TypeAlias = Enqueued | Pending | Running | NotBefore | Parked


@dataclass(frozen=True, slots=True)
class ParkedKey:
    """A parked key for people: why, since when, looked at again when (None: at the next chance).

    `context` holds the log fields of its message: task, composition, uid, synthesis.
    """

    key: str
    reason: str
    message: str
    since: datetime
    until: datetime | None
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeyState:
    """What is known about one key. `attempts` are starts since the last end, `failures` those in a row."""

    pending: bool
    running: bool
    not_before: datetime | None
    parked: bool
    attempts: int
    failures: int


class Dispatcher:
    """Enqueues messages and tells what became of their keys. Safe to share between threads.

    `clock` returns an aware instant. Every method that talks to Redis raises BrokerUnavailable.
    """

    def __init__(
        self,
        settings: Settings,
        client: redis.Redis,
        sender: Sender,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._sender = sender
        self._clock = clock
        self._keys = Keys(settings.instance)
        self._host = settings.broker_host
        self._instance = settings.instance
        self._pending = timedelta(seconds=settings.pending_timeout)
        self._again = again_lifetime(settings)

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """With connections of its own, made at the first use."""
        return cls(settings, connect(settings), CelerySender(settings))

    def close(self) -> None:
        """Drop the connections."""
        self._sender.close()
        self._client.close()

    def enqueue(self, message: Message) -> Dispatched:
        """Send the message unless its key is pending, runs, waits or is parked."""
        return self.enqueue_all([message])[0]

    def enqueue_all(self, messages: Sequence[Message]) -> list[Dispatched]:
        """What `enqueue` does, for each message, in a few round trips for all of them.

        After an error none counts as pending, although any of them may have been sent.
        """
        with translated(self._host):
            closed = self._closed([message.key for message in messages])
            open_ = [index for index, answer in enumerate(closed) if answer is None]
            marked = self._mark({index: messages[index].key for index in open_})
        if marked:
            self._send([messages[index] for index in marked], list(marked.values()))
        return [answer or (Enqueued() if index in marked else Pending()) for index, answer in enumerate(closed)]

    def unpark(self, key: str) -> bool:
        """Let a key that is parked or waits be enqueued again, as its object changed. False when it did neither.

        The pause after a retryable failure stays: reporting the failure is what changed the object.
        """
        with translated(self._host):
            with self._client.pipeline(transaction=False) as pipe:
                pipe.exists(self._keys.parked(key))
                pipe.get(self._keys.not_before(key))
                parked, held_back = pipe.execute()
            if not parked and held_back != HeldBack.WAITING:
                return False
            self._forget(key)
            return True

    def forget(self, key: str) -> None:
        """Drop every reason not to enqueue the key, for a person who asks for it now."""
        with translated(self._host):
            self._forget(key)
            self._client.delete(self._keys.pending(key))

    def parked(self) -> list[ParkedKey]:
        """Every parked key, those parked first first."""
        with translated(self._host):
            now = self._clock()
            self._client.zremrangebyscore(self._keys.parked_index, "-inf", now.timestamp())
            keys = [str(key) for key in self._client.zrange(self._keys.parked_index, 0, -1)]
            with self._client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.get(self._keys.parked(key))
                    pipe.pttl(self._keys.not_before(key))
                answers = pipe.execute()
        found = [
            _parked_key(key, body, _after(now, wait))
            for key, body, wait in zip(keys, answers[::2], answers[1::2], strict=True)
            if body is not None
        ]
        return sorted(found, key=lambda parked: parked.since)

    def describe(self, key: str) -> KeyState:
        """What is known about the key."""
        return self.describe_all([key])[0]

    def describe_all(self, keys: Sequence[str]) -> list[KeyState]:
        """What is known about each key, in one round trip for all of them."""
        names = self._keys
        with translated(self._host), self._client.pipeline(transaction=False) as pipe:
            now = self._clock()
            for key in keys:
                pipe.exists(names.pending(key))
                pipe.exists(names.lock(key))
                pipe.exists(names.parked(key))
                pipe.pttl(names.not_before(key))
                pipe.get(names.attempts(key))
                pipe.get(names.failures(key))
            answers = iter(pipe.execute())
        return [_key_state(now, *each) for each in zip(*[answers] * 6, strict=True)]

    def lengths(self) -> dict[TaskName, int]:
        """Messages waiting in each queue, without those that workers hold."""
        with translated(self._host), self._client.pipeline(transaction=False) as pipe:
            for task in TaskName:
                pipe.llen(task.queue(self._instance))
            return dict(zip(TaskName, map(int, pipe.execute()), strict=True))

    def _closed(self, keys: Sequence[str]) -> list[NotBefore | Parked | Running | None]:
        """Why each key is not to be enqueued now, or None."""
        with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.pttl(self._keys.not_before(key))
                pipe.exists(self._keys.parked(key))
                pipe.exists(self._keys.lock(key))
            answers = pipe.execute()
        now = self._clock()
        closed: list[NotBefore | Parked | Running | None] = []
        for wait, parked, running in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
            at = _after(now, wait)
            held_back = None if at is None else Parked(at) if parked else NotBefore(at)
            closed.append(held_back or (Running() if running else None))
        return self._asked_again(keys, closed)

    def _asked_again(
        self, keys: Sequence[str], closed: list[NotBefore | Parked | Running | None]
    ) -> list[NotBefore | Parked | Running | None]:
        """The same, once whoever executes a key knows that it is to be executed again."""
        running = [index for index, answer in enumerate(closed) if isinstance(answer, Running)]
        with self._client.pipeline(transaction=False) as pipe:
            for index in running:
                pipe.set(self._keys.again(keys[index]), "1", px=self._again)
                # Only now: an execution that ended before the flag was set has not seen it.
                pipe.exists(self._keys.lock(keys[index]))
            still_running = pipe.execute()[1::2]
        for index, still in zip(running, still_running, strict=True):
            closed[index] = Running() if still else None
        return closed

    def _mark(self, keys: Mapping[int, str]) -> dict[int, tuple[str, str]]:
        """Mark the keys as pending that are not. Returns name and value of each marker that was set."""
        markers = {index: (self._keys.pending(key), uuid.uuid4().hex) for index, key in keys.items()}
        with self._client.pipeline(transaction=False) as pipe:
            for marker, token in markers.values():
                pipe.set(marker, token, nx=True, px=self._pending)
                # Read back, because a retried SET NX whose first answer got lost finds its own marker.
                pipe.get(marker)
            holders = pipe.execute()[1::2]
        held = zip(markers.items(), holders, strict=True)
        return {index: marker for (index, marker), holder in held if holder == marker[1]}

    def _send(self, messages: Sequence[Message], markers: Sequence[tuple[str, str]]) -> None:
        try:
            self._sender.send(messages)
        except BaseException:
            with suppress(BrokerUnavailable), translated(self._host):
                for marker, token in markers:
                    delete_if_equal(self._client, marker, token)
            raise

    def _forget(self, key: str) -> None:
        keys = self._keys
        with self._client.pipeline() as pipe:
            pipe.delete(keys.parked(key), keys.not_before(key), keys.attempts(key), keys.failures(key))
            pipe.zrem(keys.parked_index, key)
            pipe.execute()


def delete_if_equal(client: redis.Redis, name: str, value: str) -> bool:
    """Delete a key that still holds the value: what was set anew by somebody else stays."""

    def compare(pipe: redis.client.Pipeline) -> None:
        held = pipe.get(name)
        pipe.multi()
        if held == value:
            pipe.delete(name)

    return bool(client.transaction(compare, name))


def again_lifetime(settings: Settings) -> timedelta:
    """How long the wish for one more execution is kept: longer than any execution takes."""
    return timedelta(seconds=settings.task_time_limit) + _AGAIN_MARGIN


def _after(now: datetime, milliseconds: int) -> datetime | None:
    """The instant at which a key with this PTTL expires; negative means that there is none."""
    return now + timedelta(milliseconds=milliseconds) if milliseconds > 0 else None


def _key_state(
    now: datetime, pending: int, running: int, parked: int, wait: int, attempts: str | None, failures: str | None
) -> KeyState:
    return KeyState(
        pending=bool(pending),
        running=bool(running),
        not_before=_after(now, wait),
        parked=bool(parked),
        attempts=int(attempts or 0),
        failures=int(failures or 0),
    )


def _parked_key(key: str, body: str, until: datetime | None) -> ParkedKey:
    record = json.loads(body)
    return ParkedKey(
        key=key,
        reason=record["reason"],
        message=record["message"],
        since=parse_time(record["since"]),
        until=until,
        context=record["context"],
    )
