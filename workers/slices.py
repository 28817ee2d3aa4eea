"""Guarded writes of recovery to ResourceSlices: append to one as it was read, or create an overflow slice."""

from __future__ import annotations

from collections.abc import Sequence

from eno.errors import AlreadyExists, Conflict, Invalid, Retryable, ServerError, StartOver
from eno.objects import Composition, ResourceSlice
from eno.packing import Append, overflow_difference, overflow_slice
from kube import guards
from kube.cluster import Cluster, Json
from kube.resources import RESOURCE_SLICES


def append(cluster: Cluster, planned: Append) -> None:
    """Put tombstones at the end of a slice, whose existing entries, indexes and status stay as they are.

    Raises StartOver when the slice is no longer the one that was planned with, ApiError otherwise.
    """
    target = planned.slice
    entries = [{"manifest": manifest, "deleted": True} for manifest in planned.tombstones]
    try:
        operations = guards.append_resources(_as_read(target), entries)
        cluster.json_patch(RESOURCE_SLICES, target.namespace, target.name, operations)
    except (Conflict, Invalid, ServerError) as error:
        # A failed `test` looks like a refusal by the schema (422), on older servers like a fault (500).
        now = ResourceSlice.from_json(cluster.get(RESOURCE_SLICES, target.namespace, target.name))
        if (now.uid, now.resource_version) == (target.uid, target.resource_version):
            raise
        raise StartOver("it has changed since it was read", where=f"resourceslice {target.title}") from error


def create_overflow(cluster: Cluster, composition: Composition, batch: Sequence[str]) -> tuple[str, bool]:
    """Create the overflow slice for one batch. Returns its name, and whether it was written just now.

    An identical one counts as created: it is what an earlier attempt left behind.

    Raises Retryable when something else has the name: it is never overwritten.
    """
    body = overflow_slice(composition, batch)
    name: str = body["metadata"]["name"]
    try:
        cluster.create(RESOURCE_SLICES, composition.namespace, body)
    except AlreadyExists as error:
        existing = ResourceSlice.from_json(cluster.get(RESOURCE_SLICES, composition.namespace, name))
        difference = overflow_difference(existing, body)
        if difference:
            raise Retryable(
                f"the name is taken and {difference}",
                where=f"create resourceslice {composition.namespace}/{name}",
                hint="delete that slice if nothing needs it",
            ) from error
        return name, False
    return name, True


def _as_read(target: ResourceSlice) -> Json:
    """What the guards look at: uid, resourceVersion, and whether there is an array to append to."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"uid": target.uid, "resourceVersion": target.resource_version},
        "spec": {"resources": []} if target.resources else {},
    }
