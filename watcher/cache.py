"""The records of all objects in scope, and what is to be looked at when one of them changes.

Filled from lists and watch events, which are hints: nothing is ever written because of what an event said, and
a list repairs whatever the events before it missed. What is looked at is a composition with its slices and
inventories, and a lineage with all of its inventories; a slice that no composition controls stands for itself.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from watcher.chunks import InventoryRecord
from watcher.keys import Key, Kind
from watcher.records import (
    CompositionRecord,
    LineageRecord,
    Record,
    SliceRecord,
    Subject,
    Unreadable,
    undecided_since,
)
from watcher.referrers import Referrers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a cache holds. `undecided` counts compositions, the oldest of which waits since `oldest_undecided`."""

    objects: Counter[Kind]
    unreadable: Counter[Kind]
    undecided: int
    oldest_undecided: datetime | None


class Cache:
    """Safe to use from any thread. Every change returns the keys to look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Key, Record] = {}
        self._referrers = Referrers()
        self._unreadable: dict[Key, str] = {}
        self._inventories_listed = False

    def replace(self, kind: Kind, listed: Iterable[Record | Unreadable]) -> set[Key]:
        """Take over a complete list of a kind. Only what differs from before is to be looked at.

        That no inventory is known means something only once they are listed, so then all that may have one differs.
        """
        found = {each.key: each for each in listed}
        with self._lock:
            known = {key for key in self._records.keys() | self._unreadable.keys() if key.kind is kind}
            looks: set[Key] = set()
            for key in known - found.keys():
                looks |= self._put(key, None)
            for key, each in found.items():
                looks |= self._put(key, each)
            if kind is Kind.INVENTORY and not self._inventories_listed:
                self._inventories_listed = True
                looks |= {each.key for each in self._compositions() if each.in_recovery_scope}
            return looks

    def change(self, found: Record | Unreadable) -> set[Key]:
        """Take over one object as an event showed it, whatever its version: versions are opaque."""
        with self._lock:
            return self._put(found.key, found)

    def remove(self, found: Record | Unreadable) -> set[Key]:
        """Forget an object that was deleted or left the scope, unless another one has its name by now."""
        with self._lock:
            known = self._records.get(found.key)
            if known is not None and not isinstance(found, Unreadable) and known.uid != found.uid:
                return {found.key}
            return self._put(found.key, None)

    def subject(self, key: Key) -> Subject:
        """What a look at the key sees now."""
        with self._lock:
            if key.kind is Kind.LINEAGE:
                return Subject(None, lineage=self._lineage(key))
            if key in self._unreadable:
                return Subject(None)  # there it is: its slices are no orphans
            found = self._records.get(key)
            if isinstance(found, SliceRecord):
                return Subject(None, (found,))
            related = self._referrers.of(key).union(found.refers_to if found else ())
            slices = tuple(each for each in self._known(related) if isinstance(each, SliceRecord))
            if not isinstance(found, CompositionRecord):
                return Subject(None, slices)
            return Subject(
                found,
                slices,
                inventories=self._inventories(found),
                adopted_in_use=found.key._replace(name=found.history.adopted) in self._records,
            )

    def everything(self) -> set[Key]:
        """All that there is to look at."""
        with self._lock:
            return set().union(*(self._looks(each) for each in self._records.values()))

    def survey(self) -> Survey:
        """How much is known, and what is undecided."""
        with self._lock:
            waiting = [since for each in self._compositions() if (since := undecided_since(each)) is not None]
            return Survey(
                objects=Counter(key.kind for key in self._records),
                unreadable=Counter(key.kind for key in self._unreadable),
                undecided=len(waiting),
                oldest_undecided=min(waiting, default=None),
            )

    def __len__(self) -> int:
        """How many objects are known."""
        with self._lock:
            return len(self._records)

    @property
    def unreadable(self) -> int:
        """How many objects are there but cannot be read."""
        with self._lock:
            return len(self._unreadable)

    def _put(self, key: Key, after: Record | Unreadable | None) -> set[Key]:
        if isinstance(after, Unreadable):
            self._report(after)
            after = None
        else:
            self._unreadable.pop(key, None)
        before = self._records.get(key)
        if before == after:
            return set()
        looks = self._looks(before)
        if before is not None:
            del self._records[key]
            self._referrers.remove(key, _targets(before))
        if after is not None:
            self._records[key] = after
            self._referrers.add(key, _targets(after))
        return looks | self._looks(after) | self._disputed(before, after)

    def _report(self, unreadable: Unreadable) -> None:
        """Once per object and reason: a broken object is listed again and again."""
        if self._unreadable.get(unreadable.key) != unreadable.reason:
            self._unreadable[unreadable.key] = unreadable.reason
            extra = {"action": "object-skipped", "object": str(unreadable.key)}
            _log.warning("%s", unreadable.reason, extra=extra)

    def _looks(self, changed: Record | None) -> set[Key]:
        """A composition looks at the slices it names too, since they may have been let go or taken up."""
        if changed is None:
            return set()
        if isinstance(changed, SliceRecord):
            return {_unit(changed)} | self._referrers.of(changed.key)
        if isinstance(changed, InventoryRecord):
            lineage, history = changed.refers_to
            return {lineage} | _compositions(self._referrers.of(history))
        named = self._known(changed.refers_to)
        # Whoever adopted the history of this name.
        adopting = _compositions(self._referrers.of(changed.key))
        return {changed.key} | adopting | {_unit(each) for each in named if isinstance(each, SliceRecord)}

    def _disputed(self, before: Record | None, after: Record | None) -> set[Key]:
        """The lineages with inventories that a composition began or ceased to claim."""
        claims = [_claim(each) for each in (before, after)]
        if claims[0] == claims[1]:
            return set()
        lineages = {claim[0] for claim in claims if claim is not None}
        return {key for key in lineages if any(each.kind is Kind.INVENTORY for each in self._referrers.of(key))}

    def _compositions(self) -> Iterator[CompositionRecord]:
        return (each for each in self._records.values() if isinstance(each, CompositionRecord))

    def _inventories(self, of: CompositionRecord) -> tuple[InventoryRecord, ...] | None:
        if not self._inventories_listed:
            return None
        stored = (each for history in of.histories for each in self._known(self._referrers.of(history)))
        return tuple(each for each in stored if isinstance(each, InventoryRecord))

    def _lineage(self, key: Key) -> LineageRecord:
        found = self._known(self._referrers.of(key))
        return LineageRecord(
            key.namespace,
            tuple(each for each in found if isinstance(each, InventoryRecord)),
            tuple(each for each in found if isinstance(each, CompositionRecord)),
        )

    def _known(self, keys: Iterable[Key]) -> list[Record]:
        """The records there are, in the order of their keys."""
        return [found for key in sorted(keys) if (found := self._records.get(key)) is not None]


def _unit(of: SliceRecord) -> Key:
    return of.refers_to[0] if of.refers_to else of.key


def _targets(of: Record) -> tuple[Key, ...]:
    """Everything that looks at the record, or that it is looked at with."""
    if not isinstance(of, CompositionRecord):
        return of.refers_to
    adopted = (of.key._replace(name=of.history.adopted),) if of.history.adopted else ()
    return (*of.refers_to, *of.histories, of.lineage, *adopted)


def _compositions(keys: Iterable[Key]) -> set[Key]:
    return {key for key in keys if key.kind is Kind.COMPOSITION}


def _claim(of: Record | None) -> tuple[Key, str, bool, bool] | None:
    """What a composition claims of a lineage."""
    if not isinstance(of, CompositionRecord):
        return None
    return of.lineage, of.key.name, of.history.claims, of.history.unrecovered
