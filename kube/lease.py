"""Leader election on a Lease: reads, lets `kube.election` decide, writes under the version that was read.

The official client has a leader election as well, and as of its version 37 it does not do for Sexton:
- a leader whose worker ended keeps its lease (python#2075), unless it ended by an Exception, as of late;
- it counts on the wall clock, and on its own lease duration instead of the one that the holder promised;
- its calls have no timeout, so a call that hangs outlives the lease while the leader goes on working; a connection
  that breaks ends its thread with a traceback;
- nobody can ask whether it leads right now, it does not release, and it does not spread its candidates.

Leading saves work and keeps nothing correct: every write is bound to what it was decided from, so two leaders do
everything twice and nothing wrong.
"""

from __future__ import annotations

import logging
import random
import socket
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from eno.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NamespaceTerminating,
    NotFound,
    Retryable,
    UsageError,
)
from kube.cluster import Cluster, Json
from kube.election import (
    Claim,
    Lost,
    Record,
    Renew,
    Seen,
    StandBy,
    Term,
    Timing,
    blank,
    decide,
    held,
    observed,
    pause,
    released,
)
from kube.reflector import Stop
from kube.resources import LEASES

_log = logging.getLogger(__name__)


def uptime() -> float:
    """Seconds that go on while the process is stopped and, where the system can tell, while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def process_identity() -> str:
    """A name that no other process has, nor this one after a restart."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Candidate:
    """One process that wants to lead. `run` it in one thread; the properties may be read from any.

    `clock` is seconds on a clock that never goes back, `wall` an aware instant that only people read, `draw` a
    random number in [0, 1). Once it led and lost, it never leads again.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        timing: Timing,
        *,
        identity: str,
        clock: Callable[[], float] = uptime,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.identity = identity
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._clock = clock
        self._wall = wall
        self._draw = draw
        self._seen: Seen | None = None
        self._term: Term | None = None
        self._lost: Lost | None = None
        self._obstacle: ApiError | None = None
        self._answered = False

    @property
    def title(self) -> str:
        """What it is about, for people."""
        return f"lease {self._namespace}/{self._name}"

    @property
    def leads(self) -> bool:
        """Whether it holds the Lease at this very moment, by the clock."""
        term = self._term
        return term is not None and self._lost is None and self._clock() < term.until

    @property
    def answered(self) -> bool:
        """Whether the API server has ever said who holds the Lease."""
        return self._answered

    @property
    def obstacle(self) -> ApiError | None:
        """What is in the way of reading or writing the Lease now."""
        return self._obstacle

    def require(self) -> None:
        """Raises Retryable unless it leads at this very moment. To be called right before each act of a leader."""
        if not self.leads:
            term = self._term
            why = f"it was not renewed for {self._clock() - term.since:.0f} s" if term else "somebody else leads"
            raise self._loss(self._lost or Lost(why))

    def run(self, stop: Stop, beat: Callable[[], None]) -> None:
        """Take part until `stop` is set, calling `beat` before each round. Raises what `round` raises."""
        while not stop.is_set():
            beat()
            stop.wait(self.round())

    def round(self) -> float:
        """Read, decide and write once. Returns the seconds until the next round.

        Raises Retryable when it led and may not any more. While it does not lead: UsageError when there is no such
        namespace, NamespaceTerminating when that is about to go, Forbidden when it may not read or write the Lease.
        Everything else that goes wrong is waited out.
        """
        try:
            lease = self._read()
            verdict = self._verdict(lease)
            if isinstance(verdict, Claim | Renew):
                self._write(lease, verdict)
        except (Conflict, AlreadyExists):  # somebody was faster; the next look shows who
            return self._pause()
        except ApiError as error:
            self._failed(error)
            return self._pause(error)
        self._settled()
        if isinstance(verdict, Lost):
            self._lost = verdict
            raise self._loss(verdict)
        return self._pause()

    def release(self) -> None:
        """Let the next candidate take the Lease at once, if this one holds it. To be called after `run` has ended."""
        if self._term is None or self._lost is not None:
            return
        self._term = None
        try:
            lease = self._read()
            if lease is not None and Record.of(lease).holder == self.identity:
                self._cluster.update(LEASES, self._namespace, self._name, released(lease, self._wall()))
        except ApiError as error:
            _log.warning("not released: %s", error, extra=self._fields("lease-kept"))
        else:
            _log.info("released", extra=self._fields("lease-released"))

    def _read(self) -> Json | None:
        """The Lease, None when there is none."""
        try:
            lease = self._cluster.get(LEASES, self._namespace, self._name)
        except NotFound:
            lease = None
        self._answered = True
        return lease

    def _verdict(self, lease: Json | None) -> Claim | Renew | StandBy | Lost:
        """What to do about the Lease that was just read."""
        found, now = None if lease is None else Record.of(lease), self._clock()
        before, self._seen = self._seen, observed(self._seen, found, now)
        self._tell(before, self._seen)
        return decide(self.identity, found, self._seen, self._term, now, self._timing)

    def _write(self, lease: Json | None, verdict: Claim | Renew) -> None:
        """Hold the Lease from now on, if it is still as it was read. Raises Conflict when it is not."""
        body = held(lease or blank(self._namespace, self._name), self.identity, self._timing, self._wall())
        # The answer takes its time: the others count from the write, so the term has to count from before it.
        sent = self._clock()
        if lease is None:
            self._create(body)
        else:
            self._cluster.update(LEASES, self._namespace, self._name, body)
        led = self._term is not None
        self._term = Term.begun(sent, self._timing)
        if not led:
            why = verdict.why if isinstance(verdict, Claim) else "it was claimed before"
            _log.info("leading: %s", why, extra=self._fields("lease-acquired"))

    def _create(self, body: Json) -> None:
        try:
            self._cluster.create(LEASES, self._namespace, body)
        except NotFound as error:
            if self._term is not None:
                raise
            raise UsageError(
                f"there is no namespace {self._namespace}",
                where=self.title,
                hint="create it, or set POD_NAMESPACE to the one that this process runs in",
            ) from error

    def _failed(self, error: ApiError) -> None:
        """Report a failure once. Raises it when waiting is of no use."""
        if self._term is None and isinstance(error, Forbidden | NamespaceTerminating):
            raise error
        if self._obstacle is None or self._obstacle.summary != error.summary:
            _log.warning("%s", error, extra=self._fields("lease-wait"))
        self._obstacle = error
        if self._term is not None and not self.leads:
            self._lost = Lost(f"it was not renewed for {self._clock() - self._term.since:.0f} s: {error.summary}")
            raise self._loss(self._lost) from error

    def _settled(self) -> None:
        if self._obstacle is not None:
            self._obstacle = None
            _log.info("the API server answers again", extra=self._fields("lease-answered"))

    def _pause(self, error: ApiError | None = None) -> float:
        left = self._term.until - self._clock() if self._term else None
        return pause(self._timing, self._draw(), asked=error.retry_after if error else None, left=left)

    def _loss(self, lost: Lost) -> Retryable:
        return Retryable("no longer leading", where=self.title, detail=lost.why, hint="restart this process")

    def _tell(self, before: Seen | None, seen: Seen | None) -> None:
        """Whenever somebody else begins to lead."""
        holder = seen.record.holder if seen else ""
        if holder not in ("", self.identity, before.record.holder if before else ""):
            _log.info("standing by: %s leads", holder, extra=self._fields("lease-followed"))

    def _fields(self, action: str) -> dict[str, str]:
        return {"action": action, "lease": f"{self._namespace}/{self._name}", "identity": self.identity}
