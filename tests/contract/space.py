"""One namespace on one server, and how a test acts in it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from eno.errors import ApiError
from kube.cluster import Cluster, Json, Page, Query, WatchEvent, list_all
from kube.resources import Resource
from tests.contract.kinds import PROBES, probe
from tests.contract.plain import Answered, Ask, Reply
from tests.contract.servers import Server

_END = "zz-end-"
_SECONDS = 20


@dataclass(frozen=True)
class Here:
    """A `Cluster` as seen from inside one namespace. `written` are the kinds that somebody tried to write here."""

    cluster: Cluster
    namespace: str
    written: set[Resource] = field(default_factory=set, kw_only=True)

    def get(self, resource: Resource, name: str = "a", *, metadata_only: bool = False) -> Json:
        return self.cluster.get(resource, self.namespace, name, metadata_only=metadata_only)

    def create(self, resource: Resource, body: Json) -> Json:
        self.written.add(resource)
        return self.cluster.create(resource, self.namespace, body)

    def update(self, resource: Resource, body: Json, name: str = "a", *, subresource: str = "") -> Json:
        self.written.add(resource)
        return self.cluster.update(resource, self.namespace, name, body, subresource=subresource)

    def json_patch(
        self, resource: Resource, *operations: Json, name: str = "a", subresource: str = "", strict: bool = False
    ) -> Json:
        self.written.add(resource)
        return self.cluster.json_patch(
            resource, self.namespace, name, operations, subresource=subresource, strict=strict
        )

    def merge_patch(self, resource: Resource, patch: Json, name: str = "a", *, subresource: str = "") -> Json:
        self.written.add(resource)
        return self.cluster.merge_patch(resource, self.namespace, name, patch, subresource=subresource)

    def delete(self, resource: Resource, name: str = "a", **preconditions: str) -> None:
        self.written.add(resource)
        self.cluster.delete(resource, self.namespace, name, **preconditions)

    def page(self, resource: Resource, *, limit: int = 500, continue_token: str = "", **narrowing: Any) -> Page:
        query = Query(resource, self.namespace, **narrowing)
        return self.cluster.list_page(query, limit=limit, continue_token=continue_token)

    def names(self, resource: Resource, **query: Any) -> list[str]:
        """The names of what a list shows."""
        return [item["metadata"]["name"] for item in self.page(resource, **query).items]

    def watch(
        self, resource: Resource, version: str, *, seconds: int = _SECONDS, **query: Any
    ) -> Generator[WatchEvent]:
        query_ = Query(resource, self.namespace, **query)
        return self.cluster.watch(query_, resource_version=version, timeout_seconds=seconds)


Call: TypeAlias = Callable[[Here], object]


@dataclass(frozen=True)
class Refused:
    """How a request was refused: by plain HTTP, and as the `Cluster` raised it."""

    error: ApiError
    reply: Reply

    @property
    def summary(self) -> tuple[type[ApiError], int, str]:
        """What every client goes by: the class, the status, the reason."""
        return type(self.error), self.reply.code, self.reply.reason


@dataclass(frozen=True)
class Space(Here):
    """A fresh namespace of a server."""

    server: Server

    def probe(self, name: str = "a", **spec: Any) -> Json:
        """Create a Probe."""
        return self.create(PROBES, probe(name, **spec))

    def refused(self, call: Call) -> Refused:
        """How `call` is refused, both as Sexton sends it and plainly. Fails when anything changed all the same."""
        before = self.state()
        with pytest.raises(ApiError) as raised:
            call(self)
        with pytest.raises(Answered) as answered:
            call(Here(self.server.plain, self.namespace, written=self.written))
        refused = Refused(raised.value, answered.value.reply)
        assert (raised.value.status, raised.value.reason) == (refused.reply.code, refused.reply.reason)
        assert self.state() == before
        return refused

    def state(self) -> list[Json]:
        """Every object in the namespace of a kind that anybody tried to write: of the others there is none."""
        kinds = sorted(self.written, key=lambda kind: kind.qualified)
        return [item for kind in kinds for item in list_all(self.cluster, Query(kind, self.namespace)).items]

    def ask(
        self, method: str, resource: Resource, name: str = "", query: str = "", body: bytes | None = None, **more: str
    ) -> Reply:
        """Send something by plain HTTP to this namespace. `name` may be `name/subresource`."""
        if method != "GET":
            self.written.add(resource)
        root = f"/apis/{resource.group}" if resource.group else "/api"
        target = f"{root}/{resource.version}/namespaces/{self.namespace}/{resource.plural}"
        target += (f"/{name}" if name else "") + (f"?{query}" if query else "")
        return self.server.exchange(Ask(method, target, body, **more))

    def told(self, resource: Resource, version: str, **query: Any) -> list[tuple[str, str]]:
        """What a watch from `version` tells, as (type, name), bookmarks left out."""
        return [(event.type, event.object["metadata"]["name"]) for event in self.events(resource, version, **query)]

    def events(self, resource: Resource, version: str, **query: Any) -> list[WatchEvent]:
        """The events of a watch from `version` up to now, bookmarks left out.

        Up to now: up to an object that is created for this, and that every selector of these tests matches.
        """
        metadata = {"generateName": _END, "labels": {"color": "red"}}
        end = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        last = self.create(resource, end)["metadata"]["name"]
        with closing(self.watch(resource, version, **query)) as stream:
            return list(_before(last, stream))


def _before(last: str, stream: Iterable[WatchEvent]) -> Iterator[WatchEvent]:
    for event in stream:
        name = "" if event.type == "BOOKMARK" else event.object["metadata"]["name"]
        if name == last:
            return
        if name and not name.startswith(_END):
            yield event
    raise AssertionError("the watch ended before it told everything")
