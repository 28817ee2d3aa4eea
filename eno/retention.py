"""What may go: slices that nothing needs, inventories that nobody claims. Each reason to keep is one function.

Pure: objects as just read, and `now`. Whatever is in doubt is kept; a wait is derived from the object, so a
restart neither restarts nor skips it. Rules: specification 05.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from eno.decision import finished, recovery_required
from eno.objects import OVERFLOW_LABEL, Composition, ResourceSlice, Synthesis

YOUNG = timedelta(seconds=5)
"""Age below which a slice is left alone: its reference may be on the way."""

CLOCK_SKEW = timedelta(minutes=10)
"""How much later than Eno's clock says an in-flight synthesis may really have begun."""

OVERFLOW_PAUSE = timedelta(seconds=5)
"""How soon a protected overflow slice is looked at again."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave it alone; `until` is when to look again, None when an event will say."""

    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Remove our finalizer, nothing else."""

    reason: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete it, under its UID and resourceVersion."""

    reason: str


Fate: TypeAlias = Keep | Release | Delete


@dataclass(frozen=True, slots=True)
class Case:
    """A slice with a Composition as owner, and the composition of the owner's name as just read (None: gone)."""

    slice: ResourceSlice
    composition: Composition | None
    now: datetime
    infer_required: bool = False
    scope_is_proven: bool = True
    """False when a label selector is set and the composition is gone."""

    @property
    def owner(self) -> Composition | None:
        """The composition, if it is the very one that owns the slice and not its namesake."""
        if self.composition is None or self.slice.owner is None or self.composition.uid != self.slice.owner.uid:
            return None
        return self.composition


def slice_fate(case: Case) -> Fate:
    """What to do with a slice that the watcher thinks nobody needs."""
    if case.slice.owner is None:
        return Release("it has no owner") if case.slice.deleting else Keep("it has no owner")
    if case.slice.deleting:
        needed = still_to_be_reconciled(case)
        return Keep(needed) if needed else Release("it is terminating and nothing waits for it")
    for reason in REASONS_TO_KEEP:
        kept = reason(case)
        if kept is not None:
            return kept
    return Delete("nothing needs it")


def still_to_be_reconciled(case: Case) -> str | None:
    """A terminating slice of a current synthesis that is not reconciled yet is needed for its deletion."""
    current = case.composition.current if case.composition else None
    if current is None or case.slice.name not in current.slice_names or current.reconciled is not None:
        return None
    return "the current synthesis is not reconciled yet"


def out_of_proven_scope(case: Case) -> Keep | None:
    """Where the composition is gone and a selector is set, nobody can say whose slice it was."""
    return None if case.scope_is_proven else Keep("its composition is gone, so the label selector cannot be checked")


def young(case: Case) -> Keep | None:
    """Younger than YOUNG by its own creationTimestamp."""
    created = case.slice.created
    if created is None:
        return Keep("it has no creationTimestamp")
    until = created + YOUNG
    return Keep("it is young", until) if case.now <= until else None


def referenced(case: Case) -> Keep | None:
    """Named by the current or previous synthesis of the composition of that name, whatever its UID."""
    if case.composition is None:
        return None
    for label, synthesis in (("current", case.composition.current), ("previous", case.composition.previous)):
        if synthesis is not None and case.slice.name in synthesis.slice_names:
            return Keep(f"the {label} synthesis references it")
    return None


def made_in_flight(case: Case) -> Keep | None:
    """Possibly made by the owner's in-flight synthesis, whatever UUID it is stamped with."""
    in_flight = case.owner.in_flight if case.owner else None
    if in_flight is None or in_flight.canceled is not None or _made_before(case.slice, in_flight):
        return None
    return Keep("it may belong to the in-flight synthesis")


def protected_overflow(case: Case) -> Keep | None:
    """Overflow of a recovery that has not published it yet."""
    owner = case.owner
    if owner is None or owner.current is None or case.slice.labels.get(OVERFLOW_LABEL) != "true":
        return None
    pending = (
        case.slice.synthesis_uuid == owner.current.uuid
        and owner.opted_in
        and not owner.deleting
        and recovery_required(owner, infer=case.infer_required)
        and not finished(owner.current)
    )
    return Keep("its recovery has not published it yet", case.now + OVERFLOW_PAUSE) if pending else None


REASONS_TO_KEEP: tuple[Callable[[Case], Keep | None], ...] = (
    out_of_proven_scope,
    referenced,
    made_in_flight,
    protected_overflow,
    young,
)
"""All of them, those without a wait first: a wait is worth its look only when nothing else keeps the slice."""


def _made_before(each: ResourceSlice, in_flight: Synthesis) -> bool:
    """Eno stamps slices with the older UUID, so the stamp alone proves nothing; age beyond any skew does."""
    if each.synthesis_uuid == in_flight.uuid or in_flight.initialized is None or each.created is None:
        return False
    return each.created < in_flight.initialized - CLOCK_SKEW
