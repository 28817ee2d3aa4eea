"""What a worker does around an execution: take the key, and leave behind how it ended.

Executions of one key do not overlap, a message that arrives during one is not lost, and a key that kills its
worker again and again is parked. All of it saves work only: whatever Redis forgets, the guarded writes of the
handlers keep correct, and the watcher derives anew.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Self, TypeAlias

import redis

from eno.errors import BrokerUnavailable, SextonError
from eno.times import format_time
from runtime import backoff
from runtime.broker import Keys, connect, translated
from runtime.dispatch import Dispatcher, HeldBack, again_lifetime, delete_if_equal
from runtime.holder import Holder
from runtime.messages import Message
from runtime.sender import CelerySender
from runtime.settings import Settings

PARKED = timedelta(minutes=15)
"""After which a parked key is looked at again (specification 06)."""

LONGEST_WAIT = timedelta(minutes=2)
"""For which a waiting key is held back at most. Its object says how long it really waits, and may change."""

LOCK = timedelta(seconds=30)
"""For which a key stays locked after the process that executes it was killed or stopped."""

RENEWAL = timedelta(seconds=8)
"""Between two renewals of the locks that a process holds: three may fail before one is lost."""

_PARKED_RECORD = PARKED * 4
_COUNTERS = timedelta(hours=2)
_MESSAGE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Merged:
    """The key is being executed, and whoever executes it will enqueue it once more."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The key has started too often without an end. It is parked until `until`."""

    until: datetime


class Claims:
    """Makes claims for one worker process. `clock` returns an aware instant, `rng` spreads the pauses.

    Locks last for LOCK, so whoever executes calls `renew` every RENEWAL; `connect` has a thread do it.
    """

    def __init__(
        self,
        settings: Settings,
        client: redis.Redis,
        dispatcher: Dispatcher,
        *,
        rng: Random,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.dispatcher = dispatcher
        self.rng = rng
        self.clock = clock
        self.keys = Keys(settings.instance)
        self.host = settings.broker_host
        self._again = again_lifetime(settings)
        self._held: dict[str, str] = {}
        self._closed = threading.Event()
        # Counted from start to start, and a message can take the whole visibility timeout to come back.
        self._counters = max(_COUNTERS, timedelta(seconds=settings.visibility_timeout * 4))
        self._max_attempts = settings.max_attempts

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """With connections of its own, made at the first use. Not before the fork: no thread survives one."""
        client = connect(settings)
        dispatcher = Dispatcher(settings, client, CelerySender(settings))
        claims = cls(settings, client, dispatcher, rng=Random())  # noqa: S311 — it spreads pauses
        threading.Thread(target=claims._keep_renewing, name="locks", daemon=True).start()
        return claims

    def close(self) -> None:
        """Drop the connections, and renew no more locks."""
        self._closed.set()
        self.dispatcher.close()

    def begin(self, message: Message, delivery: str) -> Begun:
        """Take the message's key for a delivery. To be called before anything is read.

        `delivery` identifies the message in its queue. One that comes back after its process died takes the lock
        over. Raises BrokerUnavailable.
        """
        key, keys = message.key, self.keys
        holder = Holder(delivery)
        with translated(self.host):
            # No transaction: a Redis without memory refuses one whole, and the marker would outlive its message.
            with self.client.pipeline(transaction=False) as pipe:
                pipe.delete(keys.pending(key))
                # Before the lock is tried: its holder looks for it after unlocking, so one of the two acts.
                pipe.set(keys.again(key), "1", px=self._again)
                pipe.set(keys.lock(key), str(holder), nx=True, px=LOCK)
                pipe.get(keys.lock(key))
                found = pipe.execute()[-1]
            if found != str(holder) and not self._taken_over(keys.lock(key), found, holder):
                return Merged()
            self._held[keys.lock(key)] = str(holder)
            with self.client.pipeline() as pipe:
                # Whoever set it until now asked for what has not been read yet.
                pipe.delete(keys.again(key))
                pipe.pexpire(keys.lock(key), LOCK)
                pipe.incr(keys.attempts(key))
                pipe.pexpire(keys.attempts(key), self._counters)
                attempts = int(pipe.execute()[2])
            claim = Claim(self, message, str(holder))
            return claim if attempts <= self._max_attempts else self._suspicious(claim, attempts)

    def renew(self) -> None:
        """Prolong the locks of everything that is being executed, as far as they are still its own.

        Raises BrokerUnavailable.
        """
        held = dict(self._held)
        with translated(self.host):
            for name, holder in held.items():
                if self.client.get(name) == holder:
                    self.client.pexpire(name, LOCK)

    def let_go(self, name: str) -> None:
        """Renew this lock no more."""
        self._held.pop(name, None)

    def count_failure(self, key: str) -> int:
        """Failures in a row, with this one."""
        with self.client.pipeline() as pipe:
            pipe.incr(self.keys.failures(key))
            pipe.pexpire(self.keys.failures(key), self._counters)
            return int(pipe.execute()[0])

    def _taken_over(self, name: str, found: str | None, holder: Holder) -> bool:
        """Whether the lock was that of the same delivery in a process that has died, and is now the holder's."""
        before = Holder.parse(found or "")
        if found is None or before is None or before.delivery != holder.delivery or not before.is_gone():
            return False
        delete_if_equal(self.client, name, found)
        return bool(self.client.set(name, str(holder), nx=True, px=LOCK))

    def _keep_renewing(self) -> None:
        while not self._closed.wait(RENEWAL.total_seconds()):
            with suppress(BrokerUnavailable):
                self.renew()

    def _suspicious(self, claim: Claim, attempts: int) -> Claim | Refused:
        """One look per PARKED at a key that has not come to an end `attempts - 1` times in a row."""
        key, keys = claim.message.key, self.keys
        with self.client.pipeline() as pipe:
            pipe.exists(keys.parked(key))
            pipe.pttl(keys.not_before(key))
            parked, wait = pipe.execute()
        reason = f"started {attempts - 1} times without coming to an end"
        if parked and wait > 0:
            claim.release()
            return Refused(self.clock() + timedelta(milliseconds=wait))
        # Also when it is looked at now, so that the next start is refused should this one kill its worker too.
        until = claim.describe_parked("attempts", reason)
        if parked:
            return claim
        claim.release()
        return Refused(until)


class Claim:
    """A key being executed. Exactly one of `done`, `wait`, `fail` and `park` ends it.

    Each records the end, unlocks, and enqueues once more what arrived meanwhile. Raises BrokerUnavailable, in
    which case the TTLs clean up.
    """

    def __init__(self, claims: Claims, message: Message, holder: str) -> None:
        self.message = message
        self._claims = claims
        self._holder = holder

    def done(self) -> None:
        """It ended well: nothing is held against the key any more."""
        with translated(self._claims.host):
            self._end()

    def wait(self, until: datetime) -> datetime:
        """It waits for an instant. Returns when it may be enqueued again: `until`, or LONGEST_WAIT from now."""
        with translated(self._claims.host):
            now = self._claims.clock()
            pause = min(max(until - now, timedelta(0)), LONGEST_WAIT)
            self._end(HeldBack.WAITING, pause)
            return now + pause

    def fail(self, retry_after: float | None = None) -> datetime:
        """It failed and may succeed later. Returns when. `retry_after`: the pause in seconds asked for."""
        with translated(self._claims.host):
            failures = self._claims.count_failure(self.message.key)
            pause = timedelta(seconds=backoff.pause(failures, rng=self._claims.rng, retry_after=retry_after))
            self._end(HeldBack.FAILED, pause, keep_failures=True)
            return self._claims.clock() + pause

    def park(self, error: SextonError) -> datetime:
        """It failed and will fail again. Returns when it is looked at again if its object does not change."""
        with translated(self._claims.host):
            keys, key = self._claims.keys, self.message.key
            self._claims.client.delete(keys.attempts(key), keys.failures(key))
            until = self.describe_parked("terminal", str(error))
            if not self._unlock():
                return until
            # What arrived meanwhile may be the change that a parked key waits for.
            self._claims.client.delete(keys.not_before(key))
            self._claims.dispatcher.enqueue(self.message)
            return self._claims.clock()

    def describe_parked(self, reason: str, message: str) -> datetime:
        """Park the key, or park it for longer: the first `since` stays."""
        keys, key, client = self._claims.keys, self.message.key, self._claims.client
        now = self._claims.clock()
        before = client.get(keys.parked(key))
        record = {
            "reason": reason,
            "message": message[:_MESSAGE_LENGTH],
            "since": json.loads(before)["since"] if before else format_time(now),
            "context": self.message.log_context(),
        }
        expires = now + _PARKED_RECORD
        with client.pipeline() as pipe:
            pipe.set(keys.parked(key), json.dumps(record), px=_PARKED_RECORD)
            pipe.zadd(keys.parked_index, {key: expires.timestamp()})
            pipe.pexpire(keys.parked_index, _PARKED_RECORD)
            pipe.set(keys.not_before(key), HeldBack.PARKED.value, px=PARKED)
            pipe.execute()
        return now + PARKED

    def release(self) -> None:
        """Unlock, unless the lock expired and is somebody else's by now."""
        name = self._claims.keys.lock(self.message.key)
        self._claims.let_go(name)
        delete_if_equal(self._claims.client, name, self._holder)

    def _end(
        self, why: HeldBack | None = None, pause: timedelta = timedelta(0), *, keep_failures: bool = False
    ) -> None:
        """Let go of what was held against the key, but hold it back for the pause, unlock, and go on if asked to."""
        keys, key = self._claims.keys, self.message.key
        names = [keys.attempts(key), keys.parked(key), keys.not_before(key)]
        milliseconds = int(pause.total_seconds() * 1000)

        def record(pipe: redis.client.Pipeline) -> None:
            pipe.delete(*names, *([] if keep_failures else [keys.failures(key)]))
            pipe.zrem(keys.parked_index, key)
            if why is not None and milliseconds > 0:
                pipe.set(keys.not_before(key), why.value, px=milliseconds)

        if self._unlock(record):
            self._claims.dispatcher.enqueue(self.message)

    def _unlock(self, record: Callable[[redis.client.Pipeline], None] = lambda _: None) -> bool:
        """Record and unlock, in one transaction. Returns whether the key is to be executed again.

        A lock that expired and is somebody else's by now stays.
        """
        name = self._claims.keys.lock(self.message.key)
        self._claims.let_go(name)

        def compare(pipe: redis.client.Pipeline) -> None:
            held = pipe.get(name)
            pipe.multi()
            record(pipe)
            if held == self._holder:
                pipe.delete(name)
            pipe.getdel(self._claims.keys.again(self.message.key))

        answers: list[Any] = self._claims.client.transaction(compare, name) or []
        return bool(answers[-1])


Begun: TypeAlias = Claim | Merged | Refused
