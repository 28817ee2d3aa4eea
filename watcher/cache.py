"""The records of all objects in scope, and what is to be looked at when one of them changes.

Filled from lists and watch events, which are hints: nothing is ever written because of what an event said, and
a list repairs whatever the events before it missed. What is looked at is a composition with its slices; a slice
that no composition controls stands for itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from watcher.records import Key, Kind, Record, SliceRecord, Subject, Unreadable
from watcher.referrers import Referrers

_log = logging.getLogger(__name__)


class Cache:
    """Safe to use from any thread. Every change returns the keys to look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Key, Record] = {}
        self._referrers = Referrers()
        self._unreadable: dict[Key, str] = {}

    def replace(self, kind: Kind, listed: Iterable[Record | Unreadable]) -> set[Key]:
        """Take over a complete list of a kind. Only what differs from before is to be looked at."""
        found = {each.key: each for each in listed}
        with self._lock:
            known = {key for key in self._records.keys() | self._unreadable.keys() if key.kind is kind}
            looks: set[Key] = set()
            for key in known - found.keys():
                looks |= self._put(key, None)
            for key, each in found.items():
                looks |= self._put(key, each)
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
            found = self._records.get(key)
            if isinstance(found, SliceRecord):
                return Subject(None, (found,))
            related = self._referrers.of(key).union(found.refers_to if found else ())
            slices = (self._records.get(name) for name in sorted(related))
            return Subject(found, tuple(each for each in slices if isinstance(each, SliceRecord)))

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
            self._referrers.remove(key, before.refers_to)
        if after is not None:
            self._records[key] = after
            self._referrers.add(key, after.refers_to)
        return looks | self._looks(after)

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
        named = (self._records.get(key) for key in changed.refers_to)
        return {changed.key} | {_unit(each) for each in named if isinstance(each, SliceRecord)}


def _unit(of: SliceRecord) -> Key:
    return of.refers_to[0] if of.refers_to else of.key
