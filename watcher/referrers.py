"""Who refers to whom, read backwards: a composition names slices, a slice its controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from watcher.keys import Key

_FEW = 8
"""Up to so many referrers are a tuple, which takes a third of the memory of a set."""

_Referrers: TypeAlias = Key | tuple[Key, ...] | set[Key]
"""Nearly every key has one referrer, or a few; a lineage can have thousands."""


class Referrers:
    """The keys that refer to a key."""

    def __init__(self) -> None:
        self._by_target: dict[Key, _Referrers] = {}

    def of(self, target: Key) -> set[Key]:
        """A set that the caller may change."""
        found = self._by_target.get(target)
        return set() if found is None else {found} if isinstance(found, Key) else set(found)

    def add(self, referrer: Key, targets: Iterable[Key]) -> None:
        """Remember that `referrer` refers to each of `targets`."""
        for target in targets:
            found = self._by_target.setdefault(target, referrer)
            if isinstance(found, set):
                found.add(referrer)
            elif found is not referrer:
                self._by_target[target] = _packed(self.of(target) | {referrer})

    def remove(self, referrer: Key, targets: Iterable[Key]) -> None:
        """Forget it again."""
        for target in targets:
            found = self._by_target.get(target)
            if isinstance(found, set) and len(found) > _FEW:
                found.discard(referrer)
            elif left := self.of(target) - {referrer}:
                self._by_target[target] = _packed(left)
            else:
                self._by_target.pop(target, None)


def _packed(keys: set[Key]) -> _Referrers:
    if len(keys) > _FEW:
        return keys
    return next(iter(keys)) if len(keys) == 1 else tuple(keys)
