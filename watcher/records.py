"""What the watcher remembers of an object: a few hundred bytes, never a manifest.

A record is made once per event, from the view that the rules use everywhere else. Questions that need the whole
object (is recovery due, is it in scope) are put to `eno` at that moment and only their answer is kept, so there
is no second copy of a rule here. What depends on the time or on other objects is left to `watcher.derive`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from eno.decision import (
    adopted_source,
    finished,
    nothing_to_record,
    recovery_due,
    recovery_skipped,
    resynthesis_refused,
)
from eno.errors import MalformedObject
from eno.inventory.replacement import keeps_evidence
from eno.inventory.secrets import lineage
from eno.objects import (
    CLEANUP_FINALIZER,
    OVERFLOW_LABEL,
    SYNTHESIS_UUID_LABEL,
    Composition,
    ResourceSlice,
    Synthesis,
)
from eno.retirement import claims_its_own, is_unrecovered
from eno.scope import Scope
from watcher.chunks import InventoryRecord, record_inventory
from watcher.keys import Key, Kind, lineage_key, require_identity, utc


@dataclass(frozen=True, slots=True)
class SynthesisRecord:
    """A composition's in-flight or current synthesis. A None among `slice_names` is a null or nameless reference."""

    uuid: str
    slice_names: tuple[str | None, ...]
    initialized: datetime | None
    synthesized: datetime | None
    ready: bool
    reconciled: bool
    canceled: bool
    recovery_required: bool
    decided: bool


class HistoryRecord(NamedTuple):
    """What a composition has to do with inventories: answers of `eno.decision`, `eno.inventory`, `eno.retirement`.

    `adopted` is the name whose history its decision took over. `claims` its own snapshots, and all of its lineage
    while it is `unrecovered`.
    """

    to_record: bool
    keeps_evidence: bool
    skipped: bool
    adopted: str
    claims: bool
    unrecovered: bool

    @classmethod
    def of(cls, view: Composition) -> HistoryRecord:
        """The answers for a composition; most compositions share one object."""
        return _shared_history(
            cls(
                to_record=nothing_to_record(view) is None,
                keeps_evidence=keeps_evidence(view),
                skipped=recovery_skipped(view),
                adopted=adopted_source(view.current) if view.current else "",
                claims=claims_its_own(view),
                unrecovered=is_unrecovered(view, infer=False),
            )
        )


@dataclass(frozen=True, slots=True)
class CompositionRecord:
    """A composition, as far as the watcher needs it.

    `recovery_due`, `may_resynthesize` and the scopes are answers of `eno.decision` and `eno.scope`.
    """

    key: Key
    uid: str
    resource_version: str
    synthesizer: str
    deleting: bool
    opted_in: bool
    recovery_due: bool
    may_resynthesize: bool
    in_watch_scope: bool
    in_recovery_scope: bool
    in_flight: SynthesisRecord | None
    current: SynthesisRecord | None
    previous_slice_names: tuple[str | None, ...]
    history: HistoryRecord

    @property
    def refers_to(self) -> tuple[Key, ...]:
        """The slices that its syntheses name."""
        own = (synthesis.slice_names for synthesis in (self.in_flight, self.current) if synthesis)
        names = {name for named in (*own, self.previous_slice_names) for name in named if name}
        return tuple(Key(Kind.SLICE, self.key.namespace, name) for name in sorted(names))

    @property
    def lineage(self) -> Key:
        """What all inventories of its lineage are looked at by."""
        return lineage_key(lineage(self.key.namespace, self.synthesizer))

    @property
    def histories(self) -> tuple[Key, ...]:
        """The names under which inventories of it may be stored, in its lineage; none where it is not recovered."""
        if not self.in_recovery_scope:
            return ()
        names = (self.key.name, self.history.adopted) if self.history.adopted else (self.key.name,)
        return tuple(lineage_key(self.lineage.namespace, name) for name in names)


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A slice's metadata. `owner_name` and `owner_uid` are empty without a controlling Composition.

    `synthesis_uuid` is the label that only overflow slices carry: specs never leave the server. `held` says that
    it carries the cleanup finalizer.
    """

    key: Key
    uid: str
    resource_version: str
    created: datetime | None
    deleting: bool
    held: bool
    overflow: bool
    synthesis_uuid: str
    owner_name: str
    owner_uid: str

    @property
    def refers_to(self) -> tuple[Key, ...]:
        """The composition that controls it, whether or not that exists; empty without one."""
        if not self.owner_name:
            return ()
        return (Key(Kind.COMPOSITION, self.key.namespace, self.owner_name),)


Record: TypeAlias = CompositionRecord | SliceRecord | InventoryRecord


@dataclass(frozen=True, slots=True)
class LineageRecord:
    """All known inventories of one lineage, and the compositions that may claim them."""

    id: str
    inventories: tuple[InventoryRecord, ...] = ()
    compositions: tuple[CompositionRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What one look sees: a composition with the slices that it controls or names, and its inventories.

    `composition` is None where only its slices are left, and for a slice that no composition controls.
    `slices_changed`: one of them did since the last look. Their metadata does not tell what it was.
    `inventories` is None as long as they are not listed, which says nothing about whether there are any (P9).
    `adopted_in_use`: a composition has the name whose history this one adopted.
    """

    composition: CompositionRecord | None
    slices: tuple[SliceRecord, ...] = ()
    slices_changed: bool = False
    inventories: tuple[InventoryRecord, ...] | None = ()
    adopted_in_use: bool = False
    lineage: LineageRecord | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for an object that the server has but that cannot be read. Nothing is done about it."""

    key: Key
    reason: str


def read(kind: Kind, obj: Mapping[str, Any], scope: Scope) -> Record | Unreadable:
    """The record of an object as the API server sent it."""
    try:
        match kind:
            case Kind.COMPOSITION:
                return record_composition(obj, scope)
            case Kind.SLICE:
                return record_slice(obj)
            case _:
                return record_inventory(obj)
    except MalformedObject as error:
        return Unreadable(_key_of(kind, obj), str(error))


def record_composition(obj: Mapping[str, Any], scope: Scope) -> CompositionRecord:
    """Raises MalformedObject when the object cannot be read or names nothing."""
    view = Composition.from_json(obj)
    require_identity(view)
    return CompositionRecord(
        key=Key(Kind.COMPOSITION, intern(view.namespace), intern(view.name)),
        uid=intern(view.uid),
        resource_version=view.resource_version,
        synthesizer=intern(view.synthesizer),
        deleting=view.deleting,
        opted_in=view.opted_in,
        recovery_due=recovery_due(view),
        may_resynthesize=resynthesis_refused(view) is None,
        in_watch_scope=scope.outside_watch(view) is None,
        in_recovery_scope=scope.outside_recovery(view) is None,
        in_flight=_synthesis(view.in_flight),
        current=_synthesis(view.current),
        previous_slice_names=view.previous.slice_names if view.previous else (),
        history=HistoryRecord.of(view),
    )


def undecided_since(composition: CompositionRecord) -> datetime | None:
    """Since when its readiness waits for a recovery decision; None when it does not."""
    current = composition.current
    if current is None or current.decided or composition.deleting:
        return None
    return current.synthesized if composition.opted_in and composition.in_watch_scope else None


def record_slice(obj: Mapping[str, Any]) -> SliceRecord:
    """Of a whole slice or of its PartialObjectMetadata. Raises MalformedObject like `record_composition`."""
    view = ResourceSlice.from_json(obj)
    require_identity(view)
    owner = view.owner
    return SliceRecord(
        key=Key(Kind.SLICE, intern(view.namespace), view.name),
        uid=view.uid,
        resource_version=view.resource_version,
        created=utc(view.created),
        deleting=view.deleting,
        held=CLEANUP_FINALIZER in view.metadata.finalizers,
        overflow=view.labels.get(OVERFLOW_LABEL) == "true",
        synthesis_uuid=intern(view.labels.get(SYNTHESIS_UUID_LABEL, "")),
        # Shared with the owner's record, and among the slices of one owner.
        owner_name=intern(owner.name) if owner else "",
        owner_uid=intern(owner.uid) if owner else "",
    )


@lru_cache(maxsize=1024)
def _shared_history(history: HistoryRecord) -> HistoryRecord:
    return history


def _key_of(kind: Kind, obj: Mapping[str, Any]) -> Key:
    """The key of an object that may be malformed; what is missing is empty."""
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    return Key(kind, str(names.get("namespace") or ""), str(names.get("name") or ""))


def _synthesis(view: Synthesis | None) -> SynthesisRecord | None:
    if view is None:
        return None
    return SynthesisRecord(
        uuid=intern(view.uuid),
        slice_names=view.slice_names,
        initialized=utc(view.initialized),
        synthesized=utc(view.synthesized),
        ready=view.ready is not None,
        reconciled=view.reconciled is not None,
        canceled=view.canceled is not None,
        recovery_required=view.recovery_required is True,
        decided=finished(view),
    )
