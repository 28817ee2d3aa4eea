"""Requests, byte by byte: content types, paths and what is never asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import Refused
from kube import requests
from kube.cluster import Json, Query
from kube.requests import Request
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS, Resource


def get(resource: Resource = SECRETS, namespace: str | None = "ns", name: str = "a") -> Request:
    return requests.get(resource, namespace, name, metadata_only=False)


def json_patch(name: str = "a", *, subresource: str = "", strict: bool = False) -> Request:
    return requests.json_patch(COMPOSITIONS, "ns", name, [], subresource=subresource, strict=strict)


def delete(name: str = "a", *, uid: str | None = None, resource_version: str | None = None) -> Request:
    return requests.delete(SECRETS, "ns", name, uid=uid, resource_version=resource_version)


PATHS = {
    "core": (get(), "/api/v1/namespaces/ns/secrets/a"),
    "a group": (get(COMPOSITIONS), "/apis/eno.azure.io/v1/namespaces/ns/compositions/a"),
    "cluster-scoped": (get(NAMESPACES, None), "/api/v1/namespaces/a"),
    "a subresource": (
        json_patch(subresource="status"),
        "/apis/eno.azure.io/v1/namespaces/ns/compositions/a/status",
    ),
    "all namespaces": (
        requests.list_page(Query(COMPOSITIONS), limit=0, continue_token=""),
        "/apis/eno.azure.io/v1/compositions?limit=0",
    ),
    "a name with a colon": (get(name="system:node"), "/api/v1/namespaces/ns/secrets/system%3Anode"),
    "a name with a question mark": (get(name="a?b#c"), "/api/v1/namespaces/ns/secrets/a%3Fb%23c"),
}


@pytest.mark.parametrize(("request_", "target"), PATHS.values(), ids=PATHS)
def test_the_path_of_a_resource(request_: Request, target: str) -> None:
    assert request_.target == target


def is_unicode(text: str) -> bool:
    return text == text.encode(errors="ignore").decode()


@given(st.text(st.characters() | st.characters(categories=["Cs"]), min_size=1, max_size=50))
def test_any_name_is_one_path_segment_or_refused(name: str) -> None:
    try:
        path = get(name=name).path
    except Refused:
        assert name in (".", "..") or "/" in name or "%" in name or not is_unicode(name)
    else:
        *_, last = path.split("/")
        assert path.count("/") == 6
        assert unquote(last) == name


BUILDERS: dict[str, Callable[[str], Request]] = {
    "get": lambda name: get(name=name),
    "update": lambda name: requests.update(SECRETS, "ns", name, {}, subresource=""),
    "json patch": json_patch,
    "merge patch": lambda name: requests.merge_patch(SECRETS, "ns", name, {}, subresource=""),
    "delete": delete,
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("name", ["", ".", "..", "../secrets", "a/b", "a%2fb"])
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_sent(
    build: Callable[[str], Request], name: str
) -> None:
    with pytest.raises(Refused):
        build(name)


def test_a_selector_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(Refused):
        requests.list_page(Query(SECRETS, "ns", label_selector="a=\udcff"), limit=1, continue_token="")


@pytest.mark.parametrize("namespace", ["", "..", "a/b"])
def test_a_namespace_that_leads_elsewhere_is_refused(namespace: str) -> None:
    with pytest.raises(Refused):
        get(namespace=namespace)
    with pytest.raises(Refused):
        requests.list_page(Query(SECRETS, namespace), limit=1, continue_token="")


CONTENT_TYPES = {
    "create": (requests.create(SECRETS, "ns", {}), "POST", "application/json"),
    "update": (requests.update(SECRETS, "ns", "a", {}, subresource=""), "PUT", "application/json"),
    "json patch": (json_patch(), "PATCH", "application/json-patch+json"),
    "merge patch": (
        requests.merge_patch(SECRETS, "ns", "a", {}, subresource=""),
        "PATCH",
        "application/merge-patch+json",
    ),
    "delete": (delete(), "DELETE", "application/json"),
}


@pytest.mark.parametrize(("request_", "method", "content_type"), CONTENT_TYPES.values(), ids=CONTENT_TYPES)
def test_a_body_is_sent_as_exactly_what_it_is(request_: Request, method: str, content_type: str) -> None:
    assert request_.method == method
    assert request_.headers["Content-Type"] == content_type


def test_a_patch_without_operations_is_still_a_list() -> None:
    assert json_patch().body == b"[]"


def test_a_read_has_no_body_and_no_content_type() -> None:
    assert get().body is None
    assert get().headers == {"Accept": "application/json"}


PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA = Query(RESOURCE_SLICES, "ns", metadata_only=True)

METADATA_ONLY = {
    "get": (
        requests.get(SECRETS, "ns", "a", metadata_only=True),
        PARTIAL,
        "PartialObjectMetadata",
    ),
    "list": (
        requests.list_page(METADATA, limit=1, continue_token=""),
        PARTIAL_LIST,
        "PartialObjectMetadataList",
    ),
    "watch": (
        requests.watch(METADATA, resource_version="1", timeout_seconds=1),
        PARTIAL,
        "PartialObjectMetadata",
    ),
}


@pytest.mark.parametrize(("request_", "accept", "kind"), METADATA_ONLY.values(), ids=METADATA_ONLY)
def test_metadata_is_asked_for_and_nothing_else_accepted(request_: Request, accept: str, kind: str) -> None:
    assert request_.headers["Accept"] == accept
    assert request_.kind == kind


def test_a_list_pages_with_its_selectors_and_never_asks_for_a_cached_version() -> None:
    query = Query(SECRETS, "ns", label_selector="a in (b,c)", field_selector="type=Opaque")
    request = requests.list_page(query, limit=500, continue_token="t/+=&")
    assert parse_qs(request.query) == {
        "labelSelector": ["a in (b,c)"],
        "fieldSelector": ["type=Opaque"],
        "limit": ["500"],
        "continue": ["t/+=&"],
    }
    assert "+" not in request.query


@pytest.mark.parametrize("request_", [get(), requests.list_page(Query(SECRETS), limit=1, continue_token="")])
def test_no_read_names_a_resource_version(request_: Request) -> None:
    assert "resourceVersion" not in request_.target


def test_a_watch_asks_for_bookmarks_and_its_own_end() -> None:
    request = requests.watch(Query(SECRETS, "ns", "a=b"), resource_version="0042", timeout_seconds=300)
    assert parse_qs(request.query) == {
        "labelSelector": ["a=b"],
        "watch": ["true"],
        "allowWatchBookmarks": ["true"],
        "resourceVersion": ["0042"],
        "timeoutSeconds": ["300"],
    }


@pytest.mark.parametrize(("strict", "query"), [(True, "fieldValidation=Strict"), (False, "")])
def test_strict_validation_is_asked_for_only_where_wanted(strict: bool, query: str) -> None:
    assert json_patch(strict=strict).query == query


PRECONDITIONS: dict[str, tuple[Any, Json]] = {
    "none": ({}, {}),
    "uid": ({"uid": "u"}, {"uid": "u"}),
    "version": ({"resource_version": "7"}, {"resourceVersion": "7"}),
    "both": ({"uid": "u", "resource_version": "7"}, {"uid": "u", "resourceVersion": "7"}),
}


@pytest.mark.parametrize(("arguments", "expected"), PRECONDITIONS.values(), ids=PRECONDITIONS)
def test_a_delete_carries_its_preconditions(arguments: Any, expected: Json) -> None:
    body = msgspec.json.decode(delete(**arguments).body or b"")
    assert body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": expected}


TITLES = {
    "a created object": (
        requests.create(SECRETS, "ns", {"metadata": {"name": "a"}}),
        "create secrets ns/a",
    ),
    "an object that the server names": (requests.create(SECRETS, "ns", {}), "create secrets ns"),
    "a watch": (
        requests.watch(Query(SECRETS), resource_version="1", timeout_seconds=1),
        "watch secrets (all namespaces)",
    ),
}


@pytest.mark.parametrize(("request_", "title"), TITLES.values(), ids=TITLES)
def test_a_request_says_what_it_does(request_: Request, title: str) -> None:
    assert request_.operation == title
