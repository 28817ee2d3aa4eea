"""How a chunk of inventory is stored, and what is read back.

The lineage (namespace and synthesizer, not the composition's name or UID) ties a recreated composition to its
history. Names are stable per synthesis, so a retry meets its own chunks and nothing is ever overwritten.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from eno.errors import InvalidInventory
from eno.inventory.entries import CHUNK_LIMIT, Entry, chunk
from eno.objects import GROUP, Composition, Metadata, ObjectView
from eno.packing import fit_name
from eno.times import format_time, parse_time

INVENTORY_NAMESPACE = "kube-system"
PAYLOAD_KEY = "inventory.json"
FORMAT_VERSION = "1"

_PREFIX = f"{GROUP}/inventory-"
LINEAGE_KEY = f"{_PREFIX}lineage"
"""Both the label that is selected by and the annotation that must agree with it."""

_FORMAT = f"{_PREFIX}format-version"
_COMPOSITION = f"{_PREFIX}composition-name"
_NAMESPACE = f"{_PREFIX}composition-namespace"
_SYNTHESIZER = f"{_PREFIX}synthesizer-name"
_UUID = f"{_PREFIX}synthesis-uuid"
_SYNTHESIZED = f"{_PREFIX}synthesized"
_INDEX = f"{_PREFIX}chunk-index"
_COUNT = f"{_PREFIX}chunk-count"
_SHA256 = f"{_PREFIX}sha256"

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
# Unambiguous, since no index is as long as a digest.
_NAME = re.compile(rf"(?P<head>.+)-(?P<index>{_DECIMAL.pattern})(-(?P<digest>[0-9a-f]{{16}}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """What a snapshot was made of, equal on all its chunks."""

    namespace: str
    synthesizer: str
    composition: str
    synthesis_uuid: str
    synthesized: datetime


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A Secret of ours whose metadata is sound. The payload has not been looked at."""

    name: str
    uid: str
    resource_version: str
    terminating: bool
    source: Source
    index: int
    count: int
    digest: str
    data: Mapping[str, Any]

    def payload(self) -> bytes:
        """The stored bytes. Raises InvalidInventory when the key is missing, not base64, or not what was hashed."""
        encoded = self.data.get(PAYLOAD_KEY)
        if not isinstance(encoded, str):
            raise self.defect(f"data key {PAYLOAD_KEY} is missing")
        try:
            payload = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.defect(f"data key {PAYLOAD_KEY} is not base64") from error
        if self.digest and sha256(payload).hexdigest() != self.digest:
            raise self.defect("the payload does not match its sha256")
        return payload

    def defect(self, what: str) -> InvalidInventory:
        """The error that names this Secret."""
        return InvalidInventory(what, where=f"Secret {INVENTORY_NAMESPACE}/{self.name}")


@dataclass(frozen=True, slots=True)
class UnusableChunk:
    """A Secret of ours whose metadata cannot be trusted, and what is wrong with it."""

    name: str
    uid: str
    resource_version: str
    terminating: bool
    defect: str
    namespace: str
    """The source namespace, if label, source namespace and synthesizer agree; else empty: whose it is is unknown."""
    composition: str
    """The source name as annotated, possibly empty."""
    suffix: str
    """The name from the lineage on."""

    def may_belong_to(self, composition: str) -> bool:
        """Whether name and annotation allow that it is that composition's; no annotation allows every name."""
        return self.name == fit_name(composition, self.suffix) and self.composition in ("", composition)

    def error(self) -> InvalidInventory:
        """The error that names this Secret."""
        return InvalidInventory(self.defect, where=f"Secret {INVENTORY_NAMESPACE}/{self.name}")


def lineage(namespace: str, synthesizer: str) -> str:
    """32 lowercase hex digits: the first 16 bytes of sha256(`namespace/synthesizer`)."""
    return sha256(f"{namespace}/{synthesizer}".encode()).hexdigest()[:32]


def secret_name(composition: str, lineage_id: str, index: int, synthesis_uuid: str) -> str:
    """`<composition>-<lineage>-<index>-<16 hex of sha256(uuid)>`, the prefix cut to fit 253 characters."""
    return fit_name(composition, f"-{lineage_id}-{index}-{_uuid_digest(synthesis_uuid)}")


def source_of(composition: Composition) -> Source:
    """The source of a snapshot of the current synthesis, which must be synthesized."""
    current = composition.current
    if current is None or current.synthesized is None:
        raise AssertionError("only a synthesized composition has an inventory")
    return Source(
        namespace=composition.namespace,
        synthesizer=composition.synthesizer,
        composition=composition.name,
        synthesis_uuid=current.uuid,
        synthesized=current.synthesized.astimezone(UTC).replace(microsecond=0),
    )


def snapshot(source: Source, entries: Sequence[Entry], limit: int = CHUNK_LIMIT) -> list[dict[str, Any]]:
    """The Secrets of one snapshot, in chunk order, as they are created: at most `limit` bytes of payload each.

    Raises InventoryTooLarge.
    """
    payloads = chunk(entries, limit)
    lineage_id = lineage(source.namespace, source.synthesizer)
    common = {
        LINEAGE_KEY: lineage_id,
        _FORMAT: FORMAT_VERSION,
        _COMPOSITION: source.composition,
        _NAMESPACE: source.namespace,
        _SYNTHESIZER: source.synthesizer,
        _UUID: source.synthesis_uuid,
        _SYNTHESIZED: format_time(source.synthesized),
        _COUNT: str(len(payloads)),
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret_name(source.composition, lineage_id, index, source.synthesis_uuid),
                "namespace": INVENTORY_NAMESPACE,
                "labels": {LINEAGE_KEY: lineage_id},
                "annotations": {**common, _INDEX: str(index), _SHA256: sha256(payload).hexdigest()},
            },
            "type": "Opaque",
            "immutable": True,
            "data": {PAYLOAD_KEY: base64.b64encode(payload).decode()},
        }
        for index, payload in enumerate(payloads)
    ]


def read(secret: Mapping[str, Any]) -> StoredChunk | UnusableChunk | None:
    """The chunk a Secret holds, or None when it is not ours: it merely carries the label.

    Raises MalformedObject when it has no metadata to speak of.
    """
    metadata = ObjectView.from_json(secret).metadata
    shape = _shape(metadata) if secret.get("type") == "Opaque" else None
    if shape is None:
        return None
    notes = metadata.annotations
    try:
        source = _source(notes)
        index, count = _number(notes, _INDEX), _number(notes, _COUNT)
        _check_metadata(metadata, shape, source, index, count)
    except ValueError as error:
        return UnusableChunk(
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            terminating=metadata.deletion_timestamp is not None,
            defect=str(error),
            namespace=_proven_namespace(metadata),
            composition=notes.get(_COMPOSITION, ""),
            suffix=metadata.name[len(shape.prefix) :],
        )
    data = secret.get("data")
    return StoredChunk(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        terminating=metadata.deletion_timestamp is not None,
        source=source,
        index=index,
        count=count,
        digest=notes.get(_SHA256, ""),
        data=data if isinstance(data, Mapping) else {},
    )


def difference(stored: Mapping[str, Any], intended: Mapping[str, Any]) -> str | None:
    """Why a Secret that has an intended chunk's name is not that chunk, or None when it is.

    Labels and annotations that Sexton does not set do not count. An owner does: it would take the chunk with it.
    """
    found = ObjectView.from_json(stored).metadata
    wanted = ObjectView.from_json(intended).metadata
    if found.owner_references:
        return "it has an owner"
    if stored.get("immutable") is not True:
        return "it is not immutable"
    if stored.get("type") != intended["type"]:
        return f"its type is {stored.get('type')}"
    for kind, ours, theirs in (
        ("label", wanted.labels, found.labels),
        ("annotation", wanted.annotations, found.annotations),
    ):
        for key, value in ours.items():
            if theirs.get(key) != value:
                return f"its {kind} {key} differs"
    return None if stored.get("data") == intended["data"] else "its payload differs"


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of a name of ours: what precedes the lineage, the chunk's index, and a digest (not in Eno's drafts)."""

    prefix: str
    index: int
    digest: str


def _shape(metadata: Metadata) -> _Shape | None:
    lineage_id = metadata.labels.get(LINEAGE_KEY, "")
    found = _NAME.fullmatch(metadata.name)
    if not lineage_id or found is None:
        return None
    prefix = found["head"].removesuffix(f"-{lineage_id}")
    return _Shape(prefix, int(found["index"]), found["digest"] or "") if prefix not in ("", found["head"]) else None


def _source(notes: Mapping[str, str]) -> Source:
    if notes.get(_FORMAT) != FORMAT_VERSION:
        raise ValueError(f"format version {notes.get(_FORMAT, '')!r} is not {FORMAT_VERSION!r}")
    return Source(
        namespace=_text(notes, _NAMESPACE),
        synthesizer=notes.get(_SYNTHESIZER, ""),
        composition=_text(notes, _COMPOSITION),
        synthesis_uuid=_text(notes, _UUID),
        synthesized=parse_time(_text(notes, _SYNTHESIZED)),
    )


def _check_metadata(metadata: Metadata, shape: _Shape, source: Source, index: int, count: int) -> None:
    """Raises ValueError on whatever does not agree with the name or the label."""
    lineage_id = metadata.labels[LINEAGE_KEY]
    if metadata.annotations.get(LINEAGE_KEY) != lineage_id or lineage_id != lineage(
        source.namespace, source.synthesizer
    ):
        raise ValueError("lineage and source names disagree")
    if index != shape.index or index >= count:
        raise ValueError(f"chunk {index} of {count} does not fit its name")
    suffix = metadata.name[len(shape.prefix) :]
    if metadata.name != fit_name(source.composition, suffix):
        raise ValueError(f"composition name {source.composition!r} does not match the Secret's name")
    if shape.digest and shape.digest != _uuid_digest(source.synthesis_uuid):
        raise ValueError("the synthesis UUID does not match the Secret's name")


def _proven_namespace(metadata: Metadata) -> str:
    namespace = metadata.annotations.get(_NAMESPACE, "")
    proven = lineage(namespace, metadata.annotations.get(_SYNTHESIZER, "")) == metadata.labels[LINEAGE_KEY]
    return namespace if proven else ""


def _text(notes: Mapping[str, str], key: str) -> str:
    value = notes.get(key, "")
    if not value:
        raise ValueError(f"annotation {key} is missing")
    return value


def _number(notes: Mapping[str, str], key: str) -> int:
    value = _text(notes, key)
    if not _DECIMAL.fullmatch(value):
        raise ValueError(f"annotation {key} is not a number: {value!r}")
    return int(value)


def _uuid_digest(synthesis_uuid: str) -> str:
    return sha256(synthesis_uuid.encode()).hexdigest()[:16]
