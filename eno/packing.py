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
    sizes = [_size(manifest) for manifest in tombstones]
    if (largest := max(sizes, default=0)) > limit:
        raise PlanRejected(f"a tombstone of {largest} bytes does not fit a slice of {limit}")
    rooms = _Rooms([limit - _occupied(each) if _appendable(each) else -1 for each in slices])
    appended: list[list[str]] = [[] for _ in slices]
    rest: list[tuple[str, int]] = []
    for manifest, size in zip(tombstones, sizes, strict=True):
        index = rooms.take(size)
        if index is None:
            rest.append((manifest, size))
        else:
            appended[index].append(manifest)
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


class _Rooms:
    """The bytes left in each slice, as a tree of maxima: the first slice with enough is found in log time.

    Node 1 is the root, the children of `n` are `2n` and `2n + 1`, and the leaves stand in slice order.
    """

    def __init__(self, rooms: Sequence[int]) -> None:
        self._leaves = 1 << max(0, len(rooms) - 1).bit_length()
        self._most = [-1] * self._leaves + [*rooms] + [-1] * (self._leaves - len(rooms))
        for node in range(self._leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def take(self, size: int) -> int | None:
        """The first slice with room for `size` bytes, which are then taken; None when there is none."""
        most, node = self._most, 1
        if most[node] < size:
            return None
        while node < self._leaves:
            node *= 2
            if most[node] < size:
                node += 1
        leaf, room = node, most[node] - size
        while node and most[node] != room:
            most[node] = room
            # The parent's maximum is this child's, or that of its sibling.
            room = max(room, most[node ^ 1])
            node //= 2
        return leaf - self._leaves


def _next_fit(sized: Iterable[tuple[str, int]], limit: int) -> Iterable[tuple[str, ...]]:
    batch: list[str] = []
    total = 0
    for manifest, size in sized:
        if batch and total + size > limit:
            yield tuple(batch)
            batch, total = [], 0
        batch.append(manifest)
        total += size
    if batch:
        yield tuple(batch)


def _appendable(each: ResourceSlice) -> bool:
    """A slice with states was loaded already, and released executors index past the end of a short array."""
    return not each.states


def _occupied(each: ResourceSlice) -> int:
    return _size("".join([entry.manifest for entry in each.resources]))


def _size(manifest: str) -> int:
    return len(manifest) if manifest.isascii() else len(manifest.encode())
