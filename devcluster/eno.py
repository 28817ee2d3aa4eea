"""A small stand-in for Eno's own controllers, so that Sexton meets what it was made for.

Every method is one pass of one controller over the `Cluster` protocol: it reads, writes what that controller
would write, and returns. Nothing runs in the background and nothing is remembered between calls; the clock and
the source of UUIDs are given, so a run can be repeated exactly. Conflicts are raised, never retried.

It leaves out: synthesizer pods and input references (manifests are given), Symphonies and overrides, the
resources themselves (a resource counts as reconciled downstream as soon as its slice was loaded), readiness
expressions and groups, and deferred or failed syntheses. Unlike Eno, which loads a synthesis once, it loads
the slices anew on every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from devcluster.eno_synthesis import (
    cut,
    published_status,
    recovery_required,
    slice_body,
    synthesis_due,
    synthesized_resources,
)
from eno.decision import finished
from eno.errors import NotFound
from eno.objects import (
    CLEANUP_FINALIZER,
    DELETION_STRATEGY_ANNOTATION,
    Composition,
    ResourceSlice,
    ResourceState,
    Synthesis,
)
from eno.times import format_time
from kube.cluster import Cluster, Json
from kube.resources import COMPOSITIONS, RESOURCE_SLICES


def random_uuid() -> str:
    """The UUIDs of a run that need not be repeatable."""
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class Eno:
    """Eno's scheduler, executor, reconciler and aggregator for one upstream cluster.

    All methods raise `eno.errors.ApiError`: Conflict when somebody else wrote in between, NotFound when the
    composition is gone.
    """

    cluster: Cluster
    clock: Callable[[], datetime]
    new_uuid: Callable[[], str] = random_uuid

    def adopt(self, namespace: str, name: str) -> bool:
        """Put Eno's finalizer on the composition. False when there was nothing to do."""
        obj, view = self._read(namespace, name)
        if view.deleting or CLEANUP_FINALIZER in view.metadata.finalizers:
            return False
        obj["metadata"]["finalizers"] = [*view.metadata.finalizers, CLEANUP_FINALIZER]
        self.cluster.update(COMPOSITIONS, namespace, name, obj)
        return True

    def dispatch(self, namespace: str, name: str) -> str | None:
        """Start a synthesis if one is due, and return its UUID. One in flight is replaced."""
        obj, view = self._read(namespace, name)
        status = obj.setdefault("status", {})
        latest = status.get("inFlightSynthesis") or status.get("currentSynthesis") or {}
        if not synthesis_due(view, latest.get("observedCompositionGeneration", 0)):
            return None
        uuid = self.new_uuid()
        status["inFlightSynthesis"] = {
            "uuid": uuid,
            "initialized": self._now(),
            "observedCompositionGeneration": view.metadata.generation,
            "attempts": 1,
        }
        self._write_status(obj)
        return uuid

    def write_slices(self, namespace: str, name: str, manifests: Sequence[str]) -> list[str]:
        """The executor's first half: create the slices of the synthesis in flight, return their names.

        Until `publish`, nothing on the composition refers to them.
        """
        _, view = self._read(namespace, name)
        entries = synthesized_resources(manifests, self._slices(namespace, view.current))
        bodies = [slice_body(view, part) for part in cut(entries)]
        created = [self.cluster.create(RESOURCE_SLICES, namespace, body) for body in bodies]
        return [str(body["metadata"]["name"]) for body in created]

    def publish(self, namespace: str, name: str, uuid: str, slice_names: Sequence[str]) -> bool:
        """The executor's second half: in flight becomes current, current becomes previous.

        False, and nothing written, when `uuid` is no longer in flight or was canceled.
        """
        obj, view = self._read(namespace, name)
        if view.in_flight is None or view.in_flight.uuid != uuid or view.in_flight.canceled:
            return False
        required = recovery_required(view.current)
        obj["status"] = published_status(obj["status"], slice_names, self.clock(), required=required)
        self._write_status(obj)
        return True

    def synthesize(self, namespace: str, name: str, manifests: Sequence[str]) -> str | None:
        """Scheduler and executor in one go: the UUID that is current now, or None when nothing was due."""
        uuid = self.dispatch(namespace, name)
        if uuid is None:
            return None
        slice_names = self.write_slices(namespace, name, manifests)
        return uuid if self.publish(namespace, name, uuid, slice_names) else None

    def cancel(self, namespace: str, name: str) -> bool:
        """Give the synthesis in flight up. False when there is none."""
        obj, view = self._read(namespace, name)
        if view.in_flight is None or view.in_flight.canceled:
            return False
        obj["status"]["inFlightSynthesis"]["canceled"] = self._now()
        self._write_status(obj)
        return True

    def reconcile(self, namespace: str, name: str, *, waits: bool = True) -> int:
        """Load the current synthesis and report every resource as reconciled; return the slices written.

        An opted-in composition is not loaded before its recovery decision is finished, unless `waits` is False:
        a reconciler that knows of no decision. A status array that is too short is extended; the states in it stay.
        """
        _, view = self._read(namespace, name)
        if view.current is None or view.current.synthesized is None:
            return 0
        if waits and not _may_load(view, view.current):
            return 0
        written = 0
        for body in self._slices(namespace, view.current):
            after = self._states(view, body)
            if after == [_state_json(state) for state in body.states]:
                continue
            patch = {"metadata": {"resourceVersion": body.resource_version}, "status": {"resources": after}}
            self.cluster.merge_patch(RESOURCE_SLICES, namespace, body.name, patch, subresource="status")
            written += 1
        return written

    def aggregate(self, namespace: str, name: str) -> bool:
        """Derive `reconciled` and `ready` of the current synthesis from its slices. False when unchanged.

        This is the released aggregator: it knows no recovery gate, and calls an empty synthesis ready one
        pass after it was reconciled.
        """
        obj, view = self._read(namespace, name)
        if view.current is None or view.current.synthesized is None:
            return False
        slices = self._slices(namespace, view.current)
        if len(slices) < len(view.current.slice_names) and not view.deleting:
            return False
        synthesis = obj["status"]["currentSynthesis"]
        before = dict(synthesis)
        states = [state for body in slices for state in _padded_states(body)]
        if all(_settled(view, state) for state in states):
            synthesis.setdefault("reconciled", self._now())
        times = [state.ready for state in states] or [view.current.reconciled]
        if (latest := _latest(times)) is not None:
            synthesis.setdefault("ready", format_time(latest))
        if synthesis == before:
            return False
        self._write_status(obj)
        return True

    def finish_deletion(self, namespace: str, name: str) -> bool:
        """One step of a deletion: reopen the current synthesis for it, or let the composition go.

        False while the deletion waits for `reconciled`, and when there is none under way.
        """
        obj, view = self._read(namespace, name)
        if not view.deleting or CLEANUP_FINALIZER not in view.metadata.finalizers:
            return False
        synthesis = obj.get("status", {}).get("currentSynthesis")
        generation = view.metadata.generation
        if synthesis is not None and synthesis.get("observedCompositionGeneration") != generation:
            # A deletion is reconciled like a synthesis of its own, but nothing is synthesized for it.
            for field in ("reconciled", "ready", "canceled"):
                synthesis.pop(field, None)
            synthesis |= {
                "uuid": self.new_uuid(),
                "synthesized": self._now(),
                "observedCompositionGeneration": generation,
            }
            obj["status"].pop("inFlightSynthesis", None)
            self._write_status(obj)
            return True
        if synthesis is not None and "reconciled" not in synthesis:
            return False
        kept = [finalizer for finalizer in view.metadata.finalizers if finalizer != CLEANUP_FINALIZER]
        obj["metadata"]["finalizers"] = kept
        self.cluster.update(COMPOSITIONS, namespace, name, obj)
        return True

    def _now(self) -> str:
        return format_time(self.clock())

    def _read(self, namespace: str, name: str) -> tuple[Json, Composition]:
        obj = self.cluster.get(COMPOSITIONS, namespace, name)
        return obj, Composition.from_json(obj)

    def _slices(self, namespace: str, synthesis: Synthesis | None) -> list[ResourceSlice]:
        """The slices that the synthesis names, as far as they exist."""
        found = []
        for slice_name in synthesis.slice_names if synthesis else ():
            if slice_name is None:
                continue
            try:
                obj = self.cluster.get(RESOURCE_SLICES, namespace, slice_name)
            except NotFound:
                continue
            found.append(ResourceSlice.from_json(obj))
        return found

    def _states(self, composition: Composition, body: ResourceSlice) -> list[Json]:
        everything = composition.deleting and not _orphaned(composition)
        states = []
        for entry, before in zip(body.resources, _padded_states(body), strict=True):
            deleted = before.deleted or entry.deleted or everything
            ready = before.ready or self.clock()
            after = {"reconciled": True, "ready": ready, "deleted": deleted}
            states.append(_state_json(before.model_copy(update=after)))
        return states

    def _write_status(self, obj: Json) -> None:
        metadata = obj["metadata"]
        self.cluster.update(COMPOSITIONS, metadata["namespace"], metadata["name"], obj, subresource="status")


def _padded_states(body: ResourceSlice) -> list[ResourceState]:
    """One state per entry: an empty one where the array of the slice is too short."""
    return [*body.states, *(ResourceState() for _ in body.resources[len(body.states) :])]


def _state_json(state: ResourceState) -> Json:
    """A state as Eno writes it: what is false or unknown is left out."""
    found: Json = {"reconciled": state.reconciled, "deleted": state.deleted}
    found["ready"] = format_time(state.ready) if state.ready else None
    found["reconciliationError"] = state.reconciliation_error
    return {key: value for key, value in found.items() if value}


def _latest(times: Sequence[datetime | None]) -> datetime | None:
    """The latest instant, or None as soon as one is missing."""
    known = [instant for instant in times if instant is not None]
    return max(known) if len(known) == len(times) else None


def _may_load(composition: Composition, synthesis: Synthesis) -> bool:
    return not composition.opted_in or composition.deleting or finished(synthesis)


def _settled(composition: Composition, state: ResourceState) -> bool:
    if not state.reconciled:
        return False
    return state.deleted or not composition.deleting or _orphaned(composition)


def _orphaned(composition: Composition) -> bool:
    return composition.annotations.get(DELETION_STRATEGY_ANNOTATION) == "orphan"
