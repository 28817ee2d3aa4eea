"""What is remembered of a resource, and how a snapshot is cut into chunks.

Sorted and compact, so that equal inventories are equal bytes and a chunk never depends on the input's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from eno.errors import InventoryTooLarge
from eno.identity import Head, ResourceId
from eno.objects import GROUP

CHUNK_LIMIT = 1_048_576
"""Bytes of payload in one Secret (Kubernetes' MaxSecretSize)."""

KEPT_ANNOTATIONS = (f"{GROUP}/deletion-group", f"{GROUP}/readiness-group")
"""The annotations that decide the order in which Eno deletes."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One owned resource: its identity, and what a tombstone for it has to carry."""

    id: ResourceId
    version: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, head: Head) -> Entry:
        """The entry of a desired manifest."""
        kept = {key: head.annotations[key] for key in KEPT_ANNOTATIONS if key in head.annotations}
        return cls(head.id, head.version, head.labels, kept)

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` alone for the core group."""
        return f"{self.id.group}/{self.version}" if self.id.group else self.version

    def encode(self) -> bytes:
        """Compact JSON with sorted keys, UTF-8; empty labels and annotations are left out."""
        body: dict[str, Any] = {**self.id._asdict(), "version": self.version}
        if self.labels:
            body["labels"] = dict(self.labels)
        if self.annotations:
            body["annotations"] = dict(self.annotations)
        return _encoder.encode(body)


_encoder = msgspec.json.Encoder(order="deterministic")


def build(heads: Iterable[tuple[Head, bool]]) -> list[Entry]:
    """The inventory of a synthesis from its manifests' heads, each with its `deleted` flag, in slice order.

    Tombstones, Patches and resources that Eno does not manage own nothing. The first occurrence of an identity
    wins.
    """
    entries: dict[ResourceId, Entry] = {}
    for head, deleted in heads:
        if not deleted and not head.is_patch and head.managed:
            entries.setdefault(head.id, Entry.of(head))
    return sorted(entries.values(), key=_order)


def chunk(entries: Sequence[Entry], limit: int = CHUNK_LIMIT) -> list[bytes]:
    """Payloads of at most `limit` bytes, in order; one `[]` when there is nothing to remember.

    Entries are never split. Raises InventoryTooLarge when a single one does not fit.
    """
    payloads: list[bytes] = []
    pending: list[bytes] = []
    size = 1
    for entry in entries:
        encoded = entry.encode()
        if len(encoded) + 2 > limit:
            raise InventoryTooLarge(
                f"{entry.id} needs {len(encoded) + 2} bytes of inventory, {limit} fit",
                hint="remove labels from the resource",
            )
        # Every entry is followed by one more byte: a comma, or the closing bracket.
        if size + len(encoded) + 1 > limit:
            payloads.append(_array(pending))
            pending, size = [], 1
        pending.append(encoded)
        size += len(encoded) + 1
    payloads.append(_array(pending))
    return payloads


def _array(encoded: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(encoded) + b"]"


def _order(entry: Entry) -> tuple[bytes, ...]:
    identity = entry.id
    parts = (identity.group, identity.kind, identity.namespace, identity.name, entry.version)
    return tuple(part.encode() for part in parts)
