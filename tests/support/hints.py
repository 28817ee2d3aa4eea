"""Dispatcher and claims on a Redis in memory, with a sender that only remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import fakeredis

from eno.errors import BrokerUnavailable
from runtime.broker import Keys
from runtime.claims import Claim, Claims
from runtime.dispatch import Dispatcher
from runtime.messages import Message, RecoverMessage
from runtime.settings import Settings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BROKER = "redis://user:hunter2@broker.example:6380/3"


@dataclass
class Outbox:
    """A sender. With `broken` set it fails like one whose broker went away."""

    sent: list[Message] = field(default_factory=list)
    broken: bool = False

    def send(self, messages: Sequence[Message]) -> None:
        """Remember the messages."""
        if self.broken:
            raise BrokerUnavailable("not available", where="Redis test")
        self.sent.extend(messages)

    def close(self) -> None:
        """Nothing to drop."""


def settings(**overrides: object) -> Settings:
    """Settings of a worker that recovers in namespace `apps`."""
    defaults = {"pod_namespace": "apps", "enable_tombstone_recovery": True, "broker_url": BROKER}
    return Settings.load(**(defaults | overrides))


def message(name: str = "web", **overrides: object) -> RecoverMessage:
    """A recover message of the watcher."""
    defaults = {"namespace": "apps", "name": name, "uid": f"uid-{name}", "synthesis_uuid": "s1"}
    return RecoverMessage.model_validate({"scope": settings().scope} | defaults | overrides)


class Hints:
    """One Redis and everything that talks to it, at a fixed instant."""

    def __init__(self, **overrides: object) -> None:
        self.settings = settings(**overrides)
        self.redis = fakeredis.FakeRedis(decode_responses=True, server=fakeredis.FakeServer())
        self.outbox = Outbox()
        self.now = NOW
        self.keys = Keys(self.settings.instance)
        self.dispatcher = Dispatcher(self.settings, self.redis, self.outbox, clock=lambda: self.now)
        rng = Random(7)  # noqa: S311
        self.claims = Claims(self.settings, self.redis, self.dispatcher, rng=rng, clock=lambda: self.now)

    def begin(self, message: Message, delivery: str = "delivery-1") -> Claim:
        """A claim, where nothing stands against it."""
        claim = self.claims.begin(message, delivery)
        assert isinstance(claim, Claim)
        return claim

    def crash(self, message: Message) -> None:
        """What is left when a process dies in the middle of an execution and its lock has expired."""
        self.begin(message, "crashing")
        self.expire(self.keys.lock(message.key))

    def expire(self, name: str) -> None:
        """Let the time of a key come."""
        assert self.redis.pttl(name) > 0, f"{name} would never expire"
        self.redis.delete(name)

    def seconds_left(self, name: str) -> float:
        """The key's TTL."""
        return float(self.redis.pttl(name)) / 1000

    def disconnect(self, *, connected: bool = False) -> None:
        """Let every later command fail."""
        server = self.redis.connection_pool.connection_kwargs["server"]
        server.connected = connected
