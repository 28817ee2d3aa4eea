"""Who refers to whom, read backwards: a composition names slices, a slice its controller."""

from __future__ import annotations

from collections.abc import Iterable

from watcher.keys import Key


class Referrers:
    """The keys that refer to a key. Nearly all have one, so a set is only made for the second."""

    def __init__(self) -> None:
        self._by_target: dict[Key, Key | set[Key]] = {}

    def of(self, target: Key) -> set[Key]:
        """A set that the caller may change."""
        found = self._by_target.get(target)
        if found is None:
            return set()
        return set(found) if isinstance(found, set) else {found}

    def add(self, referrer: Key, targets: Iterable[Key]) -> None:
        """Remember that `referrer` refers to each of `targets`."""
        for target in targets:
            found = self._by_target.setdefault(target, referrer)
            if isinstance(found, set):
                found.add(referrer)
            elif found != referrer:
                self._by_target[target] = {found, referrer}

    def remove(self, referrer: Key, targets: Iterable[Key]) -> None:
        """Forget it again."""
        for target in targets:
            found = self._by_target.get(target)
            if isinstance(found, set):
                found.discard(referrer)
                if len(found) == 1:
                    self._by_target[target] = found.pop()
            elif found == referrer:
                del self._by_target[target]
