"""What metadata tells of slices: which references lead nowhere, and which slices nobody is seen to need. Pure.

It only decides what a worker is asked to look at. The worker asks the same of the live objects, and more of their
specs, before it does anything (`eno.readiness`, `eno.retention`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from eno.readiness import MISSING_SLICE_PATIENCE
from eno.retention import made_before, old_enough_at
from eno.scope import Scope
from watcher.records import CompositionRecord, SliceRecord, Subject

LONG_AGO = datetime.min.replace(tzinfo=UTC)


def hole_counts_at(subject: Subject) -> datetime | None:
    """From when on a current reference that leads nowhere calls for a resynthesis; None when none does."""
    composition = subject.composition
    current = composition.current if composition else None
    if composition is None or current is None or current.synthesized is None or not composition.may_resynthesize:
        return None
    if None in current.slice_names:
        return LONG_AGO
    known = {each.key.name for each in subject.slices}
    whole = all(name in known for name in current.slice_names)
    return None if whole else current.synthesized + MISSING_SLICE_PATIENCE


def let_go_at(each: SliceRecord, composition: CompositionRecord | None, scope: Scope) -> datetime | None:
    """From when on the slice is to be released or deleted; None while something else has to change first.

    `composition` is the one of its owner's name, whatever its UID; None when it is gone.
    """
    if each.deleting:
        return LONG_AGO if each.held and not _still_needed(each, composition) else None
    owner = composition if composition is not None and composition.uid == each.owner_uid else None
    unproven = bool(scope.label_selector) and owner is None
    if each.created is None or not each.owner_uid or unproven or _referenced(each, composition):
        return None
    running = owner.in_flight if owner else None
    if running is not None and not running.canceled and not made_before(each.created, running.initialized):
        return None
    return old_enough_at(each.created)


def _still_needed(each: SliceRecord, composition: CompositionRecord | None) -> bool:
    current = composition.current if composition else None
    return current is not None and not current.reconciled and each.key.name in current.slice_names


def _referenced(each: SliceRecord, composition: CompositionRecord | None) -> bool:
    if composition is None:
        return False
    current = composition.current.slice_names if composition.current else ()
    return each.key.name in current or each.key.name in composition.previous_slice_names
