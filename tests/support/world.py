"""An upstream and a downstream cluster in memory, a clock that only a test moves, and the handlers' context."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.inventory.entries import Entry
from eno.inventory.secrets import lineage
from eno.objects import Composition, ResourceSlice
from kube.cluster import Query, list_all
from kube.resources import COMPOSITIONS, EVENTS, NAMESPACES, RESOURCE_SLICES, SECRETS, Resource
from runtime.messages import (
    CleanupMessage,
    GateMessage,
    Message,
    RecordMessage,
    RecoverMessage,
    RetireMessage,
    TaskName,
    parse,
)
from runtime.settings import Settings
from tests.support.factories import (
    NAMESPACE,
    NOW,
    SYNTHESIZER,
    UUID,
    Json,
    composition_json,
    inventory,
    slice_json,
    synthesis,
)
from tests.support.tap import Tap
from workers.context import Context


@dataclass
class Clock:
    """A clock that stands still until a test moves it."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **delta: float) -> None:
        """Move it by a timedelta's arguments."""
        self.now += timedelta(**delta)


@dataclass
class Counted:
    """Counts corrections in memory: `workers.context.Corrections` by the clock of a test."""

    clock: Clock
    noted: dict[str, list[datetime]] = field(default_factory=dict)

    def note(self, key: str) -> int:
        """See `workers.context.Corrections`."""
        recent = [each for each in self.noted.get(key, []) if self.clock.now - each < timedelta(minutes=1)]
        self.noted[key] = [*recent, self.clock.now]
        return len(self.noted[key])


@cache
def _empty_store() -> Store:
    store = Store(clock=lambda: NOW, seed="tests")
    load_definitions(store, [definitions.development_directory()])
    kind = store.kind(NAMESPACES.group, NAMESPACES.plural)
    assert kind is not None
    store.create(kind, None, {"metadata": {"name": NAMESPACE}})
    return store


@dataclass
class World:
    """Two clusters, as handlers see them (`upstream`, `downstream`) and behind their back (`up`, `down`)."""

    clock: Clock = field(default_factory=Clock)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.corrections = Counted(self.clock)
        self._use(_empty_store(), _empty_store())

    def fork(self) -> World:
        """An independent world with the same objects; clock, settings and counts are shared."""
        twin = copy(self)
        twin._use(self.up.store, self.down.store)
        return twin

    def _use(self, upstream: Store, downstream: Store) -> None:
        self.up = DirectCluster(upstream.copy(clock=self.clock))
        self.down = DirectCluster(downstream.copy(clock=self.clock))
        self.upstream = Tap(self.up)
        self.downstream = Tap(self.down)

    @property
    def context(self) -> Context:
        """What handlers are called with."""
        return Context(self.upstream, self.downstream, self.clock, self.loaded, self.corrections)

    @cached_property
    def loaded(self) -> Settings:
        """Recovery enabled in NAMESPACE, with whatever the test changes."""
        return Settings.load(**{"pod_namespace": NAMESPACE, "enable_tombstone_recovery": True, **self.settings})

    @property
    def writes(self) -> list[str]:
        """Every write the handlers made, Events excluded."""
        return [*self.upstream.writes, *self.downstream.writes]

    def add_composition(self, name: str = "shop", **fields: Any) -> Composition:
        """Create a composition with its status, a synthesized current synthesis unless one is given."""
        body = composition_json(name, uid=None, **{"current": synthesis(), **fields})
        created = self.up.create(COMPOSITIONS, body["metadata"]["namespace"], body)
        created["status"] = body["status"]
        self.up.update(
            COMPOSITIONS, body["metadata"]["namespace"], body["metadata"]["name"], created, subresource="status"
        )
        return self.composition(name)

    def add_slice(
        self, name: str, manifests: Sequence[str | tuple[str, bool]] = (), *, owner: str | None = "shop", **fields: Any
    ) -> ResourceSlice:
        """Create a slice that the owner, if it exists, controls; `uid` is another owner's."""
        uids = [item["metadata"]["uid"] for item in self.all(COMPOSITIONS) if item["metadata"]["name"] == owner]
        body = slice_json(name, manifests, owner=owner, **{"uid": uids[0] if uids else "gone", **fields})
        for key in ("uid", "resourceVersion"):
            del body["metadata"][key]
        created = self.up.create(RESOURCE_SLICES, NAMESPACE, body)
        if "status" in body:
            created["status"] = body["status"]
            self.up.update(RESOURCE_SLICES, NAMESPACE, name, created, subresource="status")
        return self.slice(name)

    def remember(self, entries: Sequence[Entry], **source: Any) -> list[Json]:
        """Store a snapshot downstream, and return its Secrets."""
        stored = []
        for secret in inventory(entries, **source):
            for key in ("uid", "resourceVersion"):
                del secret["metadata"][key]
            stored.append(self.down.create(SECRETS, "kube-system", secret))
        return stored

    def composition(self, name: str = "shop") -> Composition:
        """The composition as it is now."""
        return Composition.from_json(self.up.get(COMPOSITIONS, NAMESPACE, name))

    def slice(self, name: str) -> ResourceSlice:
        """The slice as it is now."""
        return ResourceSlice.from_json(self.up.get(RESOURCE_SLICES, NAMESPACE, name))

    def decision(self, name: str = "shop") -> Json | None:
        """The published decision."""
        status = self.up.get(COMPOSITIONS, NAMESPACE, name)["status"]["currentSynthesis"]
        found: Json | None = status.get("tombstoneRecoveryStatus")
        return found

    def tombstones(self, name: str = "shop") -> list[str]:
        """The names that tombstones of the current synthesis stand for, slice by slice."""
        current = self.composition(name).current
        assert current is not None
        return [
            json.loads(each.manifest)["metadata"]["name"]
            for reference in current.slice_names
            if reference
            for each in self.slice(reference).resources
            if each.deleted
        ]

    def all(self, resource: Resource, namespace: str | None = None) -> list[Json]:
        """Every object of a kind upstream."""
        return list_all(self.up, Query(resource, namespace)).items

    def secrets(self) -> list[Json]:
        """Every Secret downstream."""
        return list_all(self.down, Query(SECRETS)).items

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of every Event."""
        return [(each["type"], each["reason"], each["message"]) for each in self.all(EVENTS)]

    def patch_composition(self, name: str = "shop", *, subresource: str = "", **fields: Any) -> None:
        """Change a composition behind the handlers' back (merge patch)."""
        self.up.merge_patch(COMPOSITIONS, NAMESPACE, name, fields, subresource=subresource)


def recover_message(composition: Composition, uuid: str = UUID, **fields: Any) -> RecoverMessage:
    """The message that the watcher would send."""
    message = _about(TaskName.RECOVER, composition, uuid, fields)
    assert isinstance(message, RecoverMessage)
    return message


def record_message(composition: Composition, uuid: str = UUID, **fields: Any) -> RecordMessage:
    """The message that the watcher would send."""
    message = _about(TaskName.RECORD, composition, uuid, fields)
    assert isinstance(message, RecordMessage)
    return message


def retire_message(namespace: str = NAMESPACE, synthesizer: str = SYNTHESIZER) -> RetireMessage:
    """The message that the watcher would send."""
    return RetireMessage(namespace=namespace, lineage=lineage(namespace, synthesizer))


def _about(task: TaskName, composition: Composition, uuid: str, fields: Mapping[str, Any]) -> Message:
    payload = {
        "namespace": composition.namespace,
        "name": composition.name,
        "uid": composition.uid,
        "synthesis_uuid": uuid,
        **fields,
    }
    return parse(task, payload)


def gate_message(composition: Composition, uuid: str = UUID, **fields: Any) -> GateMessage:
    """The message that the watcher would send."""
    message = _about(TaskName.GATE, composition, uuid, fields)
    assert isinstance(message, GateMessage)
    return message


def cleanup_message(*slices: str, uid: str, uuid: str = UUID, name: str = "shop", **fields: Any) -> CleanupMessage:
    """The message that the watcher would send about slices whose owner has this name and UID."""
    payload = {"namespace": NAMESPACE, "name": name, "uid": uid, "synthesis_uuid": uuid, "slices": slices, **fields}
    message = parse(TaskName.CLEANUP, payload)
    assert isinstance(message, CleanupMessage)
    return message
