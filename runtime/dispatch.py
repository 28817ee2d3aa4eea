"""The way into the queues: at most one pending message per key, none before its time.

Everything kept here is a hint with a TTL. Losing it (a flush, a restart, an eviction) makes a key be enqueued
once more than needed; keeping it too long delays a key by no more than its TTL. Nothing else depends on it.
"""

# mypy: untyped-calls-exclude="kombu"

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, Self, TypeAlias

import redis
from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError

from eno.errors import BrokerUnavailable
from eno.times import parse_time
from runtime.broker import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    HEALTH_CHECK_SECONDS,
    Keys,
    connect,
    translated,
    unavailable,
)
from runtime.messages import Message, TaskName
from runtime.settings import Settings

_PUBLISH_RETRIES = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The message is in its queue."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A message for the key waits already, and will see whatever this one would have seen."""


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


Dispatched: TypeAlias = Enqueued | Pending | NotBefore | Parked


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


class Sender(Protocol):
    """Puts messages into queues. Raises BrokerUnavailable."""

    def send(self, message: Message) -> None:
        """Put the message into the queue of its task."""
        ...

    def close(self) -> None:
        """Drop the connections."""
        ...


class CelerySender:
    """Sends through Celery by task name, without importing any task."""

    def __init__(self, settings: Settings) -> None:
        self._host = settings.broker_host
        self._app = Celery("sexton-producer", set_as_current=False, config_source=celery_configuration(settings))

    def send(self, message: Message) -> None:
        """Put the message into the queue of its task. Raises BrokerUnavailable within a few seconds."""
        try:
            self._app.send_task(str(message.task), kwargs=message.payload(), retry=True, retry_policy=_PUBLISH_RETRIES)
        except (OperationalError, redis.RedisError, OSError) as error:
            raise unavailable(self._host, error) from error

    def close(self) -> None:
        """Drop the connections."""
        self._app.close()


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
        self._pending_milliseconds = int(settings.pending_timeout * 1000)

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """With connections of its own, made at the first use."""
        return cls(settings, connect(settings), CelerySender(settings))

    def close(self) -> None:
        """Drop the connections."""
        self._sender.close()
        self._client.close()

    def enqueue(self, message: Message) -> Dispatched:
        """Send the message unless its key is pending, waits or is parked."""
        key, token = message.key, uuid.uuid4().hex
        with translated(self._host):
            if closed := self._closed(key):
                return closed
            marker = self._keys.pending(key)
            # Read back, because a retried SET NX whose first answer got lost finds its own marker.
            with self._client.pipeline() as pipe:
                pipe.set(marker, token, nx=True, px=self._pending_milliseconds)
                pipe.get(marker)
                _, holder = pipe.execute()
        if holder != token:
            return Pending()
        try:
            self._sender.send(message)
        except BaseException:
            with suppress(BrokerUnavailable), translated(self._host):
                delete_if_equal(self._client, marker, token)
            raise
        return Enqueued()

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
        keys = self._keys
        with translated(self._host), self._client.pipeline(transaction=False) as pipe:
            now = self._clock()
            for name in (keys.pending(key), keys.lock(key), keys.parked(key)):
                pipe.exists(name)
            pipe.pttl(keys.not_before(key))
            pipe.get(keys.attempts(key))
            pipe.get(keys.failures(key))
            pending, running, parked, wait, attempts, failures = pipe.execute()
        return KeyState(
            pending=bool(pending),
            running=bool(running),
            not_before=_after(now, wait),
            parked=bool(parked),
            attempts=int(attempts or 0),
            failures=int(failures or 0),
        )

    def lengths(self) -> dict[TaskName, int]:
        """Messages waiting in each queue, without those that workers hold."""
        with translated(self._host), self._client.pipeline(transaction=False) as pipe:
            for task in TaskName:
                pipe.llen(task.queue(self._instance))
            return dict(zip(TaskName, map(int, pipe.execute()), strict=True))

    def _closed(self, key: str) -> NotBefore | Parked | None:
        with self._client.pipeline(transaction=False) as pipe:
            pipe.pttl(self._keys.not_before(key))
            pipe.exists(self._keys.parked(key))
            wait, parked = pipe.execute()
        at = _after(self._clock(), wait)
        if at is None:
            return None
        return Parked(at) if parked else NotBefore(at)

    def _forget(self, key: str) -> None:
        keys = self._keys
        with self._client.pipeline() as pipe:
            pipe.delete(keys.parked(key), keys.not_before(key), keys.attempts(key), keys.failures(key))
            pipe.zrem(keys.parked_index, key)
            pipe.execute()


def celery_configuration(settings: Settings) -> dict[str, Any]:
    """What a producer and a worker must agree on, in Celery's own names.

    Everything that Celery keeps in Redis carries the instance: several instances in one database would restore
    each other's unacknowledged messages, and one Flower would show the tasks of all.
    """
    instance = settings.instance
    queues = {task: task.queue(instance) for task in TaskName}
    return {
        "broker_url": settings.broker_url,
        "broker_connection_timeout": CONNECT_SECONDS,
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout,
            "unacked_key": f"{instance}.unacked",
            "unacked_index_key": f"{instance}.unacked-index",
            "unacked_mutex_key": f"{instance}.unacked-mutex",
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": HEALTH_CHECK_SECONDS,
            "client_name": f"{instance}-celery",
        },
        "control_exchange": f"{instance}.control",
        "event_exchange": f"{instance}.events",
        "task_queues": [Queue(queue, Exchange(queue), routing_key=queue) for queue in queues.values()],
        "task_routes": {str(task): {"queue": queue} for task, queue in queues.items()},
        "task_default_queue": queues[TaskName.GATE],
        "task_create_missing_queues": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_send_sent_event": True,
        "enable_utc": True,
    }


def delete_if_equal(client: redis.Redis, name: str, value: str) -> bool:
    """Delete a key that still holds the value: what was set anew by somebody else stays."""

    def compare(pipe: redis.client.Pipeline) -> None:
        held = pipe.get(name)
        pipe.multi()
        if held == value:
            pipe.delete(name)

    return bool(client.transaction(compare, name))


def _after(now: datetime, milliseconds: int) -> datetime | None:
    """The instant at which a key with this PTTL expires; negative means that there is none."""
    return now + timedelta(milliseconds=milliseconds) if milliseconds > 0 else None


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
