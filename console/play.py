"""The life of one composition on the demo's clusters: synthesized, lost, recreated with less, in the end deleted.

Plays everybody who is not Sexton, and looks at what Sexton left behind. Each method is one act or one look; nothing
here waits.
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
from eno.inventory.replacement import Inventory
from eno.inventory.secrets import lineage, source_of
from eno.inventory.selection import Snapshot
from eno.objects import FORCE_RESYNTHESIS_ANNOTATION, OPT_IN_ANNOTATION, Composition, ResourceSlice
from eno.times import format_time
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, Resource
from workers.inventories import list_metadata
from workers.reading import list_inventory


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

    def reconcile(self) -> None:
        """One pass of Eno: load the current synthesis, if its decision allows it, and report on each resource."""
        self._eno.reconcile(self.namespace, self.name)

    def hurry(self) -> None:
        """An Eno that knows of no decision: it reconciles the current synthesis at once, and calls it ready."""
        self._eno.reconcile(self.namespace, self.name, waits=False)
        self._eno.aggregate(self.namespace, self.name)

    def call_ready(self) -> None:
        """Somebody says that the current synthesis is reconciled and ready, without any of it being so."""
        stamp = format_time(utc_now())
        status = {"currentSynthesis": {"reconciled": stamp, "ready": stamp}}
        self.upstream.merge_patch(COMPOSITIONS, self.namespace, self.name, {"status": status}, subresource="status")

    def resynthesize(self, manifests: Sequence[Manifest]) -> None:
        """Somebody requests a new synthesis, and Eno makes it."""
        annotations = {FORCE_RESYNTHESIS_ANNOTATION: self.read().latest_uuid}
        self.upstream.merge_patch(COMPOSITIONS, self.namespace, self.name, {"metadata": {"annotations": annotations}})
        self._eno.synthesize(self.namespace, self.name, [manifest.text for manifest in manifests])

    def delete(self) -> None:
        """Somebody deletes the composition in good order: it is gone when Eno has let it go."""
        self.upstream.delete(COMPOSITIONS, self.namespace, self.name)

    def go_on_deleting(self) -> bool:
        """One pass of Eno over the deletion: delete what is downstream, then let go. True once it is gone."""
        try:
            self._eno.finish_deletion(self.namespace, self.name)
            self.reconcile()
        except NotFound:
            return True
        return False

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

    def inventory(self) -> Snapshot | None:
        """The stored inventory of the current synthesis, once it is complete and alone in its lineage."""
        composition = self.read()
        inventory = Inventory.of(list_inventory(self.downstream, composition))
        found = inventory.complete(source_of(composition))
        return found if found is not None and len(found.chunks) == len(inventory.stored) else None

    def inventory_names(self) -> tuple[str, ...]:
        """Every Secret of the lineage, whether or not the composition is still there."""
        secrets = list_metadata(self.downstream, lineage(self.namespace, self.synthesizer))
        return tuple(secret["metadata"]["name"] for secret in secrets)

    def referenced(self) -> frozenset[str]:
        """The slices that the current and the previous synthesis name."""
        composition = self.read()
        syntheses = (each for each in (composition.current, composition.previous) if each is not None)
        return frozenset(name for synthesis in syntheses for name in synthesis.slice_names if name)

    def slice_names(self) -> frozenset[str]:
        """Every slice in the namespace, referenced or not."""
        return frozenset(self._names(RESOURCE_SLICES))

    def composition_names(self) -> frozenset[str]:
        """Every composition in the namespace."""
        return frozenset(self._names(COMPOSITIONS))

    def slices(self) -> tuple[ResourceSlice, ...]:
        """The slices of the current synthesis, in reference order."""
        current = self.read().current
        names = [name for name in current.slice_names if name] if current else []
        bodies = (self.upstream.get(RESOURCE_SLICES, self.namespace, name) for name in names)
        return tuple(ResourceSlice.from_json(body) for body in bodies)

    def _names(self, resource: Resource) -> Iterator[str]:
        for item in list_all(self.upstream, Query(resource, self.namespace, metadata_only=True)).items:
            yield item["metadata"]["name"]

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
