"""The threads of a watcher process: one per stream, one for the lease, one that dispatches; and their health.

A thread that ends before it was told to takes the process with it: whatever a half-dead process would miss, a
restarted one finds in its first list.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from eno.errors import ApiError, Retryable, SextonError
from eno.inventory.secrets import INVENTORY_NAMESPACE, LINEAGE_KEY
from eno.scope import Scope
from kube.cluster import Cluster, Query
from kube.reflector import Reflector, Stats, Stop
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from runtime.settings import Settings
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import TICK_SECONDS, CacheSink, Follower, Queue
from watcher.keys import Kind
from watcher.preflight import examine

LOOP_SECONDS = 60.0
"""The dispatch loop is stuck when it did not come round for so long: more than Redis takes to fail."""

STREAM_SECONDS = 900.0
"""A stream is stuck when nothing at all happened to it for so long. Watches end, or fail, well before.

After a failure it may first wait for as long as the server has asked for.
"""

LEASE_SECONDS = 900.0
"""The lease is stuck when nobody looked at it for so long: more than the longest pause and its calls take."""

_JOIN_SECONDS = 2.0
_DISPATCH, _LEASE = "dispatch", "lease"

_log = logging.getLogger(__name__)


class Stream(Protocol):
    """The part of a `Reflector` that runs and reports."""

    @property
    def query(self) -> Query:
        """What is followed."""
        ...

    @property
    def stats(self) -> Stats:
        """What the stream has been through. Another value after whatever happens to it."""
        ...

    def run(self, stop: Stop) -> None:
        """Follow until `stop` is set."""
        ...


class Candidate(Protocol):
    """The part of a `kube.lease.Candidate` that a process uses."""

    @property
    def title(self) -> str:
        """What it is about, for people."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this process leads at this very moment."""
        ...

    @property
    def answered(self) -> bool:
        """Whether it is known who leads."""
        ...

    @property
    def obstacle(self) -> ApiError | None:
        """What is in the way of knowing."""
        ...

    def require(self) -> None:
        """Raises SextonError unless this process leads at this very moment."""
        ...

    def run(self, stop: Stop, beat: Callable[[], None]) -> None:
        """Take part until `stop` is set. Raises SextonError when it led and may not any more, or never may."""
        ...

    def release(self) -> None:
        """Let another process lead."""
        ...


class Watcher:
    """Runs the threads from `start` to `stop`.

    `examine` raises SextonError when a stream will never get its first list. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        cache: Cache,
        follower: Follower,
        candidate: Candidate,
        *,
        examine: Callable[[Query, ApiError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.streams = streams
        self.cache = cache
        self.follower = follower
        self.candidate = candidate
        self._examine = examine
        self._clock = clock
        self._stop = threading.Event()
        self._ours: list[threading.Thread] = []
        self._following: list[threading.Thread] = []
        self._ended: list[tuple[str, BaseException | None]] = []
        self._beats = dict.fromkeys((_DISPATCH, _LEASE), clock())
        self._progress = [(stream.stats, clock()) for stream in streams]
        self._examined: dict[int, ApiError] = {}
        self._announced = False
        self._leading = False

    def start(self) -> None:
        """Start every thread."""
        for stream in self.streams:
            name = f"follow {stream.query.resource.plural}"
            self._following.append(self._spawn(name, partial(stream.run, self._stop)))
        lead = partial(self.candidate.run, self._stop, partial(self._beat, _LEASE))
        self._ours += [self._spawn(_LEASE, lead), self._spawn(_DISPATCH, self._dispatch)]

    def check(self) -> None:
        """Raises SextonError when a thread ended by itself: its own where it had one, else Retryable."""
        if self._ended:
            name, error = self._ended[0]
            if isinstance(error, SextonError):
                raise error
            detail = type(error).__name__ if error else ""
            raise Retryable("ended unexpectedly", where=f"thread {name!r}", detail=detail, hint="restart it") from error

    def stop(self, *, disconnect: Callable[[], None]) -> None:
        """End every thread. `disconnect` drops the connections that they may be reading from.

        The lease is released once nothing can be enqueued any more; a thread that hangs lets it expire instead.
        """
        self._stop.set()
        if self._join(self._ours):
            self.candidate.release()
        disconnect()
        self._join(self._following)

    @property
    def synced(self) -> bool:
        """Whether the first list of every stream is complete."""
        return all(stream.stats.synced for stream in self.streams)

    @property
    def _informed(self) -> bool:
        """Whether enough is known to derive from: what needs inventories waits for their list by itself."""
        return all(stream.stats.synced for stream in self.streams if stream.query.resource != SECRETS)

    def stuck(self) -> list[str]:
        """What makes no progress; for liveness. An API server or Redis that is away is no lack of progress."""
        now = self._clock()
        defects = [f"thread {name!r} ended" for name, _ in self._ended]
        for name, patience in ((_DISPATCH, LOOP_SECONDS), (_LEASE, LEASE_SECONDS)):
            if (silent := now - self._beats[name]) > patience:
                defects.append(f"{name}: nothing for {silent:.0f} s")
        for index, stream in enumerate(self.streams):
            seen, since = self._progress[index]
            if stream.stats is not seen:
                self._progress[index] = (stream.stats, now)
            elif now - since > STREAM_SECONDS + _asked(seen):
                defects.append(f"{_title(stream)}: nothing for {now - since:.0f} s")
        return defects

    def unsynced(self) -> list[str]:
        """What is not known yet, each with what is in the way; for readiness.

        Whoever stands by is ready: it can take over, and a rollout waits for nothing more.
        """
        missing = [f"{_title(each)}: {_obstacle(each.stats)}" for each in self.streams if not each.stats.synced]
        if not self.candidate.answered:
            missing.append(f"{self.candidate.title}: {self.candidate.obstacle or 'not read yet'}")
        return missing

    def _dispatch(self) -> None:
        """Enqueue from the moment on that this process leads and knows what there is."""
        while not (self._informed and self.candidate.leads):
            self._turn()
            if self._stop.wait(TICK_SECONDS / 5):
                return
        self._leading = True
        self.follower.take_over()
        self.follower.run(self._stop, self._turn)

    def _turn(self) -> None:
        """What the dispatch loop does whenever it comes round. Raises SextonError when it had better end."""
        self._beat(_DISPATCH)
        if self._leading:
            self.candidate.require()
        if not self._announced:
            self._await_lists()

    def _await_lists(self) -> None:
        for index, stream in enumerate(self.streams):
            error = stream.stats.last_error
            if error is not None and error is not self._examined.get(index) and not stream.stats.synced:
                self._examined[index] = error
                self._examine(stream.query, error)
        if self.synced:
            self._announced = True
            extra = {"action": "caches-synced", "objects": len(self.cache), "unreadable": self.cache.unreadable}
            _log.info("all caches are synced", extra=extra)

    def _beat(self, name: str) -> None:
        self._beats[name] = self._clock()

    def _join(self, threads: Sequence[threading.Thread]) -> bool:
        """Whether all of them have ended within _JOIN_SECONDS."""
        deadline = self._clock() + _JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread in threads)

    def _spawn(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._watched, args=(name, target), name=name, daemon=True)
        thread.start()
        return thread

    def _watched(self, name: str, target: Callable[[], None]) -> None:
        failure: BaseException | None = None
        try:
            target()
        except SextonError as error:  # on purpose: whoever ends the process over it says why
            failure = error
        except BaseException as error:
            failure = error
            _log.exception("thread %s failed", name, extra={"action": "thread-failed"})
        if failure is not None or not self._stop.is_set():
            self._ended.append((name, failure))


def assemble(
    settings: Settings, scope: Scope, upstream: Cluster, downstream: Cluster, queue: Queue, candidate: Candidate
) -> Watcher:
    """A watcher of both clusters. `scope` is the one of `settings`."""
    cache, agenda = Cache(), Agenda()
    streams = [
        Reflector(
            downstream if kind is Kind.INVENTORY else upstream,
            query,
            CacheSink(kind, scope, cache, agenda),
            relist_interval=settings.relist_seconds,
            # A watch that has gone silent is given up, and a rewound history noticed, within one resync.
            watch_timeout=settings.resync_seconds / 2,
        )
        for kind, query in queries(scope).items()
    ]
    resync = timedelta(seconds=settings.resync_seconds)
    follower = Follower(scope, cache, agenda, queue, candidate, clock=lambda: datetime.now(UTC), resync=resync)
    return Watcher(streams, cache, follower, candidate, examine=partial(examine, upstream))


def queries(scope: Scope) -> dict[Kind, Query]:
    """Slices carry none of their composition's labels, so only compositions can be selected by them.

    Inventories are followed only where history is recovered.
    """
    namespace = scope.composition_namespace or None
    found = {
        Kind.COMPOSITION: Query(COMPOSITIONS, namespace, label_selector=scope.label_selector),
        Kind.SLICE: Query(RESOURCE_SLICES, namespace, metadata_only=True),
    }
    if scope.recovery_enabled:
        found[Kind.INVENTORY] = Query(
            SECRETS,
            INVENTORY_NAMESPACE,
            label_selector=LINEAGE_KEY,
            field_selector="type=Opaque",
            metadata_only=True,
        )
    return found


def _title(stream: Stream) -> str:
    return f"stream of {stream.query.resource.qualified}"


def _asked(stats: Stats) -> float:
    """Seconds that a stream was last asked to leave the server alone."""
    return stats.last_error.retry_after or 0.0 if stats.last_error else 0.0


def _obstacle(stats: Stats) -> str:
    return str(stats.last_error) if stats.last_error else "not listed yet"
