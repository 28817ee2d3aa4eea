"""Which objects to look at, and when.

A thousand events for one object are one look: the agenda is a set. It holds no truth either. Every instant in it
was derived from an object (or from what Redis says of its key) and is derived again when that object is next
looked at, so a process that starts with an empty agenda and a first list misses nothing (P6).
"""

from __future__ import annotations

import heapq
import threading
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from watcher.keys import Key

_COMPACT_ABOVE = 1024
"""Replaced instants stay in the heap until popped; above this many, and twice the live ones, it is rebuilt."""


class Look(NamedTuple):
    """A key whose turn it is. `changed`: because something about it changed, not because time passed.

    `slices_changed`: and that was one of its slices.
    """

    key: Key
    changed: bool
    slices_changed: bool = False


class Agenda:
    """Keys that are due, oldest first, and one later instant per key. Safe to use from any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        # Not a dict: finding the first key of one is linear in the keys taken before.
        self._due: OrderedDict[Key, Look] = OrderedDict()
        self._later: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, Key]] = []
        self._slices_changed: set[Key] = set()
        self._now: datetime | None = None

    def look(self, keys: Iterable[Key], *, changed: bool, slices_changed: bool = False) -> None:
        """Make the keys due now. A key that is due already keeps its place."""
        with self._condition:
            # Sorted: what happened at once comes up in the same order in every process.
            for key in sorted(keys):
                before = self._due.get(key, Look(key, changed=False))
                self._due[key] = Look(key, changed or before.changed, slices_changed or before.slices_changed)
            self._condition.notify_all()

    def look_at(self, key: Key, instant: datetime | None, *, slices_changed: bool = False) -> None:
        """Make the key due at `instant`, instead of at the instant given before; None: not by itself.

        `slices_changed`: a slice changed, and nobody could be asked to look at that yet.
        """
        with self._condition:
            self._slices_changed.discard(key)
            if slices_changed:
                self._slices_changed.add(key)
            if instant is None:
                self._later.pop(key, None)
                return
            self._later[key] = instant
            heapq.heappush(self._heap, (instant, key))
            if len(self._heap) > max(_COMPACT_ABOVE, 2 * len(self._later)):
                self._heap = [(instant, key) for key, instant in self._later.items()]
                heapq.heapify(self._heap)

    def take(self, now: datetime) -> Look | None:
        """The next key that is due, which thereby no longer is; None when there is none."""
        with self._condition:
            # A clock that was set back would stretch every wait by as much.
            set_back = self._now is not None and now < self._now
            self._now = now
            while self._heap and (set_back or self._heap[0][0] <= now):
                instant, key = heapq.heappop(self._heap)
                if self._later.get(key) == instant:
                    del self._later[key]
                    self._due.setdefault(key, Look(key, changed=False))
            if not self._due:
                return None
            key, look = self._due.popitem(last=False)
            return look._replace(slices_changed=look.slices_changed or key in self._slices_changed)

    def wait(self, seconds: float) -> None:
        """Return as soon as a key is made due by `look`, and after `seconds` at the latest."""
        with self._condition:
            if not self._due:
                self._condition.wait(seconds)
