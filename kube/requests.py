"""Requests as values: each function builds one and sends nothing.

The rules of the API that a client can break silently live here: content types, what a list may never ask for,
and that a name is one path segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from eno.errors import Refused
from kube.bodies import encode
from kube.cluster import Json, JsonPatch, Query
from kube.resources import Resource
from kube.statuses import operation

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
PARTIAL_OBJECT = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Request:
    """One call: everything but where the server is and who is asking.

    `path` and `query` are percent-encoded. `kind` is the kind that the answer has to carry, `""` for any.
    `operation` says for people what is being done.
    """

    operation: str
    method: str
    path: str
    resource: Resource
    query: str = ""
    accept: str = JSON
    content_type: str = ""
    body: bytes | None = None
    kind: str = ""

    @property
    def verb(self) -> str:
        """What RBAC calls it: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`."""
        return self.operation.partition(" ")[0]

    @property
    def target(self) -> str:
        """Path and query, as in the request line."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that this request needs, without credentials."""
        headers = {"Accept": self.accept}
        if self.content_type:
            headers["Content-Type"] = self.content_type
        return headers


def get(resource: Resource, namespace: str | None, name: str, *, metadata_only: bool) -> Request:
    """Read one object. Without `resourceVersion` the server reads from the store, never from a cache."""
    title = operation("get", resource, namespace, name)
    return Request(
        title,
        "GET",
        _object_path(title, resource, namespace, name),
        resource,
        accept=PARTIAL_OBJECT if metadata_only else JSON,
        kind="PartialObjectMetadata" if metadata_only else resource.kind,
    )


def list_page(query: Query, *, limit: int, continue_token: str) -> Request:
    """Read one page of a consistent list; again without `resourceVersion`."""
    title = operation("list", query.resource, query.namespace)
    paging = {"limit": str(limit), "continue": continue_token}
    return Request(
        title,
        "GET",
        _collection_path(title, query.resource, query.namespace),
        query.resource,
        query=_query_string(title, _selectors(query) | paging),
        accept=PARTIAL_LIST if query.metadata_only else JSON,
        kind="PartialObjectMetadataList" if query.metadata_only else f"{query.resource.kind}List",
    )


def watch(query: Query, *, resource_version: str, timeout_seconds: int) -> Request:
    """Follow changes after `resource_version`, with bookmarks."""
    title = operation("watch", query.resource, query.namespace)
    watching = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_seconds),
    }
    return Request(
        title,
        "GET",
        _collection_path(title, query.resource, query.namespace),
        query.resource,
        query=_query_string(title, _selectors(query) | watching),
        accept=PARTIAL_OBJECT if query.metadata_only else JSON,
        kind="PartialObjectMetadata" if query.metadata_only else query.resource.kind,
    )


def create(resource: Resource, namespace: str | None, body: Json) -> Request:
    """Create an object under the name in its metadata, or under one that the server makes up."""
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    title = operation("create", resource, namespace, str(name))
    path = _collection_path(title, resource, namespace)
    return Request(title, "POST", path, resource, content_type=JSON, body=encode(body), kind=resource.kind)


def update(resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str) -> Request:
    """Replace an object at the resourceVersion in `body`."""
    title = operation("update", resource, namespace, name, subresource)
    path = _object_path(title, resource, namespace, name, subresource)
    return Request(title, "PUT", path, resource, content_type=JSON, body=encode(body), kind=resource.kind)


def json_patch(
    resource: Resource,
    namespace: str | None,
    name: str,
    operations: JsonPatch,
    *,
    subresource: str,
    strict: bool,
) -> Request:
    """RFC 6902 operations. `strict` refuses unknown fields, which are pruned in silence otherwise."""
    title = operation("patch", resource, namespace, name, subresource)
    return Request(
        title,
        "PATCH",
        _object_path(title, resource, namespace, name, subresource),
        resource,
        query=_query_string(title, {"fieldValidation": "Strict"} if strict else {}),
        content_type=JSON_PATCH,
        body=encode(list(operations)),
        kind=resource.kind,
    )


def merge_patch(resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str) -> Request:
    """An RFC 7386 patch."""
    title = operation("patch", resource, namespace, name, subresource)
    path = _object_path(title, resource, namespace, name, subresource)
    return Request(title, "PATCH", path, resource, content_type=MERGE_PATCH, body=encode(patch), kind=resource.kind)


def delete(
    resource: Resource, namespace: str | None, name: str, *, uid: str | None, resource_version: str | None
) -> Request:
    """Delete one object under preconditions."""
    title = operation("delete", resource, namespace, name)
    wanted = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in wanted.items() if value is not None}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    path = _object_path(title, resource, namespace, name)
    return Request(title, "DELETE", path, resource, content_type=JSON, body=encode(options))


def _collection_path(title: str, resource: Resource, namespace: str | None) -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = f"/namespaces/{_segment(title, namespace)}" if namespace is not None else ""
    return f"{root}/{resource.version}{place}/{resource.plural}"


def _object_path(title: str, resource: Resource, namespace: str | None, name: str, subresource: str = "") -> str:
    path = f"{_collection_path(title, resource, namespace)}/{_segment(title, name)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(title: str, name: str) -> str:
    """`name` as one path segment.

    An empty name would turn the path into the collection's (and a delete into the deletion of everything),
    dots and slashes would lead elsewhere. The server allows none of them in a name either.
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise Refused(title, reason="InvalidName", message="an object's name must be one path segment")
    with _unicode(title):
        return quote(name, safe="")


def _selectors(query: Query) -> dict[str, str]:
    return {"labelSelector": query.label_selector, "fieldSelector": query.field_selector}


def _query_string(title: str, parameters: Mapping[str, str]) -> str:
    with _unicode(title):
        return urlencode({key: value for key, value in parameters.items() if value}, quote_via=quote)


@contextmanager
def _unicode(title: str) -> Iterator[None]:
    """Refuse lone surrogates, which is what Python makes of an argument that is not UTF-8."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise Refused(title, reason="InvalidText", message="not valid Unicode") from error
