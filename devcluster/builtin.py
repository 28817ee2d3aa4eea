"""The kinds that are served without a CustomResourceDefinition, each with the rules of the real one.

Only what Sexton, Eno and kubectl need: no workloads, no RBAC. Events are served in the core group only.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

import msgspec

from devcluster.events import REFERENCE, EventRules
from devcluster.kinds import Column, Kind, Rules, Undecodable, envelope
from devcluster.schema import compile_schema
from devcluster.statuses import Cause, forbidden_field, invalid_value, required, too_long
from devcluster.times import micro_time
from kube.cluster import Json
from kube.resources import EVENTS, LEASES, NAMESPACES, SECRETS, Resource

DATA_LIMIT = 1_048_576
"""Bytes of data in one Secret or ConfigMap."""

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

NAMESPACE_FINALIZER = "kubernetes"
"""In `spec.finalizers` of every namespace: taken away when the namespace is empty."""

_NAME_LABEL = "kubernetes.io/metadata.name"
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_REQUIRED_DATA = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_JSON_DATA = (".dockercfg", ".dockerconfigjson")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_DATA_KEY_LIMIT = 253
_BAD_DATA_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)

_STRING: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer", "x-go-type": "int32"}
_FREE: Json = {"x-kubernetes-preserve-unknown-fields": True}
_STRINGS: Json = {"type": "object", "additionalProperties": {"type": "string", "x-go-string": True}}
_TIME: Json = {"type": "string", "format": "date-time", "x-go-type": "time"}


class NamespaceRules(Rules):
    """`spec.finalizers` holds a namespace until its content is gone."""

    def prepare_create(self, body: Json) -> None:
        body["spec"] = {"finalizers": [NAMESPACE_FINALIZER]}
        body["status"] = {"phase": "Active"}
        _name_label(body)

    def prepare_update(self, body: Json, old: Json) -> None:
        body["spec"], body["status"] = old["spec"], old["status"]
        _name_label(body)

    def fields(self, body: Json) -> Mapping[str, str]:
        return {"status.phase": body["status"]["phase"]}


class SecretRules(Rules):
    """Data is base64, limited in size, and fixed once `immutable` is set; the type is fixed at once."""

    def decode(self, body: Json) -> None:
        data: dict[str, str] = body.get("data") or {}
        for key, value in data.items():
            data[key] = _canonical_base64(value)
        for key, value in (body.pop("stringData", None) or {}).items():
            data[key] = base64.b64encode(value.encode()).decode()
        body["data"] = data
        if not data:
            del body["data"]
        body.setdefault("type", "Opaque")
        body["type"] = body["type"] or "Opaque"

    def prepare_update(self, body: Json, old: Json) -> None:
        body["type"] = body.get("type") or old["type"]

    def causes(self, body: Json) -> list[Cause]:
        data: dict[str, str] = body.get("data") or {}
        found = _data_key_causes(data)
        if sum(_decoded_size(value) for value in data.values()) > DATA_LIMIT:
            found.append(too_long("data", DATA_LIMIT))
        found += _typed_causes(body["type"], data)
        annotations = body["metadata"].get("annotations") or {}
        if body["type"] == "kubernetes.io/service-account-token" and not annotations.get(_SERVICE_ACCOUNT):
            found.append(required(f"metadata.annotations[{_SERVICE_ACCOUNT}]"))
        return found

    def update_causes(self, body: Json, old: Json) -> list[Cause]:
        found: list[Cause] = []
        if body["type"] != old["type"]:
            found.append(invalid_value("type", f'"{body["type"]}"', "field is immutable"))
        found += _immutable_causes(body, old, ("data",))
        return found + self.causes(body)

    def fields(self, body: Json) -> Mapping[str, str]:
        return {"type": body["type"]}


class ConfigMapRules(Rules):
    """Like a Secret, with text instead of base64."""

    def decode(self, body: Json) -> None:
        for name in ("data", "binaryData"):
            if name in body and not body[name]:
                del body[name]

    def causes(self, body: Json) -> list[Cause]:
        data: dict[str, str] = body.get("data") or {}
        binary: dict[str, str] = body.get("binaryData") or {}
        size = sum(len(value.encode()) for value in data.values())
        size += sum(_decoded_size(value) for value in binary.values())
        found = _data_key_causes({**data, **binary})
        return [*found, too_long("[]", DATA_LIMIT)] if size > DATA_LIMIT else found

    def update_causes(self, body: Json, old: Json) -> list[Cause]:
        return _immutable_causes(body, old, ("data", "binaryData")) + self.causes(body)


class LeaseRules(Rules):
    """Times in a Lease are MicroTime: exactly six digits after the point."""

    def decode(self, body: Json) -> None:
        spec = body.setdefault("spec", {})
        for name in ("acquireTime", "renewTime"):
            if spec.get(name):
                spec[name] = micro_time(spec[name])

    def causes(self, body: Json) -> list[Cause]:
        spec = body["spec"]
        found: list[Cause] = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            found.append(invalid_value("spec.leaseDurationSeconds", str(duration), "must be greater than 0"))
        if transitions is not None and transitions < 0:
            why = "must be greater than or equal to 0"
            found.append(invalid_value("spec.leaseTransitions", str(transitions), why))
        return found


def _kind(resource: Resource, properties: Json, rules: Rules, columns: tuple[Column, ...], **more: object) -> Kind:
    node = compile_schema(envelope({"properties": properties}))
    singular = resource.kind.lower()
    return Kind(resource, node, singular, rules, columns=columns, **more)  # type: ignore[arg-type]


BUILTIN: tuple[Kind, ...] = (
    _kind(
        NAMESPACES,
        {
            "spec": {"type": "object", "properties": {"finalizers": {"type": "array", "items": _STRING}}},
            "status": _FREE,
        },
        NamespaceRules(),
        (Column("Status", "string", ".status.phase"), Column("Age", "date", ".metadata.creationTimestamp")),
        subresources=("finalize",),
        short_names=("ns",),
        field_labels=frozenset({"status.phase"}),
        label_names=True,
    ),
    _kind(
        SECRETS,
        {
            "type": {"type": "string", "x-go-type": "v1.SecretType"},
            "immutable": {"type": "boolean"},
            "data": {
                "type": "object",
                "additionalProperties": {"type": "string", "x-go-string": True, "x-go-type": "[]uint8"},
                "x-go-type": "map[string][]uint8",
            },
            "stringData": {**_STRINGS, "x-go-type": "map[string]string"},
        },
        SecretRules(),
        (
            Column("Type", "string", ".type"),
            Column("Data", "integer", ".data"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
        field_labels=frozenset({"type"}),
    ),
    _kind(
        CONFIG_MAPS,
        {"immutable": {"type": "boolean"}, "data": _STRINGS, "binaryData": _STRINGS},
        ConfigMapRules(),
        (Column("Data", "integer", ".data"), Column("Age", "date", ".metadata.creationTimestamp")),
        short_names=("cm",),
    ),
    _kind(
        SERVICE_ACCOUNTS,
        {"secrets": _FREE, "imagePullSecrets": _FREE, "automountServiceAccountToken": {"type": "boolean"}},
        Rules(),
        (Column("Age", "date", ".metadata.creationTimestamp"),),
        short_names=("sa",),
    ),
    _kind(
        EVENTS,
        {
            "involvedObject": {"type": "object", "properties": dict.fromkeys(REFERENCE, _STRING)},
            "related": {"type": "object", "properties": dict.fromkeys(REFERENCE, _STRING)},
            "source": {"type": "object", "properties": {"component": _STRING, "host": _STRING}},
            "series": {"type": "object", "properties": {"count": _INTEGER, "lastObservedTime": _TIME}},
            **dict.fromkeys(("reason", "message", "type", "action"), _STRING),
            **dict.fromkeys(("reportingComponent", "reportingInstance"), _STRING),
            **{name: {**_TIME, "nullable": True} for name in ("firstTimestamp", "lastTimestamp", "eventTime")},
            "count": _INTEGER,
        },
        EventRules(),
        (
            Column("Last Seen", "date", ".lastTimestamp"),
            Column("Type", "string", ".type"),
            Column("Reason", "string", ".reason"),
            Column("Object", "string", ".involvedObject.name"),
            Column("Message", "string", ".message"),
        ),
        short_names=("ev",),
        field_labels=frozenset(
            {f"involvedObject.{name}" for name in REFERENCE} | {"reason", "type", "reportingComponent", "source"}
        ),
        create_on_update=True,
    ),
    _kind(
        LEASES,
        {
            "spec": {
                "type": "object",
                "properties": {
                    "holderIdentity": _STRING,
                    "leaseDurationSeconds": _INTEGER,
                    "leaseTransitions": _INTEGER,
                    "acquireTime": _TIME,
                    "renewTime": _TIME,
                    "strategy": _STRING,
                    "preferredHolder": _STRING,
                },
            }
        },
        LeaseRules(),
        (
            Column("Holder", "string", ".spec.holderIdentity"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
        create_on_update=True,
        unconditional_update=False,
    ),
)
"""Every built-in kind except CustomResourceDefinitions, which change what is served."""


def _name_label(body: Json) -> None:
    meta = body["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta.get("name", "")}


def _canonical_base64(text: str) -> str:
    """The text as Go writes it after decoding; it ignores line breaks and nothing else."""
    compact = text.replace("\r", "").replace("\n", "")
    try:
        decoded = base64.b64decode(compact, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Undecodable("illegal base64 data at input byte 0") from error
    return base64.b64encode(decoded).decode()


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text.count("=", -2)


def _typed_causes(kind: str, data: Mapping[str, str]) -> Iterator[Cause]:
    """What the types of Secrets that Kubernetes knows ask of their data."""
    for key in _REQUIRED_DATA.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif key in _JSON_DATA and not _is_json(base64.b64decode(data[key])):
            yield invalid_value(f"data[{key}]", '"<secret contents redacted>"', "invalid character")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield from (required(f"data[{key}]") for key in ("username", "password"))


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _data_key_causes(data: Mapping[str, str]) -> list[Cause]:
    found: list[Cause] = []
    for key in sorted(data):
        if len(key) > _DATA_KEY_LIMIT:
            found.append(invalid_value(f"data[{key}]", f'"{key}"', "must be no more than 253 characters"))
        if key in (".", "..") or key.startswith(".."):
            why = f"must not be '{key}'" if key in (".", "..") else "must not start with '..'"
            found.append(invalid_value(f"data[{key}]", f'"{key}"', why))
        elif not _DATA_KEY.fullmatch(key):
            found.append(invalid_value(f"data[{key}]", f'"{key}"', _BAD_DATA_KEY))
    return found


def _immutable_causes(body: Json, old: Json, names: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    found = [forbidden_field("immutable", why)] if not body.get("immutable") else []
    return found + [forbidden_field(name, why) for name in names if body.get(name) != old.get(name)]
