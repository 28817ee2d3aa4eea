"""What the watcher remembers of an object: a few hundred bytes, never a manifest.

A record is made once per event, from the view that the rules use everywhere else. Questions that need the whole
object (is recovery due, is it in scope) are put to `eno` at that moment and only their answer is kept, so there
is no second copy of a rule here. What depends on the time or on other objects is left to `watcher.derive`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from eno.decision import finished, recovery_due, resynthesis_refused, skipped_decision
from eno.errors import MalformedObject
from eno.objects import (
    CLEANUP_FINALIZER,
    OVERFLOW_LABEL,
    SYNTHESIS_UUID_LABEL,
    Composition,
    ObjectView,
    ResourceSlice,
    Synthesis,
)
from eno.scope import Scope


class Kind(StrEnum):
    """The kinds that the watcher follows."""

    COMPOSITION = "Composition"
    SLICE = "ResourceSlice"


class Key(NamedTuple):
    """Names an object to look at."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


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


@dataclass(frozen=True, slots=True)
class CompositionRecord:
    """A composition, as far as the watcher needs it.

    `recovery_due`, `recovery_skipped`, `may_resynthesize` and the scopes are answers of `eno.decision` and
    `eno.scope`.
    """

    key: Key
    uid: str
    resource_version: str
    synthesizer: str
    deleting: bool
    opted_in: bool
    recovery_due: bool
    recovery_skipped: bool
    may_resynthesize: bool
    in_watch_scope: bool
    in_recovery_scope: bool
    in_flight: SynthesisRecord | None
    current: SynthesisRecord | None
    previous_slice_names: tuple[str | None, ...]

    @property
    def refers_to(self) -> tuple[Key, ...]:
        """The slices that its syntheses name."""
        own = (synthesis.slice_names for synthesis in (self.in_flight, self.current) if synthesis)
        names = {name for named in (*own, self.previous_slice_names) for name in named if name}
        return tuple(Key(Kind.SLICE, self.key.namespace, name) for name in sorted(names))


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


Record: TypeAlias = CompositionRecord | SliceRecord


@dataclass(frozen=True, slots=True)
class Subject:
    """What one look sees: a composition with the slices that it controls or names.

    `composition` is None where only its slices are left, and for a slice that no composition controls.
    `slices_changed`: one of them did since the last look. Their metadata does not tell what it was.
    """

    composition: CompositionRecord | None
    slices: tuple[SliceRecord, ...] = ()
    slices_changed: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for an object that the server has but that cannot be read. Nothing is done about it."""

    key: Key
    reason: str


def read(kind: Kind, obj: Mapping[str, Any], scope: Scope) -> Record | Unreadable:
    """The record of an object as the API server sent it."""
    try:
        return record_composition(obj, scope) if kind is Kind.COMPOSITION else record_slice(obj)
    except MalformedObject as error:
        return Unreadable(_key_of(kind, obj), str(error))


def record_composition(obj: Mapping[str, Any], scope: Scope) -> CompositionRecord:
    """Raises MalformedObject when the object cannot be read or names nothing."""
    view = Composition.from_json(obj)
    _require_identity(view)
    return CompositionRecord(
        key=Key(Kind.COMPOSITION, intern(view.namespace), intern(view.name)),
        uid=intern(view.uid),
        resource_version=view.resource_version,
        synthesizer=intern(view.synthesizer),
        deleting=view.deleting,
        opted_in=view.opted_in,
        recovery_due=recovery_due(view),
        recovery_skipped=_skipped(view, scope),
        may_resynthesize=resynthesis_refused(view) is None,
        in_watch_scope=scope.outside_watch(view) is None,
        in_recovery_scope=scope.outside_recovery(view) is None,
        in_flight=_synthesis(view.in_flight),
        current=_synthesis(view.current),
        previous_slice_names=view.previous.slice_names if view.previous else (),
    )


def record_slice(obj: Mapping[str, Any]) -> SliceRecord:
    """Of a whole slice or of its PartialObjectMetadata. Raises MalformedObject like `record_composition`."""
    view = ResourceSlice.from_json(obj)
    _require_identity(view)
    owner = view.owner
    return SliceRecord(
        key=Key(Kind.SLICE, intern(view.namespace), view.name),
        uid=view.uid,
        resource_version=view.resource_version,
        created=_utc(view.created),
        deleting=view.deleting,
        held=CLEANUP_FINALIZER in view.metadata.finalizers,
        overflow=view.labels.get(OVERFLOW_LABEL) == "true",
        synthesis_uuid=intern(view.labels.get(SYNTHESIS_UUID_LABEL, "")),
        # Shared with the owner's record, and among the slices of one owner.
        owner_name=intern(owner.name) if owner else "",
        owner_uid=intern(owner.uid) if owner else "",
    )


def _skipped(view: Composition, scope: Scope) -> bool:
    """Whether nobody will recover it, which its gate is still to be told."""
    recovers, namespace = scope.recovery_enabled, scope.recovery_namespace
    return skipped_decision(view, enabled=recovers, recovery_namespace=namespace) is not None


def _key_of(kind: Kind, obj: Mapping[str, Any]) -> Key:
    """The key of an object that may be malformed; what is missing is empty."""
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    return Key(kind, str(names.get("namespace") or ""), str(names.get("name") or ""))


def _require_identity(view: ObjectView) -> None:
    """Without these three there is nothing that a message could name."""
    for field in ("namespace", "name", "uid"):
        if not getattr(view, field):
            raise MalformedObject(f"metadata.{field} is missing", where=view.title)


def _utc(instant: datetime | None) -> datetime | None:
    """The same instant without a time zone object of its own, which would cost as much again."""
    return instant.astimezone(UTC) if instant else None


def _synthesis(view: Synthesis | None) -> SynthesisRecord | None:
    if view is None:
        return None
    return SynthesisRecord(
        uuid=view.uuid,
        slice_names=view.slice_names,
        initialized=_utc(view.initialized),
        synthesized=_utc(view.synthesized),
        ready=view.ready is not None,
        reconciled=view.reconciled is not None,
        canceled=view.canceled is not None,
        recovery_required=view.recovery_required is True,
        decided=finished(view),
    )
