"""The life of one composition on the demo's clusters: synthesized, recorded, lost, recreated with less.

Plays everybody who is not Sexton. Each method is one act; nothing here waits for Sexton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from console.clusters import utc_now
from console.plan import SliceWrite
from console.story import Manifest
from devcluster.eno import Eno
from eno.decision import finished
from eno.errors import AlreadyExists, NotFound
from eno.identity import ResourceId, parse_head
from eno.inventory.entries import build
from eno.inventory.secrets import snapshot, source_of
from eno.objects import OPT_IN_ANNOTATION, Composition, ResourceSlice
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS, Resource


@dataclass(frozen=True, slots=True)
class Play:
    """One composition, `namespace`/`name`, on two clusters."""

    upstream: Cluster
    downstream: Cluster
    namespace: str
    name: str
    synthesizer: str

    @property
    def _eno(self) -> Eno:
        return Eno(self.upstream, utc_now)

    def create_namespace(self) -> None:
        """The namespace of the composition, upstream."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        with suppress(AlreadyExists):
            self.upstream.create(NAMESPACES, None, body)

    def create(self, manifests: Sequence[Manifest]) -> int:
        """Create the composition and let Eno synthesize it. Returns the number of slices."""
        body = {
            "apiVersion": COMPOSITIONS.api_version,
            "kind": COMPOSITIONS.kind,
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": {OPT_IN_ANNOTATION: "true"},
            },
            "spec": {"synthesizer": {"name": self.synthesizer}},
        }
        self.upstream.create(COMPOSITIONS, self.namespace, body)
        self._eno.adopt(self.namespace, self.name)
        self._eno.synthesize(self.namespace, self.name, [manifest.text for manifest in manifests])
        return len(self.slices())

    def become_ready(self) -> None:
        """Eno reconciles the current synthesis downstream and reports it ready."""
        self._eno.reconcile(self.namespace, self.name)
        while self._eno.aggregate(self.namespace, self.name):
            pass

    def record(self) -> int:
        """Store the inventory of the current synthesis downstream. Returns the number of Secrets."""
        entries = build(
            (parse_head(entry.manifest), entry.deleted) for each in self.slices() for entry in each.resources
        )
        secrets = snapshot(source_of(self.read()), entries)
        for secret in secrets:
            self.downstream.create(SECRETS, secret["metadata"]["namespace"], secret)
        return len(secrets)

    def lose(self) -> None:
        """Somebody force-deletes the composition and its slices: no finalizer is waited for."""
        uid = self.read().uid
        listing = list_all(self.upstream, Query(RESOURCE_SLICES, self.namespace))
        self._force_delete(COMPOSITIONS, self.name)
        for each in map(ResourceSlice.from_json, listing.items):
            if each.owner is not None and each.owner.uid == uid:
                self._force_delete(RESOURCE_SLICES, each.name)

    def read(self) -> Composition:
        """The composition as it is now."""
        return Composition.from_json(self.upstream.get(COMPOSITIONS, self.namespace, self.name))

    def decision(self) -> Json | None:
        """The published decision, once it is finished for the current synthesis."""
        obj = self.upstream.get(COMPOSITIONS, self.namespace, self.name)
        current = Composition.from_json(obj).current
        if current is None or not finished(current):
            return None
        decision: Json = obj["status"]["currentSynthesis"]["tombstoneRecoveryStatus"]
        return decision

    def slices(self) -> tuple[ResourceSlice, ...]:
        """The slices of the current synthesis, in reference order."""
        current = self.read().current
        names = [name for name in current.slice_names if name] if current else []
        bodies = (self.upstream.get(RESOURCE_SLICES, self.namespace, name) for name in names)
        return tuple(ResourceSlice.from_json(body) for body in bodies)

    def _force_delete(self, resource: Resource, name: str) -> None:
        # The garbage collector may have been faster.
        with suppress(NotFound):
            self.upstream.delete(resource, self.namespace, name)
            self.upstream.merge_patch(resource, self.namespace, name, {"metadata": {"finalizers": None}})


def desired(slices: Sequence[ResourceSlice]) -> list[str]:
    """The manifests that are wanted, in order."""
    return [entry.manifest for each in slices for entry in each.resources if not entry.deleted]


def tombstones(slices: Sequence[ResourceSlice]) -> list[ResourceId]:
    """The identities that are buried, in order."""
    return [parse_head(entry.manifest).id for each in slices for entry in each.resources if entry.deleted]


def difference(before: Sequence[ResourceSlice], after: Sequence[ResourceSlice]) -> Iterator[SliceWrite]:
    """The slice writes that lie between two states of one synthesis, in the form of a plan.

    Only what was appended and what was added counts: every other change makes the manifests differ.
    """
    lengths = {each.name: len(each.resources) for each in before}
    for each in after:
        added = each.resources[lengths.get(each.name, 0) :]
        if added:
            operation: Literal["append", "create"] = "append" if each.name in lengths else "create"
            yield SliceWrite(operation, each.name, tuple(parse_head(entry.manifest).id for entry in added))
