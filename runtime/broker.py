"""The connection to Redis: how it is made, how its keys are named, and whether the server is fit for use.

Redis holds hints, never truth. Every key here carries the instance and a TTL, and losing all of them at any
time costs at most some repeated work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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

CHECK_SECONDS = 3.0
"""How often a `BrokerWatch` looks at Redis."""

UNREACHABLE = "unreachable"
"""The code of the finding that Redis gave no answer."""

_SIGNS_OF_TLS = ("Timeout connecting", "Connection closed", "UNEXPECTED_EOF", "WRONG_VERSION_NUMBER")
"""What redis-py says where one side speaks TLS and the other does not, among other causes."""

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


def connect(settings: Settings, *, retries: int = 2) -> redis.Redis:
    """A client that connects at its first command. Not to be used on both sides of a fork.

    Retries of a command come on top of those of its connection: a server that takes connections and says nothing
    costs ANSWER_SECONDS for each pair of them.
    """
    return redis.Redis.from_url(
        settings.broker_url,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        socket_keepalive=True,
        health_check_interval=HEALTH_CHECK_SECONDS,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries=retries),
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
    return BrokerUnavailable(
        "not available",
        where=f"Redis {host}",
        hint=_hint(error),
        detail=f"{type(error).__name__}: {str(error)[:200]}",
    )


def _hint(error: Exception) -> str:
    # A server that answers, only not as asked, needs no start.
    if isinstance(error, redis.ResponseError):
        return ""
    if any(sign in str(error) for sign in _SIGNS_OF_TLS):
        return "start it, or set SEXTON_BROKER_URL; does it speak TLS? rediss:// if so, redis:// if not"
    return "start it, or set SEXTON_BROKER_URL"


def check_broker(settings: Settings) -> list[Finding]:
    """What makes the broker unfit for use, by asking it; empty when nothing does.

    Uses INFO, since managed servers refuse CONFIG. Takes no longer than CONNECT_SECONDS and ANSWER_SECONDS: whoever
    wants to know asks again.
    """
    try:
        with translated(settings.broker_host), connect(settings, retries=0) as client:
            info = client.info()
    except BrokerUnavailable as error:
        return [Finding(UNREACHABLE, f"{error.summary} ({error.detail})", "start Redis, or correct SEXTON_BROKER_URL")]
    return findings_in(info, settings.broker_host)


class BrokerWatch:
    """Looks at Redis every CHECK_SECONDS in a thread of its own, so that no probe waits for it.

    `tell` is told each time what was found.
    """

    def __init__(self, settings: Settings, tell: Callable[[Sequence[Finding]], None] = lambda _: None) -> None:
        self._settings = settings
        self._tell = tell
        self._findings: Sequence[Finding] | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._look, name="broker-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more. A look that has begun is not waited for."""
        self._ended.set()

    def defects(self) -> list[str]:
        """What was found last, one line each; for readiness."""
        if self._findings is None:
            return ["Redis has not been looked at yet"]
        return [finding.message for finding in self._findings]

    def _look(self) -> None:
        while not self._ended.is_set():
            self._findings = check_broker(self._settings)
            self._tell(self._findings)
            self._ended.wait(CHECK_SECONDS)


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
