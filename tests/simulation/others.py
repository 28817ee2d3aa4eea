"""What everybody else does to the clusters: Eno's controllers in one go, people, and the garbage collector.

Every act takes whatever it finds: a plan may have changed the world before it. All go behind the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from devcluster.direct import DirectCluster
from devcluster.eno import Eno
from devcluster.eno_synthesis import synthesis_due
from devcluster.garbage import sweep
from devcluster.store import Store
from eno.decision import Reason
from eno.errors import NotFound
from eno.identity import ResourceId, parse_head
from eno.inventory.entries import Entry
from eno.objects import (
    CLEANUP_FINALIZER,
    DELETION_STRATEGY_ANNOTATION,
    OPT_IN_ANNOTATION,
    Composition,
    ResourceSlice,
)
from kube.cluster import Json
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from tests.simulation.state import composition_views, slice_views
from tests.support.factories import NAMESPACE, SYNTHESIZER, inventory


@dataclass
class Others:
    """Acts on the two clusters at the time of `clock`.

    `desired` are the manifests that Eno synthesizes, by composition; `paused` the controllers that do nothing:
    `synthesize`, `publish`, `reconcile`, `finish`. `hasty`: they are loaded without waiting for a decision. `made` are
    slices that are not published yet. `resources` are what exists downstream: what all this is about.
    """

    up: DirectCluster
    down: DirectCluster
    clock: Callable[[], datetime]
    desired: dict[str, tuple[str, ...]] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    hasty: bool = False
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)
    resources: frozenset[ResourceId] = frozenset()
    uuids: int = 0
    seen: int = -1

    def fork(self, up: DirectCluster, down: DirectCluster, clock: Callable[[], datetime]) -> Others:
        """The same on other clusters."""
        return replace(self, up=up, down=down, clock=clock, desired=dict(self.desired), made=dict(self.made))

    @property
    def eno(self) -> Eno:
        return Eno(self.up, self.clock, self._uuid)

    def _uuid(self) -> str:
        self.uuids += 1
        return f"uuid-{self.uuids}"

    # Eno and the garbage collector

    def work(self) -> None:
        """Every controller, until none has anything left to do."""
        store = self.up.store
        while self.seen != store.version:
            self.seen = store.version
            for view, obj in composition_views(store):
                if view.name in self.desired:
                    self._controllers(view, obj)
            if _orphans(store):
                sweep(store)

    def _controllers(self, view: Composition, obj: Json) -> None:
        """One pass of each controller that has something to do, with what one of them has left for the next."""
        eno, where = self.eno, (view.namespace, view.name)
        if not view.deleting and CLEANUP_FINALIZER not in view.metadata.finalizers:
            eno.adopt(*where)
        if "synthesize" not in self.paused and _wants_synthesis(view, obj):
            self.synthesize(view.name, view.namespace)
        if "reconcile" not in self.paused and self._wants_loading(view):  # noqa: SIM102
            if eno.reconcile(*where, waits=not self.hasty):
                self._carry_out(*where)
        if view.deleting and "finish" not in self.paused:
            with suppress(NotFound):
                eno.finish_deletion(*where)

    def _wants_loading(self, view: Composition) -> bool:
        if view.current is None or view.current.synthesized is None:
            return False
        slices = slice_views(self.up.store)
        found = [slices.get(f"{view.namespace}/{name}") for name in view.current.slice_names if name]
        return any(each is not None and not _loaded(each, view) for each in found)

    def _carry_out(self, namespace: str, name: str) -> None:
        """What the states of the current slices say has been applied or deleted."""
        found = set(self.resources)
        for each in self.current_slices(name, namespace):
            view = slice_views(self.up.store)[f"{namespace}/{each}"]
            for entry, state in zip(view.resources, view.states, strict=False):
                if state.reconciled:
                    identity = parse_head(entry.manifest).id
                    (found.discard if state.deleted else found.add)(identity)
        self.resources = frozenset(found)

    def synthesize(self, name: str, namespace: str = NAMESPACE) -> None:
        """Whatever is due of a synthesis: its start, its slices, its publication."""
        self.start(name, namespace)
        view = self._composition(name, namespace)
        if view is None or view.in_flight is None or view.in_flight.canceled or "publish" in self.paused:
            return
        names = self.made.pop(view.in_flight.uuid, None)
        if names is None:
            names = tuple(self.eno.write_slices(namespace, name, self.desired.get(name, ())))
        self.eno.publish(namespace, name, view.in_flight.uuid, names)

    def slice(self, name: str, namespace: str = NAMESPACE) -> None:
        """The slices of the synthesis in flight are made, and nothing refers to them yet."""
        view = self._composition(name, namespace)
        if view is not None and view.in_flight is not None and view.in_flight.uuid not in self.made:
            made = self.eno.write_slices(namespace, name, self.desired.get(name, ()))
            self.made[view.in_flight.uuid] = tuple(made)

    def start(self, name: str, namespace: str = NAMESPACE) -> None:
        """A synthesis is in flight, if one is due."""
        with suppress(NotFound):
            self.eno.dispatch(namespace, name)

    # People

    def create(self, name: str, manifests: Sequence[str] = (), *, opted_in: bool = True, **metadata: Any) -> None:
        """A composition is created, if there is none of that name."""
        self.desired[name] = tuple(manifests)
        notes = {**({OPT_IN_ANNOTATION: "true"} if opted_in else {}), **metadata.pop("annotations", {})}
        namespace = metadata.pop("namespace", NAMESPACE)
        synthesizer = metadata.pop("synthesizer", SYNTHESIZER)
        if self._composition(name, namespace) is None:
            body = {
                "apiVersion": COMPOSITIONS.api_version,
                "kind": COMPOSITIONS.kind,
                "metadata": {"name": name, "namespace": namespace, "annotations": notes, **metadata},
                "spec": {"synthesizer": {"name": synthesizer}},
            }
            self.up.create(COMPOSITIONS, namespace, body)

    def change(self, name: str, manifests: Sequence[str]) -> None:
        """Its spec is changed, and with it what its synthesizer makes of it."""
        self.desired[name] = tuple(manifests)
        self.uuids += 1
        self._patch(name, {"spec": {"synthesisEnv": [{"name": "REVISION", "value": str(self.uuids)}]}})

    def annotate(self, name: str, **notes: str | None) -> None:
        """Annotations are set, None removes one. `_` stands for what a keyword cannot hold."""
        self._patch(name, {"metadata": {"annotations": {_long(key): value for key, value in notes.items()}}})

    def opt_in(self, name: str) -> None:
        """The opt-in is given."""
        self._patch(name, {"metadata": {"annotations": {OPT_IN_ANNOTATION: "true"}}})

    def opt_out(self, name: str) -> None:
        """The opt-in is taken back."""
        self._patch(name, {"metadata": {"annotations": {OPT_IN_ANNOTATION: None}}})

    def delete(self, name: str, namespace: str = NAMESPACE) -> None:
        """A composition is deleted the ordinary way: its finalizer holds it until everything is reconciled."""
        with suppress(NotFound):
            self.up.delete(COMPOSITIONS, namespace, name)

    def vanish(self, name: str, namespace: str = NAMESPACE) -> None:
        """A composition is forced out: its finalizers are removed, and its slices go with it, by force as well."""
        view = self._composition(name, namespace)
        if view is None:
            return
        for each in slice_views(self.up.store).values():
            if each.owner is not None and each.owner.uid == view.uid:
                self.lose_slice(each.name, namespace)
        self._patch(name, {"metadata": {"finalizers": None}}, namespace)
        self.delete(name, namespace)

    def recreate(self, name: str) -> None:
        """Deleted by force, and created again under the same name."""
        view = self._composition(name)
        self.vanish(name)
        opted_in = view is None or view.opted_in
        self.create(name, self.desired.get(name, ()), opted_in=opted_in)

    def lose_slice(self, name: str, namespace: str = NAMESPACE) -> None:
        """A slice is gone at once."""
        with suppress(NotFound):
            self.up.merge_patch(RESOURCE_SLICES, namespace, name, {"metadata": {"finalizers": None}})
            self.up.delete(RESOURCE_SLICES, namespace, name)

    def delete_slice(self, name: str, namespace: str = NAMESPACE) -> None:
        """A slice is deleted, and terminating as long as its finalizer is there."""
        with suppress(NotFound):
            self.up.delete(RESOURCE_SLICES, namespace, name)

    def current_slices(self, name: str, namespace: str = NAMESPACE) -> list[str]:
        """The names of the current slices that are there."""
        view = self._composition(name, namespace)
        names = [each for each in view.current.slice_names if each] if view and view.current else []
        there = slice_views(self.up.store)
        return [each for each in names if f"{namespace}/{each}" in there]

    def claim_ready(self, name: str) -> None:
        """Another aggregator calls the current synthesis ready and reconciled."""
        view = self._composition(name)
        if view is None or view.current is None:
            return
        now = self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {"currentSynthesis": {"ready": now, "reconciled": now}}}
        self.up.merge_patch(COMPOSITIONS, NAMESPACE, name, body, subresource="status")

    def decide(self, name: str, reason: Reason) -> None:
        """A decision is published by hand."""
        view = self._composition(name)
        if view is not None and view.current is not None:
            decision = {"status": True, "reason": str(reason), "synthesisUUID": view.current.uuid}
            body = {"status": {"currentSynthesis": {"tombstoneRecoveryStatus": decision}}}
            self.up.merge_patch(COMPOSITIONS, NAMESPACE, name, body, subresource="status")

    def patch_status(self, name: str, status: Json) -> None:
        """The status of a composition is changed."""
        with suppress(NotFound):
            self.up.merge_patch(COMPOSITIONS, NAMESPACE, name, {"status": status}, subresource="status")

    def remember(self, entries: Sequence[Entry], **source: Any) -> list[Json]:
        """A snapshot is stored downstream, as an earlier life of the composition left it."""
        self.resources |= {each.id for each in entries}
        stored = []
        for secret in inventory(entries, **source):
            for key in ("uid", "resourceVersion"):
                del secret["metadata"][key]
            stored.append(self.down.create(SECRETS, "kube-system", secret))
        return stored

    def add_slice(self, body: Json) -> None:
        """A slice is created by hand."""
        self.up.create(RESOURCE_SLICES, body["metadata"].get("namespace", NAMESPACE), body)

    def _json(self, name: str, namespace: str = NAMESPACE) -> Json:
        return self.up.get(COMPOSITIONS, namespace, name)

    def _composition(self, name: str, namespace: str = NAMESPACE) -> Composition | None:
        try:
            return Composition.from_json(self._json(name, namespace))
        except NotFound:
            return None

    def _patch(self, name: str, body: Json, namespace: str = NAMESPACE) -> None:
        with suppress(NotFound):
            self.up.merge_patch(COMPOSITIONS, namespace, name, body)


def _wants_synthesis(view: Composition, obj: Json) -> bool:
    status = obj.get("status") or {}
    latest = status.get("inFlightSynthesis") or status.get("currentSynthesis") or {}
    in_flight = view.in_flight is not None and view.in_flight.canceled is None
    return in_flight or synthesis_due(view, latest.get("observedCompositionGeneration", 0))


def _loaded(each: ResourceSlice, composition: Composition) -> bool:
    deleted = composition.deleting and composition.annotations.get(DELETION_STRATEGY_ANNOTATION) != "orphan"
    whole = len(each.states) >= len(each.resources)
    return whole and all(state.reconciled and (state.deleted or not deleted) for state in each.states)


def _orphans(store: Store) -> bool:
    living = {view.uid for view, _ in composition_views(store)}
    for each in slice_views(store).values():
        owners = each.metadata.owner_references
        if owners and not each.deleting and not any(owner.uid in living for owner in owners):
            return True
    return False


def _long(key: str) -> str:
    return f"eno.azure.io/{key.replace('_', '-')}"
