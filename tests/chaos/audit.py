"""The promises, checked on every version of every object that the API server ever showed during a run.

An `Auditor` follows compositions, slices and Secrets from before the first write to after the last one, in the order
of their versions. It knows nothing of workers, and of the rules only what it takes to read an object.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

from eno.decision import finished
from eno.errors import ApiError
from eno.identity import ResourceId, parse_head
from eno.inventory.replacement import Inventory
from eno.inventory.secrets import LINEAGE_KEY, StoredChunk, read
from eno.objects import Composition, ResourceSlice
from eno.scope import Scope
from kube.cluster import Cluster, Json, Query, WatchEvent, list_all
from kube.http import HttpCluster
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS, Resource
from runtime.messages import Message
from tests.support.waiting import until
from watcher.cache import Cache
from watcher.derive import derive
from watcher.process import queries
from watcher.records import read as read_record

FOLLOWED = (COMPOSITIONS, RESOURCE_SLICES, SECRETS)
HOUR = 3600


class Auditor:
    """Follows while its block runs, and judges with `violations` what it saw."""

    def __init__(self, cluster: Cluster, versions: dict[Resource, str]) -> None:
        self._cluster = cluster
        self._from = versions
        self._events: dict[Resource, list[WatchEvent]] = {resource: [] for resource in FOLLOWED}

    def follow(self, resource: Resource) -> None:
        """Take in every event of a resource until the connections are dropped."""
        query, version = Query(resource), self._from[resource]
        try:
            with closing(self._cluster.watch(query, resource_version=version, timeout_seconds=HOUR)) as events:
                self._events[resource].extend(event for event in events if event.type != "BOOKMARK")
        except ApiError:
            """The end of the block."""

    def violations(self) -> list[str]:
        """Every promise that was broken, in the order of the writes that broke it."""
        for resource in FOLLOWED:
            self._catch_up(resource)
        history = History()
        events = [event for each in self._events.values() for event in each]
        events.sort(key=lambda event: _version(event.object))
        return [finding for event in events for finding in history.see(event)] + history.duplicates()

    def _catch_up(self, resource: Resource) -> None:
        newest = max((_version(item) for item in list_all(self._cluster, Query(resource)).items), default=0)
        seen = self._events[resource]
        until(lambda: newest == 0 or (seen and _version(seen[-1].object) >= newest), f"{resource.plural} were seen")


@contextmanager
def auditing(cluster: HttpCluster) -> Iterator[Auditor]:
    """An auditor on connections of its own: those of `cluster` are dropped at the end of the block."""
    auditor = Auditor(cluster, {each: list_all(cluster, Query(each)).resource_version for each in FOLLOWED})
    threads = [threading.Thread(target=auditor.follow, args=(each,), daemon=True) for each in FOLLOWED]
    for thread in threads:
        thread.start()
    try:
        yield auditor
    finally:
        cluster.close()
        for thread in threads:
            thread.join(30)


class History:
    """All objects at one instant, and what the next write does to them."""

    def __init__(self) -> None:
        self._compositions: dict[str, Composition] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._secrets: dict[str, StoredChunk] = {}
        self._remembered: set[tuple[str, str]] = set()
        self._decisions: Counter[tuple[str, str, str]] = Counter()

    def see(self, event: WatchEvent) -> list[str]:
        """What the write broke."""
        gone = event.type == "DELETED"
        match event.object["kind"]:
            case "Composition":
                return self._composition(Composition.from_json(event.object), gone=gone)
            case "ResourceSlice":
                return self._slice(ResourceSlice.from_json(event.object), gone=gone)
            case _:
                return self._secret(event.object, gone=gone)

    def duplicates(self) -> list[str]:
        """Objects and decisions that there should be one of."""
        identities = Counter((each.source, each.index) for each in self._secrets.values())
        overflow = Counter(
            (each.owner and each.owner.uid, tuple(entry.manifest for entry in each.resources))
            for each in self._slices.values()
            if each.labels and all(entry.deleted for entry in each.resources)
        )
        twice = [
            key for counter in (identities, overflow, self._decisions) for key, count in counter.items() if count > 1
        ]
        return [f"there twice: {each}" for each in twice]

    def _composition(self, after: Composition, *, gone: bool) -> list[str]:
        before = self._compositions.pop(after.title, None)
        if gone:
            return []
        self._compositions[after.title] = after
        current, old = after.current, before.current if before else None
        if current is None:
            return []
        same = old is not None and old.uuid == current.uuid
        if finished(current) and not (same and old and finished(old)):
            self._decisions[after.title, after.uid, current.uuid] += 1
        broken = []
        became_ready = before and same and old and (current.ready, current.reconciled) != (old.ready, old.reconciled)
        if became_ready and (current.ready or current.reconciled) and after.opted_in and not finished(current):
            broken.append(f"P2: {after.title} was called ready before its decision")
        if same and old and finished(old) and current.recovery != old.recovery:
            broken.append(f"P2: the decision of {after.title} was changed")
        return broken

    def _slice(self, after: ResourceSlice, *, gone: bool) -> list[str]:
        before = self._slices.pop(after.title, None)
        if gone:
            return self._deleted(after)
        self._slices[after.title] = after
        old = before.resources if before else ()
        if after.resources[: len(old)] != old:
            return [f"P1: entries of {after.title} were changed instead of appended to"]
        added = [_identity(each.manifest) for each in after.resources[len(old) :] if each.deleted]
        if not added:
            return []
        wanted = self._wanted(after)
        all_buried = Counter(self._buried(after))
        broken = [f"P1: {after.title} buries {each}, which is wanted" for each in added if each in wanted]
        return broken + [f"P1: {after.title} buries {each} twice" for each in added if all_buried[each] > 1]

    def _deleted(self, gone: ResourceSlice) -> list[str]:
        owner = self._compositions.get(f"{gone.namespace}/{gone.owner.name}") if gone.owner else None
        if owner is None or gone.owner is None or owner.uid != gone.owner.uid:
            return []
        named = [each for part in (owner.current, owner.previous) if part for each in part.slice_names]
        return [f"P4: {gone.title} was deleted although {owner.title} refers to it"] if gone.name in named else []

    def _secret(self, obj: Json, *, gone: bool) -> list[str]:
        stored = read(obj)
        if not isinstance(stored, StoredChunk):
            return []
        self._secrets.pop(stored.name, None)
        if not gone:
            self._secrets[stored.name] = stored
        lineage, name = str(obj["metadata"]["labels"][LINEAGE_KEY]), stored.source.composition
        complete = Inventory(tuple(self._secrets.values())).snapshots(name)
        if complete:
            self._remembered.add((lineage, name))
            return []
        claimed = f"{stored.source.namespace}/{name}" in self._compositions
        lost = claimed and (lineage, name) in self._remembered
        return [f"P3: no complete snapshot of {name} is left"] if lost else []

    def _wanted(self, about: ResourceSlice) -> set[ResourceId]:
        """What the current syntheses of the lineage want that the slice's owner belongs to."""
        owner = next(each for each in self._compositions.values() if about.owner and each.uid == about.owner.uid)
        family = [each for each in self._compositions.values() if each.synthesizer == owner.synthesizer]
        named = {f"{each.namespace}/{name}" for each in family if each.current for name in each.current.slice_names}
        slices = [self._slices[each] for each in named if each in self._slices]
        return {_identity(entry.manifest) for each in slices for entry in each.resources if not entry.deleted}

    def _buried(self, about: ResourceSlice) -> list[ResourceId]:
        """Every tombstone that the owner has, referred to or not."""
        uid = about.owner.uid if about.owner else ""
        slices = [each for each in self._slices.values() if each.owner and each.owner.uid == uid]
        return [_identity(entry.manifest) for each in slices for entry in each.resources if entry.deleted]


def unfinished(cluster: Cluster, scope: Scope, *, ahead: timedelta = timedelta(0)) -> list[Message]:
    """What a watcher would enqueue that starts now, or so much later if nothing changes until then."""
    cache = Cache()
    looks = [
        cache.replace(kind, [read_record(kind, item, scope) for item in list_all(cluster, query).items])
        for kind, query in queries(scope).items()
    ]
    now = datetime.now(UTC) + ahead
    return [task for key in set().union(*looks) for task in derive(cache.subject(key), now, scope).tasks]


def touch_everything(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """An event for every object that the watcher follows."""
    places = [(COMPOSITIONS, each) for each in namespaces] + [(RESOURCE_SLICES, each) for each in namespaces]
    for resource, namespace in [*places, (SECRETS, "kube-system")]:
        for item in list_all(cluster, Query(resource, namespace)).items:
            patch = {"metadata": {"annotations": {"touched": datetime.now(UTC).isoformat()}}}
            cluster.merge_patch(resource, namespace, item["metadata"]["name"], patch)


def decisions(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The terminal decision of every composition that has one."""
    found: dict[str, str] = defaultdict(str)
    for item in list_all(cluster, Query(COMPOSITIONS, namespace)).items:
        current = Composition.from_json(item).current
        if current is not None and finished(current) and current.recovery is not None:
            found[item["metadata"]["name"]] = str(current.recovery.reason)
    return found


def _identity(text: str) -> ResourceId:
    return parse_head(text).id


def _version(obj: Json) -> int:
    """Opaque everywhere else; the API server of the rig counts."""
    return int(obj["metadata"]["resourceVersion"])
