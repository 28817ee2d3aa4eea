"""The clusters as handlers see them in a simulation: every call is counted, judged, told, and may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from devcluster.direct import DirectCluster
from kube.cluster import PAGE_SIZE, Json, JsonPatch, Page, Query, WatchEvent
from kube.resources import EVENTS, Resource

WRITES = frozenset({"create", "update", "patch", "delete"})

Side = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a handler. `body` is what was sent; `reply` what came back, `error` what came instead."""

    verb: str
    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""
    body: Any = None
    uid: str | None = None
    version: str | None = None
    selector: str = ""
    continued: bool = False
    reply: Any = None
    error: BaseException | None = None

    def __str__(self) -> str:
        plural = f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural
        return f"{self.verb} {plural} {self.name or self.selector}".rstrip()

    @property
    def writes(self) -> bool:
        """Whether it changes anything, Events included."""
        return self.verb in WRITES

    @property
    def matters(self) -> bool:
        """Whether it changes what promises are about."""
        return self.writes and self.resource is not EVENTS

    @property
    def key(self) -> str:
        """`namespace/name` of the object."""
        return f"{self.namespace}/{self.name}"


class Switchboard(Protocol):
    """Who decides what becomes of a call."""

    def put_through(self, side: Side, call: Call, request: Callable[[], Any]) -> Any:
        """The reply, or whatever is raised instead. `request` carries the call out."""
        ...


@dataclass(frozen=True, slots=True)
class Wire:
    """A `Cluster` whose calls all go through a switchboard."""

    side: Side
    board: Switchboard
    inner: DirectCluster

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        call = Call("get", resource, namespace, name)
        found: Json = self._put(call, lambda: self.inner.get(resource, namespace, name, metadata_only=metadata_only))
        return found

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        call = Call(
            "list", query.resource, query.namespace, selector=query.label_selector, continued=bool(continue_token)
        )
        found: Page = self._put(call, lambda: self.inner.list_page(query, limit=limit, continue_token=continue_token))
        return found

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:  # noqa: ARG002
        raise AssertionError("no handler watches")

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        call = Call("create", resource, namespace, str(body["metadata"].get("name", "")), body=body)
        created: Json = self._put(call, lambda: self._create(resource, namespace, body))
        return created

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        call = Call("update", resource, namespace, name, subresource, body)
        found: Json = self._put(
            call, lambda: self.inner.update(resource, namespace, name, body, subresource=subresource)
        )
        return found

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
        call = Call("patch", resource, namespace, name, subresource, list(operations))
        found: Json = self._put(
            call,
            lambda: self.inner.json_patch(
                resource, namespace, name, operations, subresource=subresource, strict=strict
            ),
        )
        return found

    def merge_patch(
        self,
        resource: Resource,  # noqa: ARG002
        namespace: str | None,  # noqa: ARG002
        name: str,  # noqa: ARG002
        patch: Json,  # noqa: ARG002
        *,
        subresource: str = "",  # noqa: ARG002
    ) -> Json:
        raise AssertionError("no handler makes an unguarded patch")

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        call = Call("delete", resource, namespace, name, uid=uid, version=resource_version)
        self._put(
            call, lambda: self.inner.delete(resource, namespace, name, uid=uid, resource_version=resource_version)
        )

    def _put(self, call: Call, request: Callable[[], Any]) -> Any:
        return self.board.put_through(self.side, call, request)

    def _create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        if resource is not EVENTS:
            return self.inner.create(resource, namespace, body)
        # Their uids are drawn apart: whoever told of something more or less often shares the states that follow.
        store = self.inner.store
        seed, drawn = store.seed, store._drawn
        store.seed = "events"
        try:
            return self.inner.create(resource, namespace, body)
        finally:
            store.seed, store._drawn = seed, drawn


def answered(call: Call, reply: Any) -> Call:
    """The call with its reply."""
    return replace(call, reply=reply)


def failed(call: Call, error: BaseException) -> Call:
    """The call with what was raised instead of a reply."""
    return replace(call, error=error)
