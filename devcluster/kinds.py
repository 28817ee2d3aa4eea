"""A served kind as a value, and how a body becomes an object of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from devcluster import metadata, schema
from devcluster.decoding import mismatch
from devcluster.statuses import Cause, Refusal, bad_request, invalid, invalid_value, undecodable_patch
from kube.cluster import Json
from kube.resources import Resource

FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_ENVELOPE = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`: `path` is a JSONPath as in additionalPrinterColumns."""

    name: str
    type: str
    path: str
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The object in a request, pruned and filled in, and the warnings to send.

    `conforms`: the schema had nothing to change, so it has nothing to refuse either.
    """

    body: Json
    warnings: tuple[str, ...]
    conforms: bool


class Undecodable(Exception):
    """Raised when a body cannot be an object of the kind: the reason, in the decoder's words."""


class Rules:
    """What a kind adds to the rules of writing that hold for all. The base adds nothing.

    `prepare_*` may change the object that is about to be written, never the old one. `any_name`: names need not
    be DNS subdomains.
    """

    any_name = False

    def decode(self, body: Json) -> None:
        """Bring the body into its stored form. Raises Undecodable."""

    def prepare_create(self, body: Json) -> None:
        """Set and clear what a client cannot decide."""

    def prepare_update(self, body: Json, old: Json) -> None:
        """The same for a write to the main resource."""

    def causes(self, body: Json) -> list[Cause]:  # noqa: ARG002
        """Why the object is invalid."""
        return []

    def update_causes(self, body: Json, old: Json) -> list[Cause]:  # noqa: ARG002
        """Why the object is no valid successor of the old one."""
        return self.causes(body)

    def fields(self, body: Json) -> Mapping[str, str]:  # noqa: ARG002
        """What field selectors see beyond name and namespace."""
        return {}


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind.

    `custom` kinds come from CustomResourceDefinitions; the others are Go structs in a real server, which
    shows in many answers. `subresources` are the writable ones. `label_names` says that names are DNS labels.
    """

    resource: Resource
    schema: schema.Node
    singular: str
    rules: Rules = field(default_factory=Rules)
    custom: bool = False
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    field_labels: frozenset[str] = frozenset()
    label_names: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    counts_generation: bool = False
    list_kind: str = ""
    prefix: bytes = b""

    def __post_init__(self) -> None:
        head = msgspec.json.encode({"apiVersion": self.resource.api_version, "kind": self.resource.kind})
        object.__setattr__(self, "prefix", head[:-1] + b",")
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.resource.kind}List")

    @property
    def key(self) -> tuple[str, str]:
        """What the store files the kind's objects under."""
        return self.resource.group, self.resource.plural

    def invalid(self, name: str, causes: list[Cause], warnings: tuple[str, ...] = ()) -> Refusal:
        """The refusal (422) of an object of this kind."""
        refusal = invalid(self.resource.kind, self.resource.group, name, causes)
        refusal.warnings = warnings
        return refusal


def decode_body(kind: Kind, body: Any, validation: FieldValidation) -> Decoded:
    """The object in a create or update request. `body` is used up.

    Raises Refusal (400, 422) when it is no object of the kind.
    """
    if body is None and not kind.custom:
        body = {}
    if not isinstance(body, dict):
        message = f"the object provided is unrecognized (must be of type {kind.resource.kind})"
        raise bad_request(f"{message}: couldn't get version/kind; json parse error")
    _check_type(kind, body)
    try:
        unknown, conforms = _bring_into_shape(kind, body)
    except Undecodable as error:
        raise bad_request(f"{_cannot_be_handled(kind)}: {error}") from error
    if unknown and validation == "Strict":
        raise bad_request(f"{_cannot_be_handled(kind)}: {_strict(unknown)}")
    return Decoded(body, _warnings(unknown, validation), conforms)


def decode_patched(kind: Kind, body: Any, validation: FieldValidation) -> Decoded:
    """The object that a patch made. `body` is used up.

    Raises Refusal (422) when it is no object of the kind. Unlike elsewhere, strict validation is a 422 here.
    """
    if not isinstance(body, dict) or not body.get("kind"):
        document = _text(body)
        raise undecodable_patch(document, f"Object 'Kind' is missing in '{document}'")
    try:
        for name in ("kind", "apiVersion"):
            if not isinstance(body.get(name, ""), str):
                raise Undecodable(f"couldn't get version/kind; json parse error: {name} is not a string")
        _check_type(kind, body, patched=True)
        unknown, conforms = _bring_into_shape(kind, body)
    except Undecodable as error:
        raise undecodable_patch(_text(body), str(error)) from error
    if unknown and validation == "Strict":
        raise undecodable_patch(_text(body), _strict(unknown))
    return Decoded(body, _warnings(unknown, validation), conforms)


def _check_type(kind: Kind, body: Json, *, patched: bool = False) -> None:
    """apiVersion and kind must be the kind's own; only built-in kinds may leave them out."""
    resource = kind.resource
    version, name = body.get("apiVersion"), body.get("kind")
    if not kind.custom:
        version, name = version or resource.api_version, name or resource.kind
        body["apiVersion"], body["kind"] = version, name
    elif not name or not version:
        missing = "Kind" if not name else "apiVersion"
        shown = msgspec.json.encode(body).decode()[:200]
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object '{missing}' is missing in '{shown}'"
        )
    if version == resource.api_version and name == resource.kind:
        return
    if not kind.custom:
        registered = f'no kind "{name}" is registered for version "{version}"'
        why = registered if version != resource.api_version else f"cannot convert {name} to {resource.kind}"
        if patched:
            raise Undecodable(why)
        short = str(version).rpartition("/")[2]
        raise bad_request(f'{name} in version "{short}" cannot be handled as a {resource.kind}: {why}')
    meta = body.get("metadata")
    own = str(meta.get("name", "")) if isinstance(meta, dict) else ""
    if name != resource.kind:
        cause = invalid_value("kind", f'"{name}"', f"must be {resource.kind}")
        raise invalid(str(name), resource.group, own, [cause])
    if patched:
        cause = invalid_value("apiVersion", f'"{version}"', f"must be {resource.api_version}")
        raise kind.invalid(own, [cause])
    raise bad_request(
        f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
    )


def _bring_into_shape(kind: Kind, body: Json) -> tuple[list[str], bool]:
    """Prune and fill in `body`, in place: the paths of unknown fields, and whether the schema was content.

    Raises Undecodable.
    """
    meta = body.get("metadata")
    if meta is None:
        meta = body["metadata"] = {}
    unknown: list[str] = []
    if not schema.conforms(meta, metadata.SCHEMA):
        fault = mismatch(meta, metadata.SCHEMA, "ObjectMeta")
        if fault is not None:
            raise Undecodable(fault)
        schema.prune(meta, metadata.SCHEMA, "metadata", unknown)
        metadata.fill_nulls(meta)
    if not kind.custom:
        fault = mismatch(body, kind.schema, kind.resource.kind)
        if fault is not None:
            raise Undecodable(fault)
    conforms = schema.conforms(body, kind.schema)
    if not conforms:
        schema.prune(body, kind.schema, "", unknown)
        schema.fill(body, kind.schema)
    kind.rules.decode(body)
    return sorted(unknown), conforms


def _text(body: Any) -> str:
    return msgspec.json.encode(body, order="deterministic").decode()


def _cannot_be_handled(kind: Kind) -> str:
    resource = kind.resource
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'


def _strict(unknown: list[str]) -> str:
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)


def _warnings(unknown: list[str], validation: FieldValidation) -> tuple[str, ...]:
    if validation == "Ignore":
        return ()
    return tuple(f'unknown field "{path}"' for path in unknown)


def envelope(schema_json: Json) -> Json:
    """A schema whose root also knows apiVersion, kind and metadata; metadata has rules of its own."""
    properties = dict(schema_json.get("properties") or {})
    for name in _ENVELOPE:
        properties[name] = {"x-kubernetes-preserve-unknown-fields": True}
    return {**schema_json, "type": "object", "properties": properties}
