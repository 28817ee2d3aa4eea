"""The threads of a watcher process: one per stream, one that dispatches, and what is known of their health.

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

from eno.errors import Retryable, SextonError
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

LOOP_SECONDS = 60.0
"""The dispatch loop is stuck when it did not come round for so long: more than Redis takes to fail."""

STREAM_SECONDS = 900.0
"""A stream is stuck when nothing at all happened to it for so long. Watches end, or fail, well before."""

_JOIN_SECONDS = 2.0

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


class Watcher:
    """Runs the threads from `start` to `stop`. `clock` is monotonic seconds."""

    def __init__(
        self,
        streams: Sequence[Stream],
        cache: Cache,
        follower: Follower,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._streams = streams
        self._cache = cache
        self._follower = follower
        self._clock = clock
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ended: list[tuple[str, BaseException | None]] = []
        self._beat_at = clock()
        self._progress = [(stream.stats, clock()) for stream in streams]

    def start(self) -> None:
        """Start every thread."""
        for stream in self._streams:
            self._spawn(f"follow {stream.query.resource.plural}", partial(stream.run, self._stop))
        self._spawn("dispatch", self._dispatch)

    def check(self) -> None:
        """Raises Retryable when a thread ended by itself."""
        if self._ended:
            name, error = self._ended[0]
            detail = str(error) if isinstance(error, SextonError) else type(error).__name__ if error else ""
            raise Retryable("ended unexpectedly", where=f"thread {name!r}", detail=detail, hint="restart it") from error

    def stop(self, *, disconnect: Callable[[], None]) -> None:
        """End every thread. `disconnect` drops the connections that they may be reading from."""
        self._stop.set()
        disconnect()
        deadline = self._clock() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))

    @property
    def synced(self) -> bool:
        """Whether the first list of every stream is complete."""
        return all(stream.stats.synced for stream in self._streams)

    def stuck(self) -> list[str]:
        """What makes no progress; for liveness. An API server or Redis that is away is no lack of progress."""
        now = self._clock()
        defects = [f"thread {name!r} ended" for name, _ in self._ended]
        if now - self._beat_at > LOOP_SECONDS:
            defects.append(f"dispatch: nothing for {now - self._beat_at:.0f} s")
        for index, stream in enumerate(self._streams):
            seen, since = self._progress[index]
            if stream.stats is not seen:
                self._progress[index] = (stream.stats, now)
            elif now - since > STREAM_SECONDS:
                defects.append(f"{_title(stream)}: nothing for {now - since:.0f} s")
        return defects

    def unsynced(self) -> list[str]:
        """The streams whose first list is not complete, each with what is in the way; for readiness."""
        return [f"{_title(each)}: {_obstacle(each.stats)}" for each in self._streams if not each.stats.synced]

    def _dispatch(self) -> None:
        while not self.synced:
            self._beat()
            if self._stop.wait(TICK_SECONDS / 5):
                return
        extra = {"action": "caches-synced", "objects": len(self._cache), "unreadable": self._cache.unreadable}
        _log.info("all caches are synced", extra=extra)
        self._follower.run(self._stop, self._beat)

    def _beat(self) -> None:
        self._beat_at = self._clock()

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._watched, args=(name, target), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watched(self, name: str, target: Callable[[], None]) -> None:
        failure: BaseException | None = None
        try:
            target()
        except BaseException as error:
            failure = error
            _log.exception("thread %s failed", name, extra={"action": "thread-failed"})
        if failure is not None or not self._stop.is_set():
            self._ended.append((name, failure))


def assemble(settings: Settings, scope: Scope, upstream: Cluster, downstream: Cluster, queue: Queue) -> Watcher:
    """A watcher of both clusters. `scope` is the one of `settings`."""
    cache, agenda = Cache(), Agenda()
    streams = [
        Reflector(
            downstream if kind is Kind.INVENTORY else upstream,
            query,
            CacheSink(kind, scope, cache, agenda),
            relist_interval=settings.relist_seconds,
        )
        for kind, query in queries(scope).items()
    ]
    resync = timedelta(seconds=settings.resync_seconds)
    follower = Follower(scope, cache, agenda, queue, clock=lambda: datetime.now(UTC), resync=resync)
    return Watcher(streams, cache, follower)


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


def _obstacle(stats: Stats) -> str:
    return str(stats.last_error) if stats.last_error else "not listed yet"
