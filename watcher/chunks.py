"""What the watcher remembers of an inventory Secret: its metadata, without what only a write needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from sys import intern
from typing import Any, TypeAlias

from eno.errors import MalformedObject
from eno.inventory.secrets import LINEAGE_KEY, Source, StoredChunk, UnusableChunk, lineage
from eno.objects import ObjectView
from eno.retirement import Holding
from watcher.keys import Key, Kind, lineage_key, require_identity, utc


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """The metadata of a sound inventory Secret, without what only a write needs."""

    key: Key
    uid: str
    namespace: str
    synthesizer: str
    composition: str
    synthesis_uuid: str
    synthesized: datetime
    index: int
    count: int
    terminating: bool
    marked: bool
    since: datetime | None

    @property
    def holding(self) -> Holding:
        """In the shape that the rules think in."""
        source = Source(self.namespace, self.synthesizer, self.composition, self.synthesis_uuid, self.synthesized)
        stored = StoredChunk(self.key.name, self.uid, "", self.terminating, source, self.index, self.count, "", {})
        return Holding(stored, self.marked, self.since)

    @property
    def refers_to(self) -> tuple[Key, ...]:
        """Its lineage, and the name in it whose history it is."""
        lineage_id = lineage(self.namespace, self.synthesizer)
        return (lineage_key(lineage_id), lineage_key(lineage_id, self.composition))


@dataclass(frozen=True, slots=True)
class UnusableRecord:
    """An inventory Secret whose metadata cannot be trusted, in the lineage that its label tells."""

    key: Key
    uid: str
    lineage_id: str
    stored: UnusableChunk
    marked: bool
    since: datetime | None

    @property
    def holding(self) -> Holding:
        """In the shape that the rules think in."""
        return Holding(self.stored, self.marked, self.since)

    @property
    def refers_to(self) -> tuple[Key, ...]:
        """Its lineage, and the name in it whose history it seems to be."""
        name = self.stored.composition or self.key.name.removesuffix(self.stored.suffix)
        return (lineage_key(self.lineage_id), lineage_key(self.lineage_id, name))


InventoryRecord: TypeAlias = ChunkRecord | UnusableRecord


def record_inventory(obj: Mapping[str, Any]) -> InventoryRecord:
    """Of an Opaque Secret's PartialObjectMetadata. Raises MalformedObject like `record_composition`."""
    view = ObjectView.from_json(obj)
    require_identity(view)
    holding = Holding.of({**obj, "type": "Opaque"})
    if holding is None:
        raise MalformedObject(
            f"it carries {LINEAGE_KEY} and is no inventory; it is left alone", where=f"Secret {view.title}"
        )
    key, stored = Key(Kind.INVENTORY, intern(view.namespace), view.name), holding.stored
    if isinstance(stored, UnusableChunk):
        small = replace(stored, uid="", resource_version="")
        return UnusableRecord(key, view.uid, view.labels[LINEAGE_KEY], small, holding.marked, utc(holding.since))
    return ChunkRecord(
        key=key,
        uid=view.uid,
        # Shared with the record of the composition.
        namespace=intern(stored.source.namespace),
        synthesizer=intern(stored.source.synthesizer),
        composition=intern(stored.source.composition),
        synthesis_uuid=intern(stored.source.synthesis_uuid),
        synthesized=stored.source.synthesized.astimezone(UTC),
        index=stored.index,
        count=stored.count,
        terminating=stored.terminating,
        marked=holding.marked,
        since=utc(holding.since),
    )
