"""Which slices may go. Each reason to keep one is a function of its own.

Pure: the slice, and then the composition of its owner's name, as just read, and `now`. Whatever is in doubt is
kept; a wait is derived from the object, so a restart neither restarts nor skips it. Rules: specification 05.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from eno.decision import finished, recovery_required
from eno.objects import CLEANUP_FINALIZER, OVERFLOW_LABEL, Composition, ResourceSlice
from eno.scope import Scope

YOUNG = timedelta(seconds=5)
"""Age up to which a slice is left alone: its reference may be on the way."""

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
class Asked:
    """What the watcher saw when it asked: the UID of the slice's owner, the UUID of the current synthesis.

    Either is empty when there was none. The UUID is that of the composition of the owner's name, whatever its UID.
    """

    owner_uid: str
    synthesis_uuid: str


@dataclass(frozen=True, slots=True)
class Case:
    """A slice, and the composition of its owner's name as read after it (None: gone, or there is no owner).

    `asked` is None when nobody asked, and a person only wants to know.
    """

    slice: ResourceSlice
    composition: Composition | None
    now: datetime
    scope: Scope
    asked: Asked | None = None
    infer_required: bool = False

    @property
    def owner(self) -> Composition | None:
        """The composition, if it is the very one that owns the slice and not its namesake."""
        if self.composition is None or self.slice.owner is None or self.composition.uid != self.slice.owner.uid:
            return None
        return self.composition


Reason: TypeAlias = Callable[[Case], Keep | None]


def slice_fate(case: Case) -> Fate:
    """What to do with the slice: the first reason to keep it, or what is due when there is none."""
    if case.slice.deleting:
        return _first(REASONS_NOT_TO_RELEASE, case) or Release("it is terminating and nothing waits for it")
    return _first(REASONS_NOT_TO_DELETE, case) or Delete("nothing needs it")


def out_of_scope(case: Case) -> Keep | None:
    """In another namespace, or the composition of its owner's name lies outside the watch scope."""
    namespace = case.scope.composition_namespace
    if namespace and case.slice.namespace != namespace:
        return Keep(f"out of scope: namespace {case.slice.namespace} is outside {namespace}")
    outside = case.scope.outside_watch(case.composition) if case.composition else None
    return Keep(f"out of scope: {outside}") if outside else None


def watcher_saw_another_owner(case: Case) -> Keep | None:
    """Nobody asked about this slice as it is now."""
    owner = case.slice.owner.uid if case.slice.owner else ""
    if case.asked is None or case.asked.owner_uid == owner:
        return None
    return Keep("it has another owner than the watcher saw")


def watcher_saw_another_synthesis(case: Case) -> Keep | None:
    """The watcher's view and the live one differ; it will ask again once they agree."""
    current = case.composition.current if case.composition else None
    if case.asked is None or case.asked.synthesis_uuid == (current.uuid if current else ""):
        return None
    return Keep("the watcher saw another synthesis")


def released_already(case: Case) -> Keep | None:
    """Terminating, and only the finalizers of others are left."""
    if CLEANUP_FINALIZER in case.slice.metadata.finalizers:
        return None
    return Keep("only finalizers of others hold it")


def still_to_be_reconciled(case: Case) -> Keep | None:
    """A terminating slice of a current synthesis that is not reconciled yet is needed for its deletion."""
    current = case.composition.current if case.composition else None
    if current is None or case.slice.name not in current.slice_names or current.reconciled is not None:
        return None
    return Keep("the current synthesis is not reconciled yet")


def ownerless(case: Case) -> Keep | None:
    """Not controlled by a Composition, so nobody can say whether it is needed."""
    return Keep("no composition controls it") if case.slice.owner is None else None


def out_of_proven_scope(case: Case) -> Keep | None:
    """Where its own composition is gone and a selector is set, nobody can say whose slice it was."""
    if not case.scope.label_selector or case.owner is not None:
        return None
    return Keep("its composition is gone, so the label selector cannot be checked")


def referenced(case: Case) -> Keep | None:
    """Named by the current or previous synthesis of the composition of that name, whatever its UID."""
    if case.composition is None:
        return None
    for label, synthesis in (("current", case.composition.current), ("previous", case.composition.previous)):
        if synthesis is not None and case.slice.name in synthesis.slice_names:
            return Keep(f"the {label} synthesis references it")
    return None


def made_in_flight(case: Case) -> Keep | None:
    """Possibly made by the owner's in-flight synthesis, whatever UUID it is stamped with.

    Eno stamps slices with the older UUID, so the stamp alone proves nothing; age beyond any clock skew does.
    """
    synthesis = case.owner.in_flight if case.owner else None
    if synthesis is None or synthesis.canceled is not None:
        return None
    stamped = case.slice.synthesis_uuid == synthesis.uuid
    if not stamped and made_before(case.slice.created, synthesis.initialized):
        return None
    return Keep("it may belong to the in-flight synthesis")


def made_before(created: datetime | None, initialized: datetime | None) -> bool:
    """Whether a slice certainly existed before a synthesis began, however far their clocks are apart."""
    return created is not None and initialized is not None and created < initialized - CLOCK_SKEW


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


def young(case: Case) -> Keep | None:
    """Not yet older than YOUNG by its own creationTimestamp."""
    if case.slice.created is None:
        return Keep("it has no creationTimestamp")
    until = old_enough_at(case.slice.created)
    return Keep("it is young", until) if case.now < until else None


def old_enough_at(created: datetime) -> datetime:
    """The first instant at which a slice is older than YOUNG."""
    return created + YOUNG + datetime.resolution


REASONS_NOT_TO_RELEASE: tuple[Reason, ...] = (
    out_of_scope,
    watcher_saw_another_owner,
    watcher_saw_another_synthesis,
    released_already,
    still_to_be_reconciled,
)
"""For terminating slices."""

REASONS_NOT_TO_DELETE: tuple[Reason, ...] = (
    out_of_scope,
    watcher_saw_another_owner,
    watcher_saw_another_synthesis,
    ownerless,
    out_of_proven_scope,
    referenced,
    made_in_flight,
    protected_overflow,
    young,
)
"""For all others. Those without a wait come first: a wait is worth its look only when nothing else keeps it."""


def _first(reasons: tuple[Reason, ...], case: Case) -> Keep | None:
    return next((kept for reason in reasons if (kept := reason(case)) is not None), None)
