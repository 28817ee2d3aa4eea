"""One request on one store: the answer as bytes. No sockets and no waiting; a watch is handed back as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from devcluster import discovery
from devcluster.kinds import Kind
from devcluster.lists import ListOptions, ObjectList, check_version, list_objects
from devcluster.objects import Stored
from devcluster.patches import (
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
    decode_json_patch,
    decode_merge_patch,
)
from devcluster.requests import (
    BODY_LIMIT,
    Form,
    Request,
    decode_request_body,
    delete_options,
    form_of,
    refuse_duplicates,
    write_options,
)
from devcluster.restrictions import check_form, check_path, check_watch
from devcluster.reviews import ACCESS_REVIEWS, KIND, review
from devcluster.selectors import parse_selector
from devcluster.statuses import (
    Refusal,
    bad_request,
    forbidden_field,
    internal,
    invalid,
    method_not_allowed,
    page_not_found,
    resource_not_found,
    success,
    too_large,
    unsupported_media_type,
)
from devcluster.store import Result, Store, WriteOptions
from devcluster.tables import table
from devcluster.watches import Event, Watch
from kube.cluster import Json

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"

_REVIEWS = (ACCESS_REVIEWS.group, ACCESS_REVIEWS.version, ACCESS_REVIEWS.plural)

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    code: int
    body: bytes
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch that was accepted: what to poll, how to show it, and for how long (seconds, 0: unlimited)."""

    watch: Watch
    kind: Kind
    form: Form
    timeout: int
    bookmarks: bool
    initial_bookmark: bool

    def line(self, store: Store, event: Event, include: str) -> bytes:
        """One event as a line of the stream."""
        shown = _shown(store, self.kind, event.stored, self.form, include)
        return b'{"type":"' + event.type.encode() + b'","object":' + shown + b"}\n"

    def bookmark(self, *, initial: bool = False) -> bytes:
        """A BOOKMARK line; `initial` marks the end of the objects that were there at the start."""
        body = self.watch.bookmark()
        if self.form == "partial":
            body |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        if initial:
            body["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        return b'{"type":"BOOKMARK","object":' + _encode(body) + b"}\n"


def error_line(refusal: Refusal) -> bytes:
    """An ERROR line, which ends a stream."""
    return b'{"type":"ERROR","object":' + _encode(refusal.body) + b"}\n"


def answer(store: Store, request: Request) -> Answer | Stream:
    """Carry the request out. Never raises: refusals are answers."""
    try:
        if len(request.body) > BODY_LIMIT:
            raise too_large(f"limit is {BODY_LIMIT}")
        if request.target.group is None or not request.target.plural:
            return _informational(store, request)
        return _resource(store, request)
    except Refusal as refusal:
        return refused(refusal)
    except RecursionError:
        return refused(bad_request("the body of the request is nested too deeply"))


def refused(refusal: Refusal) -> Answer:
    """The response for a refusal."""
    if refusal.plain:
        return Answer(refusal.code, refusal.plain.encode(), TEXT)
    retry_after = (refusal.details or {}).get("retryAfterSeconds")
    return Answer(refusal.code, _encode(refusal.body), JSON, refusal.warnings, retry_after)


def _informational(store: Store, request: Request) -> Answer:
    """Everything that is no object: health, version, discovery."""
    target = request.target
    if target.group is not None:
        found = discovery.resource_list(store, target.group, target.version)
        if found is None:
            raise page_not_found()
    else:
        if target.rest in ("/healthz", "/livez", "/readyz"):
            return Answer(200, b"ok", TEXT)
        found = _document(store, target.rest)
    if request.method != "GET":
        raise method_not_allowed()
    return Answer(200, _encode(found))


def _document(store: Store, path: str) -> Json:
    documents: dict[str, Callable[[], Json]] = {
        "/version": lambda: discovery.VERSION,
        "/api": discovery.core_versions,
        "/apis": lambda: discovery.group_list(store),
        "/openapi/v3": lambda: discovery.openapi_index(store),
    }
    if path in documents:
        return documents[path]()
    parts = path.strip("/").split("/")
    found: Json | None = None
    if parts[0] == "apis" and len(parts) == 2:
        found = discovery.group(store, parts[1])
    elif parts[:2] == ["openapi", "v3"] and len(parts) >= 4:
        group, version = (parts[3], parts[4]) if len(parts) > 4 else ("", parts[3])
        found = discovery.openapi_document(store, group, version)
    if found is None:
        raise page_not_found()
    return found


def _resource(store: Store, request: Request) -> Answer | Stream:
    target = request.target
    if (target.group, target.version, target.plural) == _REVIEWS:
        return _access_review(request)
    kind = store.kind(target.group or "", target.plural, target.version)
    if kind is None:
        known = discovery.resource_list(store, target.group or "", target.version)
        builtin = known is not None and not any(
            served.custom and served.resource.group == target.group for served in store.kinds()
        )
        raise resource_not_found() if builtin else page_not_found()
    check_path(kind, request)
    check_form(form_of(request.accept), request.verb)
    handlers: dict[str, Callable[[Store, Kind, Request], Answer | Stream]] = {
        "get": _get,
        "list": _list,
        "watch": _watch,
        "create": _create,
        "update": _update,
        "patch": _patch,
        "delete": _delete,
        "deletecollection": _delete_collection,
    }
    handler = handlers.get(request.verb)
    if handler is None:
        raise method_not_allowed()
    return handler(store, kind, request)


def _get(store: Store, kind: Kind, request: Request) -> Answer:
    version = request.query.get("resourceVersion", "")
    if version:
        if not version.isdecimal():
            shown = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise internal(f'resourceVersion: Invalid value: "{version}": {shown}')
        check_version(store, int(version))
    form = form_of(request.accept)
    found = store.find(kind, request.target.namespace, request.target.name)
    return Answer(200, _shown(store, kind, found, form, _include(request)))


def _list(store: Store, kind: Kind, request: Request) -> Answer:
    form = form_of(request.accept)
    if "sendInitialEvents" in request.query:
        cause = forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])
    found = list_objects(store, kind, _list_options(request))
    return Answer(200, _shown_list(store, found, form, _include(request)))


def _list_options(request: Request) -> ListOptions:
    query = request.query
    return ListOptions(
        namespace=request.target.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=request.integer("limit"),
        continue_token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )


def _watch(store: Store, kind: Kind, request: Request) -> Stream:
    query = request.query
    check_watch(query)
    initial = request.flag("sendInitialEvents")
    selector = parse_selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    timeout = request.integer("timeoutSeconds")
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        shown = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{text}": {shown}')
    version = None if initial else int(text or 0)
    watch = Watch(store, kind, request.target.namespace, selector, version)
    bookmarks = request.flag("allowWatchBookmarks")
    return Stream(watch, kind, form_of(request.accept), timeout, bookmarks, initial and bookmarks)


def _create(store: Store, kind: Kind, request: Request) -> Answer:
    form, options = form_of(request.accept), write_options(request)
    body = _body(kind, request, options)
    return _written(store, store.create(kind, request.target.namespace, body, options), form, request)


def _update(store: Store, kind: Kind, request: Request) -> Answer:
    form, options, target = form_of(request.accept), write_options(request), request.target
    body = _body(kind, request, options)
    result = store.update(kind, target.namespace, target.name, body, target.subresource, options)
    return _written(store, result, form, request)


def _body(kind: Kind, request: Request, options: WriteOptions) -> Any:
    if options.validation == "Strict":
        refuse_duplicates(request.body, kind.resource)
    return decode_request_body(request.body, request.content_type, kind.resource.kind)


def _patch(store: Store, kind: Kind, request: Request) -> Answer:
    form, options, target = form_of(request.accept), write_options(request), request.target
    media = request.content_type.partition(";")[0].strip()
    accepted = [_JSON_PATCH, _MERGE_PATCH]
    if not kind.custom:
        accepted.append(_STRATEGIC_PATCH)
    if media not in accepted:
        raise unsupported_media_type((*accepted, _APPLY))
    text = request.body

    def apply(document: Json) -> Any:
        if media == _JSON_PATCH:
            return apply_json_patch(document, decode_json_patch(text))
        if media == _MERGE_PATCH:
            return apply_merge_patch(document, decode_merge_patch(text))
        return apply_strategic_patch(document, decode_merge_patch(text))

    result = store.patch(kind, target.namespace, target.name, apply, target.subresource, options)
    return _written(store, result, form, request)


def _delete(store: Store, kind: Kind, request: Request) -> Answer:
    form, target = form_of(request.accept), request.target
    result = store.delete(kind, target.namespace, target.name, delete_options(request))
    if result.removed:
        gone = result.stored
        return Answer(200, _encode(success(kind.resource, gone.name, gone.uid)))
    return _written(store, result, form, request)


def _delete_collection(store: Store, kind: Kind, request: Request) -> Answer:
    form, options = form_of(request.accept), delete_options(request)
    found = list_objects(store, kind, _list_options(request))
    for item in found.items:
        store.delete(kind, item.namespace or None, item.name, options)
    return Answer(200, _shown_list(store, found, form, _include(request)))


def _access_review(request: Request) -> Answer:
    if request.target.name or request.target.namespace:
        raise resource_not_found()
    if request.method != "POST":
        raise method_not_allowed()
    options = write_options(request)
    shown, warnings = review(_body(KIND, request, options), options.validation)
    return Answer(201, _encode(shown), JSON, warnings)


def _written(store: Store, result: Result, form: Form, request: Request) -> Answer:
    shown = _shown(store, result.kind, result.stored, form, _include(request))
    return Answer(201 if result.created else 200, shown, JSON, result.warnings)


def _include(request: Request) -> str:
    return request.query.get("includeObject", "")


def _shown(store: Store, kind: Kind, item: Stored, form: Form, include: str) -> bytes:
    if form == "object":
        return item.encoded(kind)
    if form != "table":
        return item.partial()
    metadata = {"resourceVersion": str(item.version)}
    return _encode(table(kind, [item], store.clock(), metadata, include))


def _shown_list(store: Store, found: ObjectList, form: Form, include: str) -> bytes:
    kind = found.kind
    metadata: Json = {"resourceVersion": str(found.version)}
    if found.continue_token:
        metadata["continue"] = found.continue_token
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
    if form == "table":
        return _encode(table(kind, found.items, store.clock(), metadata, include))
    partial = form == "partial list"
    head = {
        "kind": "PartialObjectMetadataList" if partial else kind.list_kind,
        "apiVersion": "meta.k8s.io/v1" if partial else kind.resource.api_version,
        "metadata": metadata,
    }
    items = b",".join(item.partial() if partial else item.listed(kind) for item in found.items)
    # Go writes its nil slices as null, and an empty list of metadata is one.
    shown = b"null" if partial and not items else b"[" + items + b"]"
    return _encode(head)[:-1] + b',"items":' + shown + b"}"
