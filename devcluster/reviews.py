"""SelfSubjectAccessReview, which is answered and never stored. There is no RBAC: everything is allowed."""

from __future__ import annotations

from typing import Any

from devcluster.kinds import FieldValidation, Kind, decode_body, envelope
from devcluster.schema import compile_schema
from devcluster.statuses import invalid, invalid_value
from kube.cluster import Json
from kube.resources import Resource

ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

_STRING: Json = {"type": "string"}
_FREE: Json = {"x-kubernetes-preserve-unknown-fields": True}
_RESOURCE_ATTRIBUTES: Json = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("namespace", "verb", "group", "version", "resource", "subresource", "name"), _STRING),
        "fieldSelector": _FREE,
        "labelSelector": _FREE,
    },
}
_PATH_ATTRIBUTES: Json = {"type": "object", "properties": {"path": _STRING, "verb": _STRING}}
_SPEC: Json = {
    "type": "object",
    "properties": {"resourceAttributes": _RESOURCE_ATTRIBUTES, "nonResourceAttributes": _PATH_ATTRIBUTES},
}

KIND = Kind(
    ACCESS_REVIEWS,
    compile_schema(envelope({"properties": {"spec": _SPEC, "status": _FREE}})),
    "selfsubjectaccessreview",
)


def review(body: Any, validation: FieldValidation) -> tuple[Json, tuple[str, ...]]:
    """The answered review, and warnings. Raises Refusal (400, 422)."""
    decoded = decode_body(KIND, body, validation)
    spec = {name: _given(value) for name, value in (decoded.body.get("spec") or {}).items() if value is not None}
    metadata = decoded.body["metadata"]
    asked = [name for name in ("resourceAttributes", "nonResourceAttributes") if name in spec]
    if len(asked) == 2:
        why = "cannot be specified in combination with resourceAttributes"
        raise invalid("", ACCESS_REVIEWS.group, "", [invalid_value("spec.nonResourceAttributes", "{...}", why)])
    if not asked:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid("", ACCESS_REVIEWS.group, "", [invalid_value("spec.resourceAttributes", "null", why)])
    if _given(metadata):
        raise invalid("", ACCESS_REVIEWS.group, "", [invalid_value("metadata", "{...}", "must be empty")])
    head = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version, "metadata": {}}
    return {**head, "spec": spec, "status": {"allowed": True}}, decoded.warnings


def _given(value: Json) -> Json:
    """Without what Go leaves out of its answers."""
    return {key: each for key, each in value.items() if each not in (None, "", {}, [])}
