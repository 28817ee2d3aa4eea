"""The rules of `metadata` that hold for every kind: names, labels, annotations, finalizers, owners."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from devcluster.schema import Node, compile_schema
from devcluster.statuses import Cause, forbidden_field, invalid_value, required, too_long
from kube.cluster import Json

NameFaults: TypeAlias = Callable[[str], Iterator[str]]
"""Why a name is none of some form; empty when it is."""

NAME_LIMIT = 253
"""Characters of a name."""

ANNOTATIONS_LIMIT = 262_144
"""Bytes of all keys and values of the annotations together."""

GENERATED_BASE_LIMIT = 58
"""Characters of a generateName that are kept; five more follow."""

_PART_LIMIT = 63

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_ENDS = "and must start and end with an alphanumeric character"
_USED = "regex used for validation is"
_BAD_LABEL = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS} "
    f"(e.g. 'my-name',  or '123-abc', {_USED} '{_LABEL}')"
)
_BAD_SUBDOMAIN = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} "
    f"(e.g. 'example.com', {_USED} '{_SUBDOMAIN}')"
)
_BAD_PART = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', {_USED} '{_KEY}')"
)
_BAD_VALUE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', {_USED} '{_VALUE}')"
)

_STRINGS: Json = {
    "type": "object",
    "additionalProperties": {"type": "string", "x-go-string": True},
    "x-go-type": "map[string]string",
}
_TIME: Json = {"type": "string", "format": "date-time", "x-go-type": "time"}
_FREE: Json = {"x-kubernetes-preserve-unknown-fields": True}
_OWNER: Json = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("apiVersion", "kind", "name", "uid")},
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}

SCHEMA: Node = compile_schema(
    {
        "type": "object",
        "x-go-type": "v1.ObjectMeta",
        "properties": {
            **{name: {"type": "string"} for name in ("name", "generateName", "namespace", "selfLink")},
            "uid": {"type": "string", "x-go-type": "types.UID"},
            "resourceVersion": {"type": "string"},
            "generation": {"type": "integer"},
            "creationTimestamp": _TIME,
            "deletionTimestamp": _TIME,
            "deletionGracePeriodSeconds": {"type": "integer"},
            "labels": _STRINGS,
            "annotations": _STRINGS,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-go-type": "[]string"},
            "ownerReferences": {"type": "array", "items": _OWNER, "x-go-type": "[]v1.OwnerReference"},
            "managedFields": {
                "type": "array",
                "items": {"type": "object", "x-go-type": "v1.ManagedFieldsEntry", **_FREE},
                "x-go-type": "[]v1.ManagedFieldsEntry",
            },
        },
    }
)
"""The shape of `metadata`, as kube-apiserver decodes it."""


def fill_nulls(metadata: Json) -> None:
    """Make null elements what Go decodes them into: empty values. In place."""
    for name, empty in (("finalizers", ""), ("ownerReferences", {})):
        if metadata.get(name):
            metadata[name] = [empty if item is None else item for item in metadata[name]]


def subdomain_faults(name: str) -> Iterator[str]:
    """Why `name` is no RFC 1123 subdomain."""
    if len(name) > NAME_LIMIT:
        yield f"must be no more than {NAME_LIMIT} characters"
    if not _is_subdomain(name):
        yield _BAD_SUBDOMAIN


def label_faults(name: str) -> Iterator[str]:
    """Why `name` is no RFC 1123 label, which has no dots."""
    if "." in name:
        yield "must not contain dots"
        return
    if len(name) > _PART_LIMIT:
        yield f"must be no more than {_PART_LIMIT} bytes"
    if not _is_label(name):
        yield _BAD_LABEL


def segment_faults(name: str) -> Iterator[str]:
    """Why `name` is no segment of a path."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    yield from (f"may not contain '{character}'" for character in "/%" if character in name)


def qualified_name_faults(key: str) -> Iterator[str]:
    """Why `key` is no label or annotation key, or finalizer: an optional DNS prefix, `/`, a name."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield (
            f"a valid label key {_BAD_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        if len(prefix) > NAME_LIMIT:
            yield f"prefix part must be no more than {NAME_LIMIT} bytes"
        if not _is_subdomain(prefix):
            yield f"prefix part {_BAD_SUBDOMAIN}"
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _PART_LIMIT:
        yield f"name part must be no more than {_PART_LIMIT} bytes"
    if not _is_key(name):
        yield f"name part {_BAD_PART}"


def label_value_faults(value: str) -> Iterator[str]:
    """Why `value` is no value of a label."""
    if len(value) > _PART_LIMIT:
        yield f"must be no more than {_PART_LIMIT} bytes"
    if not _is_value(value):
        yield _BAD_VALUE


def core_finalizer_causes(metadata: Json) -> list[Cause]:
    """The core group takes no finalizer without a domain but the three that Kubernetes knows."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", f'"{name}"', why)
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion")
    ]


def created_causes(metadata: Json, faults_of: NameFaults = subdomain_faults) -> list[Cause]:
    """Why the metadata of an object to be created is invalid; empty when it is not."""
    causes: list[Cause] = []
    base, name = metadata.get("generateName", ""), metadata.get("name", "")
    if base:
        # A trailing dash is fine where a suffix follows.
        faults = faults_of(base[:-1] if base.endswith("-") else base)
        causes += [invalid_value("metadata.generateName", f'"{base}"', why) for why in faults]
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid_value("metadata.name", f'"{name}"', why) for why in faults_of(name)]
    return causes + _common_causes(metadata)


def updated_causes(metadata: Json, old: Json) -> list[Cause]:
    """Why the metadata of an object to be updated is invalid; empty when it is not."""
    causes: list[Cause] = []
    if "deletionTimestamp" in old:
        known = set(old.get("finalizers") or ())
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            causes.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{names}}}",
                )
            )
    for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) != old.get(name):
            causes.append(_immutable(name, metadata.get(name)))
    if unchanged(metadata, old):
        return causes
    return causes + _common_causes(metadata)


def unchanged(metadata: Json, old: Json) -> bool:
    """Whether nothing that the common rules look at differs."""
    names = ("labels", "annotations", "finalizers", "ownerReferences")
    return all(metadata.get(name) == old.get(name) for name in names)


def _immutable(name: str, value: Any) -> Cause:
    shown = "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
    return invalid_value(f"metadata.{name}", shown, "field is immutable")


def _common_causes(metadata: Json) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in (metadata.get("labels") or {}).items():
        causes += [invalid_value("metadata.labels", f'"{key}"', why) for why in qualified_name_faults(key)]
        causes += [invalid_value("metadata.labels", f'"{value}"', why) for why in label_value_faults(value)]
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        # Unlike labels, the keys of annotations are compared in lower case.
        faults = qualified_name_faults(key.lower())
        causes += [invalid_value("metadata.annotations", f'"{key}"', why) for why in faults]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        causes.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT))
    finalizers = metadata.get("finalizers") or []
    for name in finalizers:
        faults = qualified_name_faults(name)
        causes += [invalid_value("metadata.finalizers", f'"{name}"', why) for why in faults]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        shown = msgspec.json.encode(finalizers).decode()
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value("metadata.finalizers", shown, why))
    return causes + _owner_causes(metadata.get("ownerReferences") or [])


def _owner_causes(owners: list[Json]) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    for owner in owners:
        for name, why in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(name):
                causes.append(invalid_value(f"metadata.ownerReferences.{name}", '""', why))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    for other in controllers[1:]:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {other}'
        )
        shown = msgspec.json.encode(owners).decode()
        causes.append(invalid_value("metadata.ownerReferences", shown, why))
    return causes
