"""Every fault of a stream, on a model of a server and a virtual clock, while objects change all the time.

Whatever happens: soon after the fault has ended everything is known, and lists never come in quick succession.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno import errors
from kube.cluster import Cluster, Json, Page, Query, WatchEvent, list_all
from kube.reflector import RELIST_GAP, Reflector
from kube.resources import SECRETS

QUERY = Query(SECRETS, "default", label_selector="followed=yes", metadata_only=True)

RESYNC = 30.0
"""Seconds: within which, after the end of a fault, everything has to be known."""

BEGIN = 100.0
"""When the fault begins, in seconds since the first list."""

CHANGE_SECONDS = 2.3
STEP = 0.5
PAGE = 3
GRACE = 10.0
"""Seconds after its own timeout at which a client gives a silent watch up."""


@dataclass
class Server:
    """A server with some secrets; one is added, changed or deleted every now and then."""

    fault: Fault
    draw: float
    store: Store = field(default_factory=lambda: Store(seed="first", history=100))
    now: float = 0.0
    lists_at: list[float] = field(default_factory=list)
    changes: int = 0
    active: Healthy = field(default_factory=lambda: HEALTHY)

    @property
    def direct(self) -> DirectCluster:
        return DirectCluster(self.store)

    @property
    def healed_at(self) -> float:
        return BEGIN + self.fault.seconds

    @property
    def over(self) -> bool:
        return self.now >= self.healed_at + RESYNC

    def clock(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.over

    def wait(self, timeout: float) -> bool:
        self.advance(timeout)
        return self.over

    def advance(self, seconds: float) -> None:
        """Let time pass, with the changes and the begin and end of the fault that fall into it."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + STEP)
            in_force = BEGIN <= self.now < self.healed_at
            if in_force and self.active is HEALTHY:
                self.fault.begin(self)
                self.active = self.fault
            elif not in_force and self.active is self.fault:
                self.active = HEALTHY
                self.fault.end(self)
            # An hour of changes would show nothing that the last minutes do not.
            while self.changes * CHANGE_SECONDS < min(self.now, self.healed_at, 300.0):
                self.change()

    def change(self) -> None:
        """Two of three add a secret, the third changes one and deletes another."""
        self.changes += 1
        body = {"metadata": {"name": f"s-{self.changes}", "labels": {"followed": "yes"}}}
        self.direct.create(SECRETS, "default", body)
        if self.changes % 3 == 0:
            names = sorted(self.known())
            patch = {"metadata": {"annotations": {"changed": str(self.changes)}}}
            self.direct.merge_patch(SECRETS, "default", names[-1], patch)
            self.direct.delete(SECRETS, "default", names[0])

    def known(self) -> dict[str, tuple[str, str]]:
        """What a client should know: name → UID and the last change."""
        return dict(seen(item) for item in list_all(self.direct, QUERY).items)

    def list_page(self, query: Query, *, limit: int, continue_token: str = "") -> Page:
        self.advance(0.01)
        if limit > 1 and not continue_token:
            self.lists_at.append(self.now)
        return self.active.page(self, query, limit, continue_token)

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Iterator[WatchEvent]:
        assert query is QUERY
        self.advance(0.01)
        yield from self.active.stream(self, resource_version, timeout_seconds)


class Healthy:
    """What a server answers."""

    bookmarks = True

    def page(self, server: Server, query: Query, limit: int, token: str) -> Page:
        return server.direct.list_page(query, limit=limit, continue_token=token)

    def stream(self, server: Server, version: str, seconds: int) -> Iterator[WatchEvent]:
        """Ends in good order when its time is over, or something begins."""
        end = server.now + seconds
        while server.now < end and server.active is self and not server.over:
            # A version of the future brings neither events nor bookmarks.
            if int(version) <= server.store.version:
                for event in server.direct.watch(QUERY, resource_version=version, timeout_seconds=1):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK" or self.bookmarks:
                        yield event
            server.advance(STEP)


HEALTHY = Healthy()


@dataclass
class Fault(Healthy):
    """Something that goes wrong for so many seconds."""

    seconds: float = 60.0

    def begin(self, server: Server) -> None:
        """Called once, at its begin."""

    def end(self, server: Server) -> None:
        """Called once, at its end."""


@dataclass
class Raising(Fault):
    """Lists, watches or both end in an error, after as long as the client's patience or at once."""

    error: Callable[[], errors.ApiError] = lambda: errors.ServerError("x", status=500)
    lists: bool = False
    watches: bool = True
    later_pages: bool = False
    inside: bool = False
    patience: float = 0.0

    def page(self, server: Server, query: Query, limit: int, token: str) -> Page:
        if self.lists or (self.later_pages and token):
            raise self.error()
        return super().page(server, query, limit, token)

    def stream(self, server: Server, version: str, seconds: int) -> Iterator[WatchEvent]:
        if not self.watches:
            yield from super().stream(server, version, seconds)
            return
        if self.inside:
            yield from server.direct.watch(QUERY, resource_version=version, timeout_seconds=1)
        if self.patience:
            server.advance(seconds + self.patience)
        raise self.error()


class EndingAtOnce(Fault):
    """Every watch ends in good order, without a word."""

    def stream(self, *_: Any) -> Iterator[WatchEvent]:
        return iter(())


@dataclass
class StaleList(Fault):
    """Lists show what was when the fault began, and watches are told that their version is too old."""

    past: Store | None = None

    def begin(self, server: Server) -> None:
        self.past = server.store.copy()

    def page(self, _: Server, query: Query, limit: int, token: str) -> Page:
        assert self.past is not None
        return DirectCluster(self.past).list_page(query, limit=limit, continue_token=token)

    def stream(self, *_: Any) -> Iterator[WatchEvent]:
        raise errors.Expired("watch", status=410)


@dataclass
class Restored(Fault):
    """At its end, or with nobody noticing at its begin, the server continues from an older backup.

    It gives other UIDs than before to the objects that it creates. `overtakes`: at once it has come further than it
    was before.
    """

    silent: bool = False
    overtakes: bool = False

    def begin(self, server: Server) -> None:
        self._backup = server.store.copy()
        self._backup.seed = "second"
        for _ in range(20):
            server.change()

    def end(self, server: Server) -> None:
        before, server.store = server.store.version, self._backup
        server.changes -= 20
        for _ in range(10):
            server.change()
        while self.overtakes and server.store.version <= before + 50:
            server.change()

    def page(self, server: Server, query: Query, limit: int, token: str) -> Page:
        if self.silent:
            return super().page(server, query, limit, token)
        raise errors.Unreachable("list", reason="NoConnection")

    def stream(self, server: Server, version: str, seconds: int) -> Iterator[WatchEvent]:
        if not self.silent:
            raise errors.Unreachable("watch", reason="NoConnection")
        yield from super().stream(server, version, seconds)


@dataclass
class Names:
    """A sink that keeps what it is told."""

    known: dict[str, tuple[str, str]] = field(default_factory=dict)

    def record(self, obj: Json) -> tuple[str, tuple[str, str]]:
        return seen(obj)

    def replace(self, records: list[Any], version: str) -> None:
        assert version
        self.known = dict(records)

    def changed(self, obj: Json) -> None:
        self.known |= [seen(obj)]

    def deleted(self, obj: Json) -> None:
        self.known.pop(obj["metadata"]["name"], None)

    def bookmark(self, version: str) -> None:
        assert version


def seen(obj: Json) -> tuple[str, tuple[str, str]]:
    metadata = obj["metadata"]
    return metadata["name"], (metadata["uid"], metadata.get("annotations", {}).get("changed", ""))


def raising(error: type[errors.ApiError], status: int = 0, **fields: Any) -> Callable[[], errors.ApiError]:
    return lambda: error("x", status=status, **fields)


EXPIRED, BROKEN = raising(errors.Expired, 410), raising(errors.Unreachable, reason="Broken")
FAULTS: dict[str, Callable[[], Fault]] = {
    "none": lambda: Fault(),
    "silent watches": lambda: Raising(error=raising(errors.TimedOut), patience=GRACE),
    "410 as a status": lambda: Raising(error=EXPIRED),
    "410 inside a stream": lambda: Raising(error=EXPIRED, inside=True),
    "410 for everything": lambda: Raising(error=EXPIRED, lists=True),
    "a continue token that expires": lambda: Raising(error=EXPIRED, later_pages=True),
    "a list that is cut off": lambda: Raising(error=raising(errors.BadResponse), later_pages=True),
    "watches that end at once": EndingAtOnce,
    "watches that break": lambda: Raising(error=BROKEN, inside=True),
    "garbage": lambda: Raising(error=raising(errors.BadResponse), lists=True),
    "429": lambda: Raising(error=raising(errors.Throttled, 429, retry_after=7.0), lists=True),
    "500": lambda: Raising(lists=True),
    "500 for watches alone": lambda: Raising(),
    "500 for lists alone": lambda: Raising(lists=True, watches=False),
    "403": lambda: Raising(error=raising(errors.Forbidden, 403), lists=True),
    "404": lambda: Raising(error=raising(errors.NotServed, 404), lists=True),
    "an outage of an hour": lambda: Raising(error=raising(errors.Unreachable), lists=True, seconds=3600),
    "a stale list": StaleList,
    "a restore": Restored,
    "a restore that has overtaken": lambda: Restored(overtakes=True),
    "a restore that no request met": lambda: Restored(silent=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize(("bookmarks", "draw"), [(True, 0.0), (False, 0.999)], ids=["bookmarks", "no bookmarks"])
def test_everything_is_known_within_a_resync_of_the_end_of_a_fault(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[], Fault], bookmarks: bool, draw: float
) -> None:
    monkeypatch.setattr(Healthy, "bookmarks", bookmarks)
    server, sink = Server(fault(), draw), Names()
    reflector = Reflector(
        cast(Cluster, server),
        QUERY,
        sink,
        relist_interval=10_000.0,
        watch_timeout=RESYNC / 2,
        page_size=PAGE,
        clock=server.clock,
        draw=lambda: draw,
    )
    reflector.run(server)
    assert sink.known == server.known()
    assert server.changes > 50
    assert all(later - earlier >= RELIST_GAP for earlier, later in pairwise(server.lists_at))
