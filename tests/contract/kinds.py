"""What the contract is tried on: kinds of this run alone, so that no other object of a cluster is ever touched.

Everything lies in an API group with a random name: the development CRDs, whose schemas Sexton is developed
against, and Probe, which has one field for every rule of a schema.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace

from devcluster.definitions import development_directory, load
from kube import resources
from kube.cluster import Json
from kube.resources import Resource

PREFIX = f"contract-{secrets.token_hex(4)}"
"""What every name outside a namespace of this run starts with."""

GROUP = f"{PREFIX}.example.com"

PROBES = Resource(GROUP, "v1", "probes", "Probe")
PLAIN_PROBES = Resource(GROUP, "v1", "plainprobes", "PlainProbe")
COMPOSITIONS = replace(resources.COMPOSITIONS, group=GROUP)
RESOURCE_SLICES = replace(resources.RESOURCE_SLICES, group=GROUP)

_STRING: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0, "maximum": 10}

_SPEC: Json = {
    "type": "object",
    "properties": {
        "text": _STRING,
        "count": _COUNT,
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "flag": {"type": "boolean"},
        "color": {"type": "string", "enum": ["red", "green"]},
        "when": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "size": {"type": "string", "default": "medium"},
        "named": {"type": "object", "required": ["name"], "properties": {"name": _STRING, "note": _STRING}},
        "words": {"type": "object", "additionalProperties": _STRING},
        "list": {"type": "array", "items": _STRING, "maxItems": 3, "minItems": 1},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"manifest": _STRING, "deleted": {"type": "boolean"}}},
        },
        "set": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "map": {
            "type": "array",
            "items": {"type": "object", "required": ["key"], "properties": {"key": _STRING, "value": _STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_STATUS: Json = {
    "type": "object",
    "properties": {
        "uuid": _STRING,
        "ready": {"type": "string", "format": "date-time", "nullable": True},
        "decision": {"type": "object", "properties": {"status": {"type": "boolean"}, "reason": _STRING}},
    },
}


def definitions() -> Iterator[Json]:
    """The CustomResourceDefinitions of this run."""
    yield _definition(PROBES, {"status": {}})
    yield _definition(PLAIN_PROBES, {})
    for definition in load(development_directory()):
        definition["spec"]["group"] = GROUP
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{GROUP}"
        yield definition


def probe(name: str = "a", *, kind: Resource = PROBES, status: Json | None = None, **spec: object) -> Json:
    """A Probe with this spec."""
    body: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    return body if status is None else body | {"status": status}


def with_metadata(body: Json, **metadata: object) -> Json:
    """`body` with these members of its metadata set; None takes one away."""
    merged = body.get("metadata", {}) | metadata
    return body | {"metadata": {key: value for key, value in merged.items() if value is not None}}


def _definition(resource: Resource, subresources: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
