"""The watcher of a simulation: the real cache, agenda and rules, told of the stores as late or as little as asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from devcluster.direct import DirectCluster
from devcluster.lists import ListOptions, list_objects
from devcluster.objects import decode
from eno.scope import Scope
from kube.cluster import Json, Query, WatchEvent
from tests.simulation.queueing import FASTER
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import CacheSink, Follower, Queue
from watcher.keys import Kind
from watcher.process import queries
from watcher.records import Record, Unreadable

RESYNC = timedelta(seconds=30) / FASTER
RELIST = timedelta(minutes=10) / FASTER


_encode = msgspec.json.Encoder().encode


class Leader:
    """Leads for ever: correctness never depends on who does."""

    def require(self) -> None:
        """See `watcher.follow.Leadership`."""


class SharedSink(CacheSink):
    """Reads each version of an object once for all watchers of all machines."""

    _records: ClassVar[dict[tuple[Kind, Scope, bytes], Record | Unreadable]] = {}

    def record(self, obj: Json) -> Record | Unreadable:
        key = (self._kind, self._scope, _encode(obj))
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = super().record(obj)
        return found

    @classmethod
    def forget(cls) -> None:
        """Read everything anew: the rules are other ones now."""
        cls._records.clear()


class Watcher:
    """One watcher process. `told` decides about each event by its number: False drops it."""

    def __init__(self, scope: Scope, queue: Queue, clock: Callable[[], datetime]) -> None:
        self.scope = scope
        self.queries = queries(scope)
        self.cursors: dict[Kind, int] = {}
        self.relist_at: datetime | None = None
        self.held: frozenset[Kind] = frozenset()
        self.missed = False
        self._use(Cache(), Agenda(), queue, clock, listed=False)

    def _use(self, cache: Cache, agenda: Agenda, queue: Queue, clock: Callable[[], datetime], *, listed: bool) -> None:
        self.cache, self.agenda = cache, agenda
        self.sinks = {kind: SharedSink(kind, self.scope, cache, agenda) for kind in self.queries}
        for sink in self.sinks.values():
            sink._listed = listed
        self.follower = Follower(self.scope, cache, agenda, queue, Leader(), clock=clock, resync=RESYNC)

    def fork(self, queue: Queue, clock: Callable[[], datetime]) -> Watcher:
        """The same process on another machine."""
        twin = object.__new__(Watcher)
        twin.scope, twin.queries = self.scope, self.queries
        twin.cursors = dict(self.cursors)
        twin.relist_at, twin.held, twin.missed = self.relist_at, self.held, self.missed
        twin._use(_copied_cache(self.cache), _copied_agenda(self.agenda), queue, clock, listed=True)
        return twin

    def identity(self) -> Hashable:
        """With an undisturbed view of the same stores: equal for watchers that go on alike."""
        agenda = self.agenda
        return (
            tuple(sorted(agenda._later.items())),
            tuple(sorted(agenda._slices_changed)),
            tuple(agenda._due),
            self.relist_at,
        )

    def undisturbed(self, up: DirectCluster, down: DirectCluster) -> bool:
        """Whether it was told everything."""
        if self.missed or self.held:
            return False
        return all(cursor == _cluster(kind, up, down).store.version for kind, cursor in self.cursors.items())

    def list_all(self, up: DirectCluster, down: DirectCluster, *, stale: dict[Kind, int] | None = None) -> None:
        """A complete list of each kind, `stale` ones at an older version, from which the watch goes on."""
        for kind, query in self.queries.items():
            cluster = _cluster(kind, up, down)
            version = (stale or {}).get(kind, cluster.store.version)
            records = [self.sinks[kind].record(item) for item in _listed(cluster, query, version)]
            self.sinks[kind].replace(records, str(version))
            self.cursors[kind] = version
        self.missed = False
        self.relist_at = None

    def events(self, up: DirectCluster, down: DirectCluster) -> Iterator[tuple[Kind, WatchEvent]]:
        """What has happened since the last call, kind by kind, without the kinds that are held."""
        for kind, query in self.queries.items():
            cluster = _cluster(kind, up, down)
            version = self.cursors[kind]
            if kind in self.held or version == cluster.store.version:
                continue
            self.cursors[kind] = cluster.store.version
            for event in cluster.watch(query, resource_version=str(version), timeout_seconds=1):
                if event.type != "BOOKMARK":
                    yield kind, event

    def tell(self, kind: Kind, event: WatchEvent) -> None:
        """Let it hear of an event."""
        if event.type == "DELETED":
            self.sinks[kind].deleted(event.object)
        else:
            self.sinks[kind].changed(event.object)

    def look_at_everything(self) -> None:
        """As if every object had had an event."""
        self.agenda.look(self.cache.everything(), changed=True, slices_changed=True)

    def next_instant(self) -> datetime | None:
        """When it would look again by itself."""
        instants = [*self.agenda._later.values(), *([self.relist_at] if self.relist_at else [])]
        return min(instants, default=None)

    def waits(self, now: datetime) -> list[datetime]:
        """When a relist is due, and the ends of waits that are longer than a resync."""
        later = [instant for instant in self.agenda._later.values() if instant > now + RESYNC]
        return later + ([self.relist_at] if self.relist_at else [])

    def step(self) -> None:
        """Enqueue whatever is due."""
        while self.follower.step() is not None:
            pass


def _cluster(kind: Kind, up: DirectCluster, down: DirectCluster) -> DirectCluster:
    return down if kind is Kind.INVENTORY else up


def _listed(cluster: DirectCluster, query: Query, version: int) -> list[dict[str, object]]:
    resource = query.resource
    kind = cluster.store.kind(resource.group, resource.plural)
    if kind is None:
        raise AssertionError(f"{resource.plural} are not served")
    options = ListOptions(
        query.namespace, query.label_selector, query.field_selector, version=str(version), match="Exact"
    )
    found = list_objects(cluster.store, kind, options)
    return [decode(item.partial() if query.metadata_only else item.listed(kind)) for item in found.items]


def _copied_cache(cache: Cache) -> Cache:
    """Records are immutable, so three dictionaries are all there is to copy."""
    twin = Cache()
    twin._records = dict(cache._records)
    twin._unreadable = dict(cache._unreadable)
    twin._inventories_listed = cache._inventories_listed
    targets = cache._referrers._by_target
    twin._referrers._by_target = {
        key: set(found) if isinstance(found, set) else found for key, found in targets.items()
    }
    return twin


def _copied_agenda(agenda: Agenda) -> Agenda:
    twin = Agenda()
    twin._due = agenda._due.copy()
    twin._later = dict(agenda._later)
    twin._heap = list(agenda._heap)
    twin._slices_changed = set(agenda._slices_changed)
    twin._now = agenda._now
    return twin
