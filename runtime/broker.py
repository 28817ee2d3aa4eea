"""The connection to Redis: how it is made, how its keys are named, and whether the server is fit for use.

Redis holds hints, never truth. Every key here carries the instance and a TTL, and losing all of them at any
time costs at most some repeated work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from eno.errors import BrokerUnavailable
from runtime.settings import Settings

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
HEALTH_CHECK_SECONDS = 15
"""A connection that was idle for longer is tested before it is used."""

UNREACHABLE = "unreachable"
"""The code of the finding that Redis gave no answer."""

OLDEST_VERSION = (6, 2)
"""The first Redis with GETDEL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the broker that makes it unfit, as one line for a person."""

    code: str
    message: str
    hint: str


class Keys:
    """The names of the instance's keys."""

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def pending(self, key: str) -> str:
        """Set while a message for the key waits in a queue."""
        return f"{self._instance}:pending:{key}"

    def not_before(self, key: str) -> str:
        """Set, until it expires, while the key is not to be enqueued."""
        return f"{self._instance}:not-before:{key}"

    def lock(self, key: str) -> str:
        """Names the holder (`runtime.holder`) while the key is being executed."""
        return f"{self._instance}:lock:{key}"

    def again(self, key: str) -> str:
        """Set when a message arrived during an execution."""
        return f"{self._instance}:again:{key}"

    def attempts(self, key: str) -> str:
        """Counts starts since the last end."""
        return f"{self._instance}:attempts:{key}"

    def failures(self, key: str) -> str:
        """Counts retryable failures since the last other end."""
        return f"{self._instance}:failures:{key}"

    def corrections(self, key: str) -> str:
        """Counts how often a foreign readiness was cleared lately."""
        return f"{self._instance}:corrections:{key}"

    def parked(self, key: str) -> str:
        """Describes a parked key."""
        return f"{self._instance}:parked:{key}"

    @property
    def parked_index(self) -> str:
        """Sorted set of the parked keys, scored by when their description expires (epoch seconds)."""
        return f"{self._instance}:parked"


def connect(settings: Settings) -> redis.Redis:
    """A client that connects at its first command. Not to be used on both sides of a fork."""
    return redis.Redis.from_url(
        settings.broker_url,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        socket_keepalive=True,
        health_check_interval=HEALTH_CHECK_SECONDS,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=2),
        client_name=f"{settings.instance}-hints",
    )


@contextmanager
def translated(host: str) -> Iterator[None]:
    """Raise everything that redis-py raises within the block as BrokerUnavailable.

    Also a refused command (`OOM`, `NOPERM`, `READONLY`): all of them are states of the server that pass.
    """
    try:
        yield
    except redis.RedisError as error:
        raise unavailable(host, error) from error


def unavailable(host: str, error: Exception) -> BrokerUnavailable:
    """The error for a broker that failed, without its credentials."""
    # A server that answers, only not as asked, needs no start.
    refused = isinstance(error, redis.ResponseError)
    return BrokerUnavailable(
        "not available",
        where=f"Redis {host}",
        hint="" if refused else "start it, or set SEXTON_BROKER_URL",
        detail=f"{type(error).__name__}: {str(error)[:200]}",
    )


def check_broker(settings: Settings) -> list[Finding]:
    """What makes the broker unfit for use, by asking it; empty when nothing does.

    Uses INFO, since managed servers refuse CONFIG.
    """
    try:
        with translated(settings.broker_host), connect(settings) as client:
            info = client.info()
    except BrokerUnavailable as error:
        return [Finding(UNREACHABLE, f"{error.summary} ({error.detail})", "start Redis, or correct SEXTON_BROKER_URL")]
    return findings_in(info, settings.broker_host)


def findings_in(info: Mapping[str, Any], host: str) -> list[Finding]:
    """What a server's INFO says against it."""
    findings = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        findings.append(
            Finding(
                "eviction-policy",
                f"Redis {host}: maxmemory-policy is {policy}, which can evict the queues",
                "set maxmemory-policy to noeviction",
            )
        )
    version = str(info.get("redis_version", ""))
    if _version(version) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        findings.append(
            Finding(
                "version",
                f"Redis {host}: version {version or 'unknown'} is older than {oldest}",
                f"upgrade to Redis {oldest} or newer, or to Valkey",
            )
        )
    return findings


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
