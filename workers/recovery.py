"""What recover would do about a composition as it is now: everything read, everything decided, nothing written.

The task carries a `Prepared` out; `sexton plan` prints it. Steps and reasons: specification 02.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eno.decision import RESYNTHESIS_OWED, Decision, Reason, adoption_note, recovery_required
from eno.errors import InvalidInventory, SextonError
from eno.inventory.entries import Entry
from eno.inventory.selection import Absent, Candidate, Lineage, Snapshot, TooYoung, adopt, select
from eno.objects import Composition, Synthesis
from eno.packing import Plan, pack
from eno.tombstones import Debt, manifests, mass_burial, missing, settle, tombstone, unseen
from workers.context import Context
from workers.freshness import Live
from workers.outcome import Kind, Outcome
from workers.reading import Neighbours, list_inventory, read_slices


@dataclass(frozen=True, slots=True)
class Prepared:
    """A decision and the writes that precede it.

    `cause` is the error behind a retriable decision. `warning` is set when people should hear of it.
    """

    live: Live
    decision: Decision
    plan: Plan = field(default_factory=Plan)
    debt: Debt = field(default_factory=Debt)
    inventory_size: int = 0
    cause: SextonError | None = None
    warning: str = ""

    @property
    def mass_burial(self) -> bool:
        """Whether so much would be buried that people hear of it first."""
        return mass_burial(self.debt, self.inventory_size)


@dataclass(frozen=True, slots=True)
class _History:
    lineage: Lineage
    snapshot: Snapshot


def prepare(live: Live, context: Context) -> Prepared | Outcome:
    """The decision for a composition that one is due for, or `waiting` when it is too early for one.

    Raises nothing but programming errors: whatever fails becomes a retriable decision with its cause.
    """
    composition = live.composition
    current = composition.current
    if current is None:
        raise AssertionError("recovery is for a synthesized composition")
    if not recovery_required(composition, infer=context.settings.infer_required):
        return Prepared(live, Decision(Reason.NOT_NEEDED), warning=_missing_fields(composition, current))
    neighbours = Neighbours(context.upstream, composition)
    try:
        history = _history(composition, neighbours, context)
        match history:
            case Absent(why):
                return Prepared(live, Decision(Reason.INVENTORY_NOT_FOUND, why))
            case TooYoung(until):
                return Outcome(Kind.WAITING, "younger than what may adopt another name's history", until)
            case _History(_, snapshot):
                entries = snapshot.entries()
    except InvalidInventory as error:
        return Prepared(live, Decision(Reason.INVENTORY_INVALID, error.summary), warning=str(error))
    except SextonError as error:
        return Prepared(live, Decision(Reason.INVENTORY_GET_ERROR, error.summary), cause=error)
    return _bury(live, history, entries, neighbours, context)


def _bury(live: Live, history: _History, entries: list[Entry], neighbours: Neighbours, context: Context) -> Prepared:
    """The decision once the inventory is known: current slices, then siblings, then where tombstones go."""
    try:
        slices = read_slices(context.upstream, live.composition)
        current = manifests(slices)
        absent = missing(entries, current)
        debt = Debt()
        if absent:
            wanted = neighbours.current_manifests()
            remembered = list(neighbours.remembered(history.lineage, context.clock()))
            debt = settle(absent, current, wanted, remembered)
    except InvalidInventory as error:
        return Prepared(live, Decision(Reason.INVENTORY_INVALID, error.summary), warning=str(error))
    except SextonError as error:
        return Prepared(live, Decision(Reason.SLICE_ERROR, error.summary), cause=error)
    try:
        plan = pack([tombstone(entry) for entry in debt.buried], slices)
    except SextonError as error:
        return Prepared(live, Decision(Reason.UPDATE_ERROR, error.summary), cause=error)
    owed = unseen(entries, current, debt)
    decision = Decision(Reason.FINISHED, _message(live.composition, history.snapshot, debt, owed=owed))
    held = f"Held, because something wanted lives in it: {_listed(debt)}." if debt.held else ""
    return Prepared(live, decision, plan, debt, len(entries), warning=held)


def _history(composition: Composition, neighbours: Neighbours, context: Context) -> _History | Absent | TooYoung:
    """The snapshot to recover from. Raises InvalidInventory, and ApiError on a failed list."""
    lineage = Lineage.read(list_inventory(context.downstream, composition))
    now = context.clock()
    found = select(lineage, composition.name, now)
    if isinstance(found, Candidate):
        adopted = adopt(found, composition, neighbours.all, neighbours.earliest(now))
        return _History(lineage, adopted) if isinstance(adopted, Snapshot) else adopted
    return _History(lineage, found) if isinstance(found, Snapshot) else found


def _missing_fields(composition: Composition, current: Synthesis) -> str:
    if current.recovery_required is not None or composition.previous is not None:
        return ""
    return (
        "This first synthesis does not say whether it lacks history. An Eno without the recovery fields makes "
        "such syntheses; upgrade it, or set SEXTON_INFER_REQUIRED=true to treat them as lacking it."
    )


def _message(composition: Composition, snapshot: Snapshot, debt: Debt, *, owed: bool) -> str:
    """The same for every attempt: how much was buried by which attempt is not in it."""
    source = snapshot.source.composition
    parts = [
        adoption_note(source) if source != composition.name else "",
        f"Held, because something wanted lives in it: {_listed(debt)}." if debt.held else "",
        RESYNTHESIS_OWED if owed else "",
    ]
    return " ".join(part for part in parts if part)


def _listed(debt: Debt) -> str:
    shown = ", ".join(str(identity) for identity in debt.held[:10])
    return f"{shown} and {len(debt.held) - 10} more" if len(debt.held) > 10 else shown
