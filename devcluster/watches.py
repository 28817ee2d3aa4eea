"""Watches: a cursor over the history that tells what happened to the objects of one query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from devcluster.kinds import Kind
from devcluster.objects import Change, Stored
from devcluster.selectors import Selector
from devcluster.statuses import expired
from devcluster.store import Store
from kube.cluster import Json

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch; `stored` carries the version of the change, also when it is a deletion."""

    type: EventType
    stored: Stored


class Watch:
    """The changes of one query after one version.

    `version` None or 0 starts with an ADDED for every object there is. `poll` never waits.
    """

    def __init__(
        self, store: Store, kind: Kind, namespace: str | None, selector: Selector, version: int | None
    ) -> None:
        self._store = store
        self._kind = kind
        self._prefix = f"{namespace}/" if namespace else ""
        self._selector = selector
        self.version = version or store.version
        self._initial: list[Stored] = []
        if not version:
            self._initial = [item for _, item in store.table(kind).select(self._prefix) if selector.matches(item)]

    def poll(self) -> Iterator[Event]:
        """What happened since the last poll. Raises Refusal (410) when the history no longer tells."""
        yield from (Event("ADDED", item) for item in self._initial)
        self._initial = []
        floor = self._store.history.floor
        if self.version < floor:
            raise expired(f"too old resource version: {self.version} ({floor})")
        for change in self._store.changes_since(self.version):
            event = self._event(change)
            self.version = change.version
            if event is not None:
                yield event

    @property
    def ahead(self) -> bool:
        """Whether it began at a version that the store has yet to reach. Of that it tells nothing, and no bookmark."""
        return self.version > self._store.version

    def bookmark(self) -> Json:
        """The object of a BOOKMARK line: everything up to its resourceVersion has been told."""
        resource = self._kind.resource
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self.version)},
        }

    def _event(self, change: Change) -> Event | None:
        if change.resource != self._kind.key or not change.key.startswith(self._prefix):
            return None
        before, after = change.before, change.after
        was = before is not None and self._selector.matches(before)
        if after is not None and self._selector.matches(after):
            return Event("MODIFIED" if was else "ADDED", after)
        if before is None or not was:
            return None
        return Event("DELETED", before.at(change.version))
