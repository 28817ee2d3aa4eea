"""What an API server answers when it refuses: `Status` bodies, word for word as kube-apiserver writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube.cluster import Json
from kube.resources import Resource

OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"
"""The message of every Conflict that a stale resourceVersion causes."""

UNCHECKED_RULES = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class Refusal(Exception):
    """Raised inside the store for every answer that is not a success; `direct` and `server` translate it.

    `plain` is the text of the few answers that are no Status object, such as `404 page not found`.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        metadata: Json | None = None,
        plain: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata
        self.plain = plain
        self.warnings: tuple[str, ...] = ()

    @property
    def body(self) -> Json:
        """The Status object. `reason` and `details` are absent where the real one omits them."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata or {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is invalid: the field's path, the kind of fault, the text."""

    field: str
    reason: str
    message: str

    @property
    def text(self) -> str:
        return f"{self.field}: {self.message}"


def invalid_value(field: str, value: str, why: str) -> Cause:
    """`value` is already in the form it is to be shown: a string quoted, a number not."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {value}: {why}")


def required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def forbidden_field(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def too_long(field: str, limit: int) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def wrong_type(field: str, value: str, why: str) -> Cause:
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {value}: {why}")


def unsupported(field: str, value: str, supported: Iterable[str]) -> Cause:
    values = ", ".join(f'"{item}"' for item in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {value}: supported values: {values}")


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def internal(message: str) -> Refusal:
    """What kube-apiserver answers when it did not foresee an error: 500 without a reason."""
    return Refusal(500, "", message)


def page_not_found() -> Refusal:
    """A path below no served group: plain text, as from any Go server."""
    return Refusal(404, "", "404 page not found", plain="404 page not found\n")


def resource_not_found() -> Refusal:
    """A path below a served group of built-in kinds that names no resource."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def not_supported(resource: Resource, action: str) -> Refusal:
    message = f'{action} is not supported on resources of kind "{resource.qualified}"'
    details = {"group": resource.group, "kind": resource.plural}
    return Refusal(405, "MethodNotAllowed", message, details=_without_empty(details))


def not_acceptable() -> Refusal:
    accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    return Refusal(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return Refusal(415, "UnsupportedMediaType", message + ", ".join(accepted))


def too_large(message: str) -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def not_found(resource: Resource, name: str) -> Refusal:
    message = f'{resource.qualified} "{name}" not found'
    return Refusal(404, "NotFound", message, details=_details(resource, name))


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> Refusal:
    message = f'{resource.qualified} "{name}" already exists'
    if deleting:
        message = f"object is being deleted: {message}"
    return Refusal(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str = OPTIMISTIC_LOCK) -> Refusal:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_details(resource, name))


def unmet_precondition(resource: Resource, name: str, why: str) -> Refusal:
    """A Conflict on DELETE: the real server puts the kind where the resource is elsewhere."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_without_empty(details))


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[Cause] = ()) -> Refusal:
    details = _details(resource, name)
    if causes:
        details["causes"] = [_cause(cause) for cause in causes]
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", message, details=details)


def namespace_terminating(resource: Resource, namespace: str, name: str) -> Refusal:
    cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(resource, name, why, [cause])


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refusal:
    """422: `kind` is the kind, or where the real server does so the plural."""
    texts = list(dict.fromkeys(cause.text for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: Json = {"name": name, "group": group, "kind": kind}
    details = _without_empty(details)
    details["causes"] = [_cause(cause) for cause in causes]
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details=details)


def rejected_patch() -> Refusal:
    """422: a JSON Patch that does not apply. The real server says no more than this."""
    message = "the server rejected our request due to an error in our request"
    return Refusal(422, "Invalid", message, details={})


def undecodable_patch(document: str, why: str) -> Refusal:
    """422: the patched document is no object of this kind. The real server shows the whole of it."""
    return invalid("", "", "", [invalid_value("patch", _quoted(document), why)])


def expired(message: str, *, continue_token: str = "") -> Refusal:
    metadata = {"continue": continue_token} if continue_token else None
    return Refusal(410, "Expired", message, metadata=metadata)


def too_large_version(asked: int, current: int) -> Refusal:
    """504: a resourceVersion that this store has not reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details: Json = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Refusal(504, "Timeout", message, details=details)


def success(resource: Resource, name: str, uid: str) -> Json:
    """The answer to a DELETE that removed the object at once."""
    details = _details(resource, name)
    details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(resource: Resource, name: str) -> Json:
    return _without_empty({"name": name, "group": resource.group, "kind": resource.plural})


def _without_empty(details: Json) -> Json:
    return {key: value for key, value in details.items() if value != ""}


def _cause(cause: Cause) -> Json:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
