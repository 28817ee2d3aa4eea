"""Whether a worker makes progress, from what its event loop and its broker were last seen doing.

A consumer that lost its connection can go on turning its loop, answering pings and consuming nothing (celery#8030,
#10205), so neither a running process nor a turning loop counts as life. What counts is that Redis answered its
question for a message. It asks every second while it has room for one; while it has none, the loop has to turn.
Redis being away is no lack of progress, and neither is an API server that is.

All instants are monotonic seconds. The event loop and the broker's watch write, the threads that answer probes
read; each value is replaced as a whole, and no probe waits for anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.broker import UNREACHABLE, Finding


@dataclass(frozen=True, slots=True)
class Load:
    """The worker's tasks at one turn of the loop. `room` says whether it could take another one.

    `latest_start` is when the most recent running task began, None while a process is free.
    """

    room: bool = True
    latest_start: float | None = None


class Pulse:
    """What the worker was last seen doing, and what to think of it.

    `stall` is how long may pass without progress, `limit` how long a task may run, in seconds.
    """

    def __init__(self, *, stall: float, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.consuming = False
        self.draining = False
        self._stall = stall
        self._limit = limit
        self._load = Load()
        self._findings: Sequence[Finding] | None = None
        self._progress_at = clock()

    def answered(self) -> None:
        """Redis answered the consumer's question for a message, be it with none."""
        self._progress_at = self.clock()

    def turned(self, load: Load) -> None:
        """The loop came round. Without room nothing is asked for, so that is all the progress there can be."""
        self._load = load
        if not load.room:
            self._progress_at = self.clock()

    def checked(self, findings: Sequence[Finding]) -> None:
        """Redis was looked at, over another connection than the consumer's."""
        self._findings = findings
        if any(finding.code == UNREACHABLE for finding in findings):
            # No progress can be asked for, and once Redis is back the consumer needs a while to notice.
            self._progress_at = self.clock()

    def stuck(self) -> list[str]:
        """What makes no progress; for liveness. A worker that ends is given the time that it was given to end."""
        if self.draining:
            return []
        now = self.clock()
        return [*self._silence(now), *self._overdue(now)]

    def unready(self) -> list[str]:
        """Why it should be given no tasks; for readiness."""
        if self.draining:
            return ["ending: takes no new tasks"]
        if self._findings is None:
            return ["Redis has not been looked at yet"]
        defects = [finding.message for finding in self._findings]
        return defects if self.consuming else [*defects, "consumer: not connected"]

    def _silence(self, now: float) -> list[str]:
        silent = now - self._progress_at
        return [f"consumer: nothing for {silent:.0f} s, although Redis answers"] if silent > self._stall else []

    def _overdue(self, now: float) -> list[str]:
        latest = self._load.latest_start
        if latest is None or now - latest <= self._limit + self._stall:
            return []
        return [f"pool: every process has run its task for {now - latest:.0f} s; {self._limit:.0f} s are allowed"]
