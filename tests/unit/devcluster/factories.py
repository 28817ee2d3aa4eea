"""Stores and bodies with defaults, for the rules of the in-memory API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.answers import Answer, Stream, answer
from devcluster.kinds import Kind
from devcluster.requests import Request, parse_target
from devcluster.statuses import Refusal
from devcluster.store import Store
from kube.cluster import Json
from kube.resources import Resource

START = datetime(2026, 1, 31, 12, 0, 0, 987_654, tzinfo=UTC)
"""When every store here is made; the fraction must never show."""

WIDGETS = Resource("test.example", "v1", "widgets", "Widget")

COMPOSITION_PATH = "/apis/eno.azure.io/v1/namespaces/default/compositions"
SECRET_PATH = "/api/v1/namespaces/default/secrets"

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def new_store(*, history: int = 1000, seed: str = "test", definitions_too: bool = True) -> Store:
    """A store that serves the development CRDs."""
    store = Store(clock=Clock(), seed=seed, history=history)
    if definitions_too:
        load_definitions(store, [definitions.development_directory()])
    return store


def kind_of(store: Store, resource: Resource) -> Kind:
    kind = store.kind(resource.group, resource.plural)
    assert kind is not None
    return kind


def composition(name: str = "web", *, meta: Json | None = None, **members: Any) -> Json:
    return {
        "apiVersion": "eno.azure.io/v1",
        "kind": "Composition",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"synthesizer": {"name": "helm"}},
        **members,
    }


def resource_slice(name: str = "slice", manifests: list[str] | None = None, *, meta: Json | None = None) -> Json:
    return {
        "apiVersion": "eno.azure.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"resources": [{"manifest": text} for text in manifests or ["{}"]]},
    }


def secret(name: str = "inventory", *, meta: Json | None = None, **members: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **(meta or {})},
        **members,
    }


def definition(schema: Json, *, status: bool = False, scope: str = "Namespaced") -> Json:
    """The CustomResourceDefinition of WIDGETS with the given schema of `spec`."""
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": {}}}},
    }
    if status:
        version["subresources"] = {"status": {}}
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
    else:
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.example"},
        "spec": {
            "group": "test.example",
            "scope": scope,
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version],
        },
    }


def widget_store(schema: Json, *, status: bool = False) -> Store:
    store = new_store(definitions_too=False)
    store.create(definitions.KIND, None, definition(schema, status=status))
    return store


def widget(spec: Any, name: str = "w") -> Json:
    return {"apiVersion": "test.example/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def refusal(code: int, reason: str) -> pytest.RaisesExc[Refusal]:
    """The block is answered with this HTTP status and reason."""
    return pytest.RaisesExc(Refusal, check=lambda error: (error.code, error.reason) == (code, reason))


def send(
    store: Store,
    method: str,
    url: str,
    body: Json | list[Any] | bytes | None = None,
    *,
    content_type: str = "application/json",
    accept: str = "application/json",
) -> Answer:
    """One request without a socket; a watch is not expected."""
    result = send_any(store, method, url, body, content_type=content_type, accept=accept)
    assert isinstance(result, Answer)
    return result


def send_any(
    store: Store,
    method: str,
    url: str,
    body: Json | list[Any] | bytes | None = None,
    *,
    content_type: str = "application/json",
    accept: str = "application/json",
) -> Answer | Stream:
    target, query = parse_target(url)
    text = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    return answer(store, Request(method, target, query, accept, content_type, text, "test"))


def decoded(result: Answer) -> Json:
    body: Json = msgspec.json.decode(result.body)
    return body
