"""`kube.cluster.Cluster` directly on a store: no sockets, no threads, the same errors as over HTTP.

Requests and answers are encoded and decoded as on the wire, so nothing a caller holds is ever shared with the
store. A watch tells what has happened and ends; it never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from devcluster.audit import Entry
from devcluster.kinds import Kind
from devcluster.lists import ListOptions, list_objects
from devcluster.objects import Stored, decode
from devcluster.patches import apply_json_patch, apply_merge_patch, decode_json_patch, decode_merge_patch
from devcluster.requests import BODY_LIMIT
from devcluster.reviews import ACCESS_REVIEWS, KIND, review
from devcluster.selectors import parse_selector
from devcluster.statuses import Refusal, not_found, page_not_found, resource_not_found, too_large
from devcluster.store import DeleteOptions, Store, WriteOptions
from devcluster.watches import Watch
from eno.times import format_time
from kube.cluster import PAGE_SIZE, Json, JsonPatch, Page, Query, WatchEvent
from kube.resources import Resource
from kube.statuses import error_from_event, error_from_status, operation

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class DirectCluster:
    """A `Cluster`. `audit`, where given, is told every finished request, as the server's audit log is."""

    store: Store
    user_agent: str = "direct"
    audit: Callable[[Entry], None] | None = None

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        """See `Cluster.get`."""
        with self._request("get", resource, namespace, name) as kind:
            stored = self.store.find(kind, namespace, name)
            return decode(stored.partial()) if metadata_only else stored.decoded(kind)

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        """See `Cluster.list_page`."""
        with self._request("list", query.resource, query.namespace) as kind:
            options = ListOptions(query.namespace, query.label_selector, query.field_selector, limit, continue_token)
            found = list_objects(self.store, kind, options)
            return Page(
                [decode(_listed(item, kind, query)) for item in found.items],
                str(found.version),
                found.continue_token,
                self.store.clock().replace(microsecond=0),
            )

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        """See `Cluster.watch`; ends with a bookmark as soon as everything has been told."""
        del timeout_seconds
        with self._request("watch", query.resource, query.namespace) as kind:
            selector = parse_selector(kind, query.label_selector, query.field_selector)
            version = int(resource_version) if resource_version else None
            watch = Watch(self.store, kind, query.namespace, selector, version)
        try:
            for event in watch.poll():
                encoded = event.stored.partial() if query.metadata_only else event.stored.encoded(kind)
                yield WatchEvent(event.type, decode(encoded))
        except Refusal as refusal:
            what = operation("watch", query.resource, query.namespace)
            raise error_from_event(what, refusal.body) from refusal
        if not watch.ahead:
            yield WatchEvent("BOOKMARK", watch.bookmark())

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        """See `Cluster.create`."""
        with self._request("create", resource, namespace) as kind:
            if resource == ACCESS_REVIEWS:
                return review(decode(_sent(body)), "Warn")[0]
            result = self.store.create(kind, namespace, decode(_sent(body)))
            return result.stored.decoded(kind)

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        """See `Cluster.update`."""
        with self._request("update", resource, namespace, name, subresource) as kind:
            result = self.store.update(kind, namespace, name, decode(_sent(body)), subresource)
            return result.stored.decoded(kind)

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
        """See `Cluster.json_patch`."""
        text = _encode(operations)
        return self._patch(
            resource,
            namespace,
            name,
            text,
            lambda document: apply_json_patch(document, decode_json_patch(text)),
            subresource,
            WriteOptions("Strict" if strict else "Warn"),
        )

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        """See `Cluster.merge_patch`."""
        text = _encode(patch)
        return self._patch(
            resource,
            namespace,
            name,
            text,
            lambda document: apply_merge_patch(document, decode_merge_patch(text)),
            subresource,
            WriteOptions(),
        )

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """See `Cluster.delete`."""
        with self._request("delete", resource, namespace, name) as kind:
            self.store.delete(kind, namespace, name, DeleteOptions(uid, resource_version))

    def _patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        text: bytes,
        apply: Callable[[Json], Any],
        subresource: str,
        options: WriteOptions,
    ) -> Json:
        with self._request("patch", resource, namespace, name, subresource) as kind:
            _check_size(text)
            result = self.store.patch(kind, namespace, name, apply, subresource, options)
            return result.stored.decoded(kind)

    @contextmanager
    def _request(
        self, verb: str, resource: Resource, namespace: str | None, name: str = "", subresource: str = ""
    ) -> Iterator[Kind]:
        """The kind of a request; a Refusal inside becomes the ApiError that HTTP would give."""
        code = 201 if verb == "create" else 200
        try:
            yield self._kind(resource, name, subresource)
        except Refusal as refusal:
            code = refusal.code
            what = operation(verb, resource, namespace, name, subresource)
            body: bytes | Json = refusal.plain.encode() if refusal.plain else refusal.body
            raise error_from_status(what, code, body) from refusal
        finally:
            if self.audit is not None:
                self.audit(
                    Entry(
                        time=format_time(self.store.clock()),
                        userAgent=self.user_agent,
                        verb=verb,
                        group=resource.group,
                        resource=resource.plural,
                        subresource=subresource,
                        namespace=namespace or "",
                        name=name,
                        code=code,
                    )
                )

    def _kind(self, resource: Resource, name: str, subresource: str) -> Kind:
        if resource == ACCESS_REVIEWS:
            return KIND
        kind = self.store.kind(resource.group, resource.plural, resource.version)
        if kind is None:
            raise page_not_found() if resource.group else resource_not_found()
        if subresource and subresource not in kind.subresources:
            raise not_found(resource, name) if kind.custom else resource_not_found()
        return kind


def _sent(body: Json) -> bytes:
    text = _encode(body)
    _check_size(text)
    return text


def _check_size(text: bytes) -> None:
    if len(text) > BODY_LIMIT:
        raise too_large(f"limit is {BODY_LIMIT}")


def _listed(item: Stored, kind: Kind, query: Query) -> bytes:
    return item.partial() if query.metadata_only else item.listed(kind)
