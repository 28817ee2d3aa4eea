"""What Redis would hold, in memory: messages, pending markers, locks, pauses. A flush empties it.

What Redis and the watcher wait for passes a thousand times faster here than what is derived from objects. Times in
objects are whole seconds, so a retry falls into the second of the attempt before it, and what follows is the same
state. How long such a pause is decides nothing: nothing may depend on Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from eno.errors import Retryable, SextonError, Terminal
from runtime.claims import LOCK as REAL_LOCK
from runtime.claims import LONGEST_WAIT
from runtime.claims import PARKED as REAL_PARKED
from runtime.dispatch import Dispatched, Enqueued, HeldBack, NotBefore, Parked, Pending, Running
from runtime.messages import Message
from workers.outcome import Kind, Outcome

FASTER = 1000
PENDING = timedelta(minutes=5) / FASTER
PAUSE = timedelta(seconds=1) / FASTER
LONGEST_PAUSE = timedelta(minutes=2) / FASTER
LOCK = REAL_LOCK / FASTER
PARKED = REAL_PARKED / FASTER


@dataclass
class Hints:
    """Messages in the order they were sent, and what is known of their keys."""

    clock: Callable[[], datetime]
    send: Callable[[Message], None]
    queue: list[Message] = field(default_factory=list)
    pending: dict[str, datetime] = field(default_factory=dict)
    locks: dict[str, datetime] = field(default_factory=dict)
    held_back: dict[str, tuple[HeldBack, datetime]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def fork(self, clock: Callable[[], datetime], send: Callable[[Message], None]) -> Hints:
        """The same for another machine."""
        return replace(
            self,
            clock=clock,
            send=send,
            queue=list(self.queue),
            pending=dict(self.pending),
            locks=dict(self.locks),
            held_back=dict(self.held_back),
            failures=dict(self.failures),
        )

    def flush(self) -> None:
        """Everything is gone, messages included."""
        for each in (self.queue, self.pending, self.locks, self.held_back, self.failures):
            each.clear()

    def identity(self) -> Hashable:
        """Equal for hints that answer alike from now on."""
        now = self.clock()
        return (
            tuple((each.key, getattr(each, "slices", ())) for each in self.queue),
            *(
                tuple(sorted((key, until) for key, until in each.items() if until > now))
                for each in (self.pending, self.locks)
            ),
            tuple(sorted((key, how, at) for key, (how, at) in self.held_back.items() if at > now)),
            tuple(sorted(self.failures.items())),
        )

    def waits(self, now: datetime) -> list[datetime]:
        """When something that is held against a key ends."""
        instants = [*self.pending.values(), *self.locks.values(), *(at for _, at in self.held_back.values())]
        return [at for at in instants if at > now]

    def enqueue_all(self, messages: Sequence[Message]) -> list[Dispatched]:
        """See `watcher.follow.Queue`."""
        return [self._enqueue(each) for each in messages]

    def unpark(self, key: str) -> bool:
        """See `watcher.follow.Queue`."""
        found = self.held_back.get(key)
        if found is None or found[0] is HeldBack.FAILED or found[1] <= self.clock():
            return False
        del self.held_back[key]
        self.failures.pop(key, None)
        return True

    def take(self) -> Message:
        """The next message. Its key is no longer pending."""
        message = self.queue.pop(0)
        self.pending.pop(message.key, None)
        return message

    def locked(self, key: str) -> bool:
        """Whether somebody who executed the key is still believed to."""
        return self.locks.get(key, self.clock()) > self.clock()

    def crashed(self, message: Message, *, again: bool) -> None:
        """Its worker is gone. The queue gives the message to another one, or has forgotten it."""
        if again:
            self.queue.insert(0, message)
        else:
            self.locks[message.key] = self.clock() + LOCK

    def ended(self, message: Message, end: Outcome | SextonError) -> None:
        """Keep the key back as long as its end asks for."""
        key, now = message.key, self.clock()
        self.held_back.pop(key, None)
        if isinstance(end, Terminal):
            self.failures.pop(key, None)
            self.held_back[key] = (HeldBack.PARKED, now + PARKED)
        elif isinstance(end, SextonError):
            self.failures[key] = self.failures.get(key, 0) + 1
            asked = timedelta(seconds=(end.retry_after if isinstance(end, Retryable) else None) or 0)
            pause = min(PAUSE * 2 ** min(self.failures[key] - 1, 16), LONGEST_PAUSE)
            self.held_back[key] = (HeldBack.FAILED, now + max(asked / FASTER, pause))
        else:
            self.failures.pop(key, None)
            if end.kind is Kind.WAITING and end.until is not None and end.until > now:
                self.held_back[key] = (HeldBack.WAITING, min(end.until, now + LONGEST_WAIT))

    def _enqueue(self, message: Message) -> Dispatched:
        key, now = message.key, self.clock()
        held_back = self.held_back.get(key)
        if held_back is not None and held_back[1] > now:
            how, at = held_back
            return Parked(at) if how is HeldBack.PARKED else NotBefore(at)
        if self.locked(key):
            return Running()
        if self.pending.get(key, now) > now:
            return Pending()
        self.pending[key] = now + PENDING
        self.send(message)
        return Enqueued()
