"""What Sexton asks of an API server, and nothing more.

`Cluster` is the protocol that handlers, watcher and command are written against; `kube.http` speaks it to a
real server, `devcluster.direct` to the in-memory store. Objects are plain JSON dictionaries, exactly as the
server sent them: no model, so no field is ever lost on the way back.

Every method raises a subclass of `eno.errors.ApiError` and nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from eno.errors import Expired
from kube.resources import Resource

Json: TypeAlias = dict[str, Any]
"""One JSON object."""

JsonPatch: TypeAlias = Sequence[Json]
"""RFC 6902 operations, in order."""

PAGE_SIZE = 500
"""Objects per page of a list."""

LIST_ATTEMPTS = 3
"""How often a list is started before an expired continue token is given up on."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which objects of a resource: one namespace or (None) all, narrowed by selectors.

    `metadata_only` asks for `PartialObjectMetadata`: specs, statuses and Secret data never leave the server.
    """

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `continue_token` is empty on the last one.

    `resource_version` is the list's own version: the one to watch from. `date` is the server's `Date` header.
    """

    items: list[Json]
    resource_version: str
    continue_token: str = ""
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list: every page was read, or there is no Listing at all (P9)."""

    items: list[Json]
    resource_version: str
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. For BOOKMARK only the object's resourceVersion is meaningful.

    An ERROR line is never an event: it is raised as the ApiError that its Status describes.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Json


class Cluster(Protocol):
    """One API server.

    `namespace` is None for cluster-scoped resources. `subresource` is `""` or `"status"`. `strict` asks for
    `fieldValidation=Strict`: unknown fields are refused instead of pruned.
    """

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        """The object as it is now: read from the store, never `resourceVersion=0` from a cache."""
        ...

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        """One consistent page. Raises Expired when the token is too old."""
        ...

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        """Changes after `resource_version`, with bookmarks, until the server ends the stream.

        The generator ends silently after `timeout_seconds`; a stream that stays silent for longer than that
        raises TimedOut. Raises Expired when the version is too old, also from within the stream.
        Close it (`contextlib.closing`) to drop the connection.
        """
        ...

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        """The created object. Raises AlreadyExists when the name is taken."""
        ...

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        """Replace the object at the resourceVersion in `body`. Raises Conflict when it is not the current."""
        ...

    def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: JsonPatch,
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Json:
        """The patched object. Raises Invalid when a `test` fails or the schema refuses the result."""
        ...

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        """The patched object (RFC 7386). A `metadata.resourceVersion` in the patch is a precondition."""
        ...

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete under preconditions. Raises Conflict when one is not met, NotFound when it is gone."""
        ...


@runtime_checkable
class ParallelReader(Protocol):
    """A `Cluster` that has several reads under way at once, which pays where an answer takes a network's time."""

    def get_each(self, resource: Resource, namespace: str | None, names: Sequence[str]) -> Iterator[Json]:
        """See the function of this name."""
        ...


def get_each(cluster: Cluster, resource: Resource, namespace: str | None, names: Sequence[str]) -> Iterator[Json]:
    """The named objects in this order. Raises, in the place of one that cannot be read, what `Cluster.get` does."""
    if isinstance(cluster, ParallelReader):
        yield from cluster.get_each(resource, namespace, names)
    else:
        yield from (cluster.get(resource, namespace, name) for name in names)


def list_all(cluster: Cluster, query: Query, *, page_size: int = PAGE_SIZE) -> Listing:
    """Every object of the query, from one consistent list.

    A continue token that expires midway starts the list over; what was read before is thrown away, since a
    partial list looks like absence. Raises Expired after LIST_ATTEMPTS starts.
    """
    for attempt in range(1, LIST_ATTEMPTS + 1):
        try:
            return _list_once(cluster, query, page_size)
        except Expired:
            if attempt == LIST_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _list_once(cluster: Cluster, query: Query, page_size: int) -> Listing:
    page = cluster.list_page(query, limit=page_size)
    items, date = list(page.items), page.date
    while page.continue_token:
        page = cluster.list_page(query, limit=page_size, continue_token=page.continue_token)
        items.extend(page.items)
    return Listing(items, page.resource_version, date)
