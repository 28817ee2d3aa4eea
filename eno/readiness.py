"""From slice states to `reconciled` and `ready`, and whether a resynthesis has to be asked for.

Pure: the composition as read *before* the slices, the slices as read after it, and `now`. Rules: specification 03.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from eno.decision import finished, resynthesis_refused
from eno.objects import (
    DELETION_STRATEGY_ANNOTATION,
    SYMPHONY_DELETING_LABEL,
    Composition,
    ResourceSlice,
    ResourceState,
)
from eno.wording import counted

MISSING_SLICE_PATIENCE = timedelta(seconds=5)
"""How long after its synthesis a named slice may be missing before that counts: lists and writes take a moment."""

TOLERATED_CORRECTIONS = 2
"""How often within a minute a foreign readiness is cleared without a pause."""

LONGEST_CORRECTION_PAUSE = timedelta(minutes=1)


class Hole(StrEnum):
    """What stands in place of a slice that could not be read."""

    NAMELESS = "a slice reference has no name"
    MISSING = "a slice is missing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `reconciled`, `ready` and `simplified.error` should be. `error` is None where it is not ours to set."""

    reconciled: datetime | None
    ready: datetime | None
    error: str | None = None


def held(composition: Composition) -> bool:
    """Whether the composition may be neither ready nor reconciled, since its recovery is undecided (P2)."""
    current = composition.current
    return composition.opted_in and not composition.deleting and (current is None or not finished(current))


def skips_slices(composition: Composition) -> bool:
    """Whether a symphony is being deleted around the composition, so that its slices do not count."""
    return composition.labels.get(SYMPHONY_DELETING_LABEL) == "true"


def orphans(composition: Composition) -> bool:
    """Whether deleted resources are let go on purpose instead of being deleted."""
    return composition.annotations.get(DELETION_STRATEGY_ANNOTATION) == "orphan"


def verdict(composition: Composition, slices: Sequence[ResourceSlice | Hole], now: datetime) -> Verdict | None:
    """What the status should say, or None when it cannot be told because a slice is missing.

    A `reconciled` that stands and still holds is kept, so that an unchanged state is no write.
    """
    current = composition.current
    if current is None:
        return None
    counted = [] if skips_slices(composition) else slices
    whole = [each for each in counted if isinstance(each, ResourceSlice)]
    error = _worst_error(composition, whole)
    if held(composition):
        return Verdict(None, None, error)
    if len(whole) < len(counted) and not composition.deleting:
        return None
    reconciled = None if any(unreconciled(each, composition) for each in whole) else current.reconciled or now
    return Verdict(reconciled, _ready(whole, current.reconciled), error)


def obstacles(composition: Composition, slices: Sequence[ResourceSlice | Hole]) -> list[str]:
    """Why the composition is not both ready and reconciled, for people. Empty when nothing is in the way."""
    found = [_undecided(composition)] if held(composition) else []
    for each in [] if skips_slices(composition) else slices:
        if isinstance(each, ResourceSlice):
            why = unreconciled(each, composition) or unready(each)
            found += [f"slice {each.name}: {why}"] if why else []
        elif not composition.deleting:
            found.append(str(each))
    return found


def unreconciled(each: ResourceSlice, composition: Composition) -> str | None:
    """Why the slice is not reconciled yet, or None.

    A status array that is too short is unfinished: what was appended last has no state yet.
    """
    expected = len(each.resources)
    if len(each.states) < expected:
        return f"{_share(expected - len(each.states), expected, 'has', 'have')} no state yet"
    waiting = sum(not _reconciled(state, composition) for state in _states(each))
    if not waiting:
        return None
    return f"{_share(waiting, expected)} not {'deleted' if composition.deleting else 'reconciled'}"


def unready(each: ResourceSlice) -> str | None:
    """Why the slice is not ready yet, or None."""
    expected = len(each.resources)
    waiting = expected - sum(state.ready is not None for state in _states(each))
    return f"{_share(waiting, expected)} not ready" if waiting else None


def correction_pause(times: int) -> timedelta | None:
    """How long to leave a foreign readiness alone after the `times`-th correction in a row; None: not at all."""
    if times <= TOLERATED_CORRECTIONS:
        return None
    seconds = 2.0 ** min(times - TOLERATED_CORRECTIONS, 16)
    return min(timedelta(seconds=seconds), LONGEST_CORRECTION_PAUSE)


def _undecided(composition: Composition) -> str:
    current = composition.current
    if current is None or current.synthesized is None:
        return "Eno has not synthesized it yet"
    return "tombstone recovery has not decided yet"


def _share(part: int, whole: int, singular: str = "is", plural: str = "are") -> str:
    """`1 of 1 resource is`, `2 of 3 resources are`: the noun goes with the whole, the verb with the part."""
    return f"{part} of {counted(whole, 'resource')} {singular if part == 1 else plural}"


def _states(each: ResourceSlice) -> tuple[ResourceState, ...]:
    return each.states[: len(each.resources)]


def _ready(slices: Sequence[ResourceSlice], reconciled: datetime | None) -> datetime | None:
    """The latest ready time; an empty synthesis becomes ready at its reconciled time, one pass later."""
    if any(unready(each) for each in slices):
        return None
    times = [state.ready for each in slices for state in _states(each) if state.ready is not None]
    return max(times, default=reconciled)


def _reconciled(state: ResourceState, composition: Composition) -> bool:
    if not state.reconciled:
        return False
    return not composition.deleting or state.deleted or orphans(composition)


def _worst_error(composition: Composition, slices: Iterable[ResourceSlice]) -> str | None:
    if composition.simplified is None or composition.simplified.status != "Reconciling":
        return None
    return max((state.reconciliation_error or "" for each in slices for state in _states(each)), default="")


@dataclass(frozen=True, slots=True)
class Resynthesis:
    """A resynthesis to ask for, and why; not before `at` when that is set."""

    why: str
    at: datetime | None = None


def resynthesis(
    composition: Composition, slices: Sequence[ResourceSlice | Hole], now: datetime, *, recovers: bool
) -> Resynthesis | None:
    """The resynthesis that the state of the current slices calls for, unless it is refused.

    `recovers` says that the composition is in the recovery scope of an enabled operator.
    """
    current = composition.current
    if current is None or current.synthesized is None or resynthesis_refused(composition) is not None:
        return None
    if Hole.NAMELESS in slices:
        return Resynthesis(Hole.NAMELESS)
    undecided = composition.opted_in and recovers and not finished(current)
    if undecided and any(isinstance(each, ResourceSlice) and each.deleting for each in slices):
        return Resynthesis("a slice is terminating before its recovery was decided")
    if Hole.MISSING in slices:
        due = current.synthesized + MISSING_SLICE_PATIENCE
        return Resynthesis(Hole.MISSING, due if now < due else None)
    return None
