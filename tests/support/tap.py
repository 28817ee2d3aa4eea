"""A `Cluster` around another one, that counts the calls and lets a test act before or after any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from eno.errors import SextonError
from kube.cluster import PAGE_SIZE, Cluster, Json, JsonPatch, Page, Query, WatchEvent
from kube.resources import EVENTS, Resource

WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as an audit log would name it."""

    verb: str
    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        plural = f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural
        return f"{self.verb} {plural}"

    @property
    def writes(self) -> bool:
        """Whether it changes the state that Sexton answers for. Events only tell of it."""
        return self.verb in WRITES and self.resource is not EVENTS


Hook = Callable[[Call], None]


def fail(error: SextonError, *, on: str, times: int = 1) -> Hook:
    """A hook that answers the first calls of one kind with an error."""
    left = [times]

    def hook(call: Call) -> None:
        if str(call) == on and left[0] > 0:
            left[0] -= 1
            raise error

    return hook


def once(action: Callable[[], object], *, on: str, nth: int = 1) -> Hook:
    """A hook that lets something else happen around the nth call of one kind."""
    seen = [0]

    def hook(call: Call) -> None:
        if str(call) == on:
            seen[0] += 1
            if seen[0] == nth:
                action()

    return hook


def raising(error: BaseException) -> Callable[[], None]:
    """Something that ends in this error."""

    def act() -> None:
        raise error

    return act


@dataclass
class Tap:
    """`before` may raise instead of the call, `after` instead of its reply."""

    inner: Cluster
    before: Hook | None = None
    after: Hook | None = None
    calls: list[Call] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Calls by verb and resource, without Events."""
        return dict(Counter(str(call) for call in self.calls if call.resource is not EVENTS))

    @property
    def writes(self) -> list[str]:
        """The writes, in order."""
        return [str(call) for call in self.calls if call.writes]

    def _begin(self, call: Call) -> Call:
        self.calls.append(call)
        if self.before is not None:
            self.before(call)
        return call

    def _end(self, call: Call) -> None:
        if self.after is not None:
            self.after(call)

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        call = self._begin(Call("get", resource, namespace, name))
        reply = self.inner.get(resource, namespace, name, metadata_only=metadata_only)
        self._end(call)
        return reply

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        call = self._begin(Call("list", query.resource, query.namespace))
        reply = self.inner.list_page(query, limit=limit, continue_token=continue_token)
        self._end(call)
        return reply

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        self._begin(Call("watch", query.resource, query.namespace))
        return self.inner.watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        call = self._begin(Call("create", resource, namespace, str(body.get("metadata", {}).get("name", ""))))
        reply = self.inner.create(resource, namespace, body)
        self._end(call)
        return reply

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        call = self._begin(Call("update", resource, namespace, name, subresource))
        reply = self.inner.update(resource, namespace, name, body, subresource=subresource)
        self._end(call)
        return reply

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
        call = self._begin(Call("patch", resource, namespace, name, subresource))
        reply = self.inner.json_patch(resource, namespace, name, operations, subresource=subresource, strict=strict)
        self._end(call)
        return reply

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        call = self._begin(Call("patch", resource, namespace, name, subresource))
        reply = self.inner.merge_patch(resource, namespace, name, patch, subresource=subresource)
        self._end(call)
        return reply

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        call = self._begin(Call("delete", resource, namespace, name))
        self.inner.delete(resource, namespace, name, uid=uid, resource_version=resource_version)
        self._end(call)
