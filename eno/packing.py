"""Where tombstones go: first-fit into existing slices, next-fit into new overflow slices.

Pure: sizes in, a plan out. The limit is counted in UTF-8 bytes of manifest strings per slice, and exactly the
limit fits. Rules: specification 02, steps 5 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from eno.errors import PlanRejected
from eno.objects import (
    CLEANUP_FINALIZER,
    GROUP,
    OVERFLOW_LABEL,
    SYNTHESIS_UUID_LABEL,
    Composition,
    ResourceSlice,
)

SLICE_LIMIT = 524_288
"""Bytes of manifests that are packed into one slice."""

NAME_LIMIT = 253
"""Characters of an object name (RFC 1123 subdomain)."""


@dataclass(frozen=True, slots=True)
class Append:
    """Tombstones for the end of an existing slice."""

    slice: ResourceSlice
    tombstones: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every write that the tombstones need: appends in slice order, then overflow slices in batch order."""

    appends: tuple[Append, ...] = ()
    overflows: tuple[tuple[str, ...], ...] = ()

    @property
    def steps(self) -> tuple[Append | tuple[str, ...], ...]:
        """The writes, in the order they are made."""
        return (*self.appends, *self.overflows)

    def __bool__(self) -> bool:
        return bool(self.appends or self.overflows)


def pack(tombstones: Sequence[str], slices: Sequence[ResourceSlice], limit: int = SLICE_LIMIT) -> Plan:
    """The plan for these manifests. Raises PlanRejected when a single one is over the limit."""
    for manifest in tombstones:
        if _size(manifest) > limit:
            raise PlanRejected(f"a tombstone of {_size(manifest)} bytes does not fit a slice of {limit}")
    room = [limit - _occupied(each) if _appendable(each) else -1 for each in slices]
    appended: list[list[str]] = [[] for _ in slices]
    rest: list[str] = []
    for manifest in tombstones:
        index = next((i for i, free in enumerate(room) if free >= _size(manifest)), None)
        if index is None:
            rest.append(manifest)
        else:
            appended[index].append(manifest)
            room[index] -= _size(manifest)
    appends = (Append(each, tuple(new)) for each, new in zip(slices, appended, strict=True) if new)
    return Plan(tuple(appends), tuple(_next_fit(rest, limit)))


def overflow_slice(composition: Composition, batch: Sequence[str]) -> dict[str, Any]:
    """The overflow slice for one batch, as it is created.

    Its name depends on composition, synthesis and contents only, so a retry meets its own slice. It sets no
    `blockOwnerDeletion`, which would need a permission on the owner's finalizers.
    """
    if composition.current is None:
        raise AssertionError("an overflow slice belongs to a current synthesis")
    uuid = composition.current.uuid
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": _overflow_name(composition, uuid, batch),
            "namespace": composition.namespace,
            "labels": {OVERFLOW_LABEL: "true", SYNTHESIS_UUID_LABEL: uuid},
            "finalizers": [CLEANUP_FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Composition",
                    "name": composition.name,
                    "uid": composition.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {"synthesisUUID": uuid, "resources": [{"manifest": each, "deleted": True} for each in batch]},
    }


def overflow_difference(existing: ResourceSlice, intended: Mapping[str, Any]) -> str | None:
    """Why a slice that already has the name is not the intended one, or None when it is."""
    wanted = ResourceSlice.from_json(intended)
    if existing.deleting:
        return "it is terminating"
    if existing.owner is None or wanted.owner is None or existing.owner.uid != wanted.owner.uid:
        return "it has another owner"
    if existing.labels.get(OVERFLOW_LABEL) != "true":
        return f"it lacks the label {OVERFLOW_LABEL}"
    if existing.spec != wanted.spec:
        return "its content differs"
    return None


def fit_name(prefix: str, suffix: str) -> str:
    """`prefix` + `suffix`, the prefix cut (and trailing `.` and `-` stripped) so that the name is valid."""
    room = NAME_LIMIT - len(suffix)
    return (prefix if len(prefix) <= room else prefix[:room].rstrip(".-")) + suffix


def _overflow_name(composition: Composition, uuid: str, batch: Sequence[str]) -> str:
    synthesis = sha256(f"{composition.uid}/{uuid}".encode()).hexdigest()[:16]
    contents = sha256(msgspec.json.encode(list(batch))).hexdigest()[:32]
    return fit_name(composition.name, f"-{synthesis}-{contents}")


def _next_fit(manifests: Iterable[str], limit: int) -> Iterable[tuple[str, ...]]:
    batch: list[str] = []
    size = 0
    for manifest in manifests:
        if batch and size + _size(manifest) > limit:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(manifest)
        size += _size(manifest)
    if batch:
        yield tuple(batch)


def _appendable(each: ResourceSlice) -> bool:
    """A slice with states was loaded already, and released executors index past the end of a short array."""
    return not each.states


def _occupied(each: ResourceSlice) -> int:
    return sum(_size(entry.manifest) for entry in each.resources)


def _size(manifest: str) -> int:
    return len(manifest.encode())
