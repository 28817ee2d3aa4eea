"""Follows one query: list, watch from the list's version, list again when that version is worth nothing.

A `Reflector` is synchronous and drives one `Sink`; the watcher runs one per thread. Whatever goes wrong with
the API server is waited out here, for ever: giving up would forget objects. What its caches hold is a hint
(tasks read live), but a list that was not read to its end is never passed on, because it looks like deletion.

**Rewound history.** After an etcd restore the server counts versions from an earlier one again. A watch from a
version that lies in its future is accepted and stays silent, and one from a version that the new history has reached
as well goes on as if nothing had happened. Three things are done about it:

- After a watch that failed, ended before its time, or brought neither event nor bookmark, nothing vouches for the
  version. Then one `list limit=1` of metadata, a consistent read, tells the server's. Versions of one resource are
  decimal integers and comparable since Kubernetes 1.35 (KEP-5504), and were in effect long before: a smaller one is
  a rewind. Any other form of version says nothing. kube-apiserver ends a watch with a bookmark if its cache has
  moved on, be it because of the last check: an idle stream is checked every other watch, a busy one never.
- A restore needs the servers to be stopped. After an outage, which is two attempts in a row that met no server or a
  failing one, the list comes first: by then the new history may have overtaken the version, and nothing tells.
- The periodic list repairs what is left: a switch between two servers that no request met, and that overtook.

Considered and left: `resourceVersionMatch=NotOlderThan` lets the server compare, but one whose cache lags answers as
if rewound, and after seconds; a list after every broken watch costs all objects whenever some proxy ends idle streams.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from eno.errors import (
    ApiError,
    BadResponse,
    Expired,
    NotFound,
    NotServed,
    ServerError,
    Terminal,
    TimedOut,
    Unreachable,
)
from kube.backoff import Backoff
from kube.cluster import PAGE_SIZE, Cluster, Json, Query, WatchEvent
from kube.statuses import operation

RELIST_INTERVAL = 600.0
"""Seconds between full lists, which repair whatever a watch missed (an etcd restore turns versions back)."""

WATCH_TIMEOUT = 300.0
"""Seconds after which the server is asked to end a watch. Silence and a rewind are noticed only then."""

RELIST_GAP = 1.0
"""Seconds: lists never start in quicker succession, whatever the server says."""

LONGEST_PAUSE = 20.0
"""Seconds: what an outage of any length leaves to wait for after its end, unless the server asks for more."""

HEALTHY_WATCH = 5.0
"""Seconds: a watch that ended earlier and brought no object counts as a failure, or it would spin."""

_COMPARABLE = re.compile("[1-9][0-9]*")

Record = TypeVar("Record")

_log = logging.getLogger(__name__)


class Sink(Protocol[Record]):
    """Where a reflector puts what it sees. No method may raise: a bug here ends the reflector."""

    def record(self, obj: Json) -> Record:
        """What to keep of a listed object. Called while the list is still incomplete: it must store nothing."""
        ...

    def replace(self, records: list[Record], version: str) -> None:
        """The complete list as of `version`. What is not in it is gone."""
        ...

    def changed(self, obj: Json) -> None:
        """An object as it is after having been added or modified; possibly one that is known already."""
        ...

    def deleted(self, obj: Json) -> None:
        """An object as it was last. A hint only."""
        ...

    def bookmark(self, version: str) -> None:
        """Nothing happened up to `version`."""
        ...


class Stop(Protocol):
    """The part of `threading.Event` that a reflector uses."""

    def is_set(self) -> bool:
        """Whether to end."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait for `timeout` seconds, or until the reflector has to end."""
        ...


@dataclass(frozen=True, slots=True)
class Stats:
    """What a reflector has been through, for metrics and health. Times are seconds on the reflector's clock.

    `synced` is set once the first list was complete, and stays. `last_contact` is when the server last said
    anything of use: a complete list, an event, a bookmark, the orderly end of a watch. `stalls` counts calls and
    watches that went silent, `expired` versions and tokens that were too old, `checks` the questions for the
    server's version and `rewinds` those that found it behind. `last_error` is what is in the way now, None again
    after contact.
    """

    synced: bool = False
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    expired: int = 0
    stalls: int = 0
    errors: int = 0
    checks: int = 0
    rewinds: int = 0
    last_list: float | None = None
    last_event: float | None = None
    last_contact: float | None = None
    last_error: ApiError | None = None


def needs_relist(error: ApiError, before: ApiError | None) -> bool:
    """Whether a watch that ended so is not resumed from its last version. `before`: a failure just before it.

    Expired says so itself. A watch that was refused as a request, or whose kind is gone, would be refused for
    ever; the list then shows what is wrong. An outage may end with another history. Anything else says nothing
    about the version.
    """
    if isinstance(error, Expired | NotFound | NotServed | Terminal):
        return True
    return all(isinstance(each, Unreachable | ServerError) for each in (error, before))


def is_behind(server: str, ours: str) -> bool:
    """Whether a server at version `server` has yet to reach `ours`. False for what cannot be compared (KEP-5504)."""
    if not (_COMPARABLE.fullmatch(server) and _COMPARABLE.fullmatch(ours)):
        return False
    return (len(server), server) < (len(ours), ours)


class Reflector(Generic[Record]):
    """Keeps `sink` up to date with `query` until told to stop. Intervals and timeouts are in seconds.

    `clock` is monotonic seconds, `draw` a random number in [0, 1). Create the `cluster` in this process.
    """

    def __init__(
        self,
        cluster: Cluster,
        query: Query,
        sink: Sink[Record],
        *,
        relist_interval: float = RELIST_INTERVAL,
        watch_timeout: float = WATCH_TIMEOUT,
        page_size: int = PAGE_SIZE,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._query = query
        self._sink = sink
        self._relist_interval = relist_interval
        self._watch_timeout = watch_timeout
        self._page_size = page_size
        self._backoff = backoff or Backoff(limit=LONGEST_PAUSE)
        self._clock = clock
        self._draw = draw
        self._version = ""
        self._relist_at = -math.inf
        self._listed_at = -math.inf
        self._vouched = False
        self._failures = 0
        self._stats = Stats()

    @property
    def query(self) -> Query:
        """What is followed."""
        return self._query

    @property
    def stats(self) -> Stats:
        """A snapshot, safe to take from another thread."""
        return self._stats

    @property
    def synced(self) -> bool:
        """Whether a complete list has been passed on."""
        return self._stats.synced

    def run(self, stop: Stop) -> None:
        """Follow until `stop` is set. A watch that is being read ends with its connection, not with `stop`."""
        while not stop.is_set():
            delay = self._round(stop)
            if delay > 0:
                stop.wait(delay)

    def _round(self, stop: Stop) -> float:
        """List, check or watch once. Returns the seconds to wait before the next round."""
        try:
            if self._clock() >= self._relist_at:
                self._list(stop)
            elif not self._vouched:
                return self._check()
            else:
                self._watch(stop)
        except ApiError as error:
            if stop.is_set():
                return 0.0
            return self._failed(error)
        return 0.0

    def _list(self, stop: Stop) -> None:
        """Pass on every object, or nothing at all."""
        self._listed_at = self._clock()
        records: list[Record] = []
        version = token = ""
        while not stop.is_set():
            page = self._cluster.list_page(self._query, limit=self._page_size, continue_token=token)
            records.extend(self._sink.record(obj) for obj in page.items)
            # The first page's version: should a server not serve the rest from the same snapshot, changes
            # between the pages are still to come.
            version = version or page.resource_version
            token = page.continue_token
            if not token:
                self._replace(records, version)
                return

    def _replace(self, records: list[Record], version: str) -> None:
        self._sink.replace(records, version)
        now = self._clock()
        self._version = version
        self._vouched = True
        self._relist_at = now + self._relist_interval * (1 - self._draw() / 10)
        self._note(synced=True, lists=self._stats.lists + 1, last_list=now)

    def _check(self) -> float:
        """Ask for the server's version. Returns the seconds to wait before a list that is due because of it."""
        # Without selectors, which would make the server read on until something matches.
        resource, namespace = self._query.resource, self._query.namespace
        page = self._cluster.list_page(Query(resource, namespace, metadata_only=True), limit=1)
        rewound = is_behind(page.resource_version, self._version)
        self._vouched = True
        self._note(checks=self._stats.checks + 1, rewinds=self._stats.rewinds + rewound)
        if not rewound:
            return 0.0
        title, extra = operation("watch", resource, namespace), {"action": "reflector.rewound"}
        _log.warning("%s: the server's history was rewound; listing again", title, extra=extra)
        self._relist_at = -math.inf
        return max(0.0, self._listed_at + RELIST_GAP - self._clock())

    def _watch(self, stop: Stop) -> None:
        """Follow one watch to its end. Raises BadResponse when it ended suspiciously soon."""
        started, seen = self._clock(), self._stats.events
        self._stats = replace(self._stats, watches=self._stats.watches + 1)
        self._vouched = False
        remaining = min(self._watch_timeout, self._relist_at - started)
        stream = self._cluster.watch(
            self._query, resource_version=self._version, timeout_seconds=max(1, math.ceil(remaining))
        )
        try:
            self._follow(stream, stop)
        finally:
            _close(stream)
            lasted = self._clock() - started
            self._vouched = self._vouched and lasted >= remaining
            healthy = self._stats.events > seen or lasted >= min(HEALTHY_WATCH, remaining)
            self._failures = 0 if healthy else self._failures
        if not healthy and not stop.is_set():
            title = operation("watch", self._query.resource, self._query.namespace)
            raise BadResponse(title, reason="ShortWatch", message="the server ended the watch at once")
        self._note()

    def _follow(self, stream: Iterator[WatchEvent], stop: Stop) -> None:
        for event in stream:
            if stop.is_set():
                return
            self._deliver(event)
            if self._clock() >= self._relist_at:
                return

    def _deliver(self, event: WatchEvent) -> None:
        # Not compared with the version before, which may be "higher" after an etcd restore.
        version = str(event.object["metadata"]["resourceVersion"])
        match event.type:
            case "ADDED" | "MODIFIED":
                self._sink.changed(event.object)
            case "DELETED":
                self._sink.deleted(event.object)
            case "BOOKMARK":
                self._sink.bookmark(version)
        self._version = version
        self._vouched = True
        if event.type == "BOOKMARK":
            self._note(bookmarks=self._stats.bookmarks + 1)
        else:
            self._note(events=self._stats.events + 1, last_event=self._clock())

    def _failed(self, error: ApiError) -> float:
        """Count the failure, decide what comes next and return the seconds until then."""
        self._failures += 1
        stats = self._stats
        self._stats = replace(
            stats,
            errors=stats.errors + 1,
            expired=stats.expired + isinstance(error, Expired),
            stalls=stats.stalls + isinstance(error, TimedOut),
            last_error=error,
        )
        self._vouched = False
        if needs_relist(error, stats.last_error):
            self._relist_at = -math.inf
        delay = self._backoff.delay(self._failures, error, self._draw())
        now = self._clock()
        if now + delay >= self._relist_at:
            delay = max(delay, self._listed_at + RELIST_GAP - now)
        _log.warning("%s; again in %.1f s", error, delay, extra={"action": "reflector.wait"})
        return delay

    def _note(self, **changes: Any) -> None:
        """Contact was made, and `changes` with it."""
        self._stats = replace(self._stats, last_contact=self._clock(), last_error=None, **changes)


def _close(stream: Iterator[WatchEvent]) -> None:
    close = getattr(stream, "close", None)
    if close is not None:
        close()
