"""What Eno's executor makes of manifests: tombstones, slices, and the status that names them. Pure.

The stand-in in `devcluster.eno` does the reading and writing around these functions. They follow the released
executor in what Sexton has to live with: tombstones keep the whole manifest, unreconciled ones are passed on
from synthesis to synthesis, and slices are stamped with the UUID of the synthesis that is *current* while
they are made, not of the one that they are made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from eno.decision import Reason, finished
from eno.identity import parse_head
from eno.objects import CLEANUP_FINALIZER, FORCE_RESYNTHESIS_ANNOTATION, Composition, ResourceSlice, Synthesis
from eno.times import format_time
from kube.cluster import Json
from kube.resources import COMPOSITIONS, RESOURCE_SLICES

SLICE_BYTES = 524_288
"""UTF-8 bytes of manifest strings after which the executor starts another slice."""


def synthesized_resources(manifests: Sequence[str], previous: Iterable[ResourceSlice]) -> list[Json]:
    """The entries of a new synthesis: what was asked for, then a tombstone for whatever is no longer.

    `previous` are the slices of the synthesis that is being replaced. A tombstone that was carried out
    already, or an entry of a terminating slice that was, is not passed on.

    Raises MalformedManifest.
    """
    entries: list[Json] = [{"manifest": manifest} for manifest in manifests]
    known = {parse_head(manifest).id for manifest in manifests}
    for body in previous:
        for index, entry in enumerate(body.resources):
            # A state can be missing: what was appended after the slice was loaded has none yet.
            carried_out = index < len(body.states) and body.states[index].reconciled
            identity = parse_head(entry.manifest).id
            if identity in known or (carried_out and (body.deleting or entry.deleted)):
                continue
            known.add(identity)
            entries.append({"manifest": entry.manifest, "deleted": True})
    return entries


def cut(entries: Sequence[Json]) -> list[list[Json]]:
    """Entries in order, next-fit, each part up to SLICE_BYTES of manifests. One that is larger stands alone."""
    parts: list[list[Json]] = []
    room = 0
    for entry in entries:
        size = len(entry["manifest"].encode())
        if not parts or size > room:
            parts.append([])
            room = SLICE_BYTES
        parts[-1].append(entry)
        room -= size
    return parts


def slice_body(composition: Composition, resources: Sequence[Json]) -> Json:
    """A slice to create, stamped with the UUID that is current now (empty for a first synthesis)."""
    owner = {
        "apiVersion": COMPOSITIONS.api_version,
        "kind": COMPOSITIONS.kind,
        "name": composition.name,
        "uid": composition.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {
            "generateName": f"{composition.name}-",
            "namespace": composition.namespace,
            "finalizers": [CLEANUP_FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {
            "synthesisUUID": composition.current.uuid if composition.current else "",
            "resources": list(resources),
        },
    }


def synthesis_due(composition: Composition, observed_generation: int) -> bool:
    """Whether the scheduler starts a synthesis: the first, for a changed spec, or on request.

    `observed_generation` is that of the latest synthesis. A request names the latest synthesis, too: once
    another one is the latest, it has been answered.
    """
    if composition.deleting:
        return False
    if composition.in_flight is None and composition.current is None:
        return True
    if composition.annotations.get(FORCE_RESYNTHESIS_ANNOTATION) == composition.latest_uuid:
        return True
    return observed_generation < composition.metadata.generation


def published_status(status: Json, slice_names: Sequence[str], now: datetime, *, required: bool) -> Json:
    """The composition's status after the in-flight synthesis took the place of the current one.

    Raises KeyError when nothing is in flight.
    """
    after = dict(status)
    synthesis = after.pop("inFlightSynthesis") | {
        "synthesized": format_time(now),
        "resourceSlices": [{"name": name} for name in slice_names],
        "tombstoneRecoveryRequired": required,
    }
    if "currentSynthesis" in status:
        after["previousSynthesis"] = status["currentSynthesis"]
    return after | {"currentSynthesis": synthesis}


def recovery_required(current: Synthesis | None) -> bool:
    """Whether the successor of `current` may lack history. A first synthesis always may.

    A decision that skipped recovery settles nothing: the successor still owes the tombstones.
    """
    if current is None:
        return True
    if not current.recovery_required:
        return False
    skipped = current.recovery is not None and current.recovery.reason in (
        Reason.OPERATOR_NOT_ENABLED,
        Reason.OUTSIDE_NAMESPACE,
    )
    return skipped or not finished(current)
