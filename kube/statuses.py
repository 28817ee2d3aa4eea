"""From an HTTP status and whatever body came with it to one class of `eno.errors`.

The body should be a `Status` object but often is not: proxies answer in HTML, the server itself with
`404 page not found`. Only the HTTP status decides the class, except where the API conventions give one status
two meanings; then the Status' reason and causes do.
"""

from __future__ import annotations

import re
from typing import Any

from eno.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NamespaceTerminating,
    NotFound,
    NotServed,
    Refused,
    ServerError,
    Throttled,
    Unauthorized,
)
from kube.bodies import decode_object
from kube.cluster import Json
from kube.resources import Resource

MESSAGE_LIMIT = 1000
"""Characters of a server's message that are kept."""

RETRY_AFTER_LIMIT = 3600.0
"""Seconds: a server that asks for a longer pause is asked again after this one."""

_LONG_VALUE = re.compile(r'"(?:[^"\\]|\\.){254,}"?', re.DOTALL)
"""A quoted text longer than any name: servers quote the whole object that they refuse, which is for no log."""

_TERMINATING = "because it is being terminated"

_REASON = re.compile(r"[A-Za-z]{1,64}")

_BY_STATUS: dict[int, type[ApiError]] = {
    400: Refused,
    401: Unauthorized,
    403: Forbidden,
    404: NotServed,
    405: Refused,
    406: Refused,
    409: Conflict,
    410: Expired,
    413: Refused,
    415: Refused,
    422: Invalid,
    429: Throttled,
}

_CODE_BY_REASON = {"Expired": 410, "Gone": 410, "Unauthorized": 401, "Forbidden": 403, "TooManyRequests": 429}

_HINTS: dict[type[ApiError], str] = {
    Unauthorized: "check the credentials in the kubeconfig or the service account token",
    Forbidden: "grant the permission",
    NamespaceTerminating: "nothing can be created in a namespace that is being deleted",
}


def operation(verb: str, resource: Resource, namespace: str | None, name: str = "", subresource: str = "") -> str:
    """What is being done, for people: `patch compositions.eno.azure.io/status ns/name`, `list secrets ns`."""
    subject = f"{resource.qualified}/{subresource}" if subresource else resource.qualified
    if not resource.namespaced:
        return f"{verb} {subject} {name}".rstrip()
    if namespace is None:
        return f"{verb} {subject} (all namespaces)"
    return f"{verb} {subject} {namespace}/{name}" if name else f"{verb} {subject} {namespace}"


def error_from_status(
    operation: str,
    status_code: int,
    body: bytes | Json | None,
    *,
    retry_after: float | None = None,
) -> ApiError:
    """The error for an answer with a status other than 2xx.

    `retry_after` is the `Retry-After` header in seconds. Without one, the Status' `details.retryAfterSeconds`
    is taken. The error's `summary` holds the operation, the status and the Status' reason: none of them
    varies between attempts. The server's message, which may, is its detail.
    """
    status = _status_object(body)
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    reason = status.get("reason")
    reason = reason if isinstance(reason, str) and _REASON.fullmatch(reason) else ""
    message = _message(status, body)
    kind = _class_of(status_code, reason, message, details, retry_after)
    return kind(
        operation,
        status=status_code,
        reason=reason,
        message=message,
        hint=_HINTS.get(kind, ""),
        retry_after=retry_after,
    )


def error_from_event(operation: str, status: Json) -> ApiError:
    """The error for the object of an ERROR line inside a watch that itself was answered with 200.

    The Status' own `code` takes the place of the HTTP status, or its reason when there is no usable code.
    """
    code = status.get("code")
    if not isinstance(code, int) or not 400 <= code <= 599:
        code = _CODE_BY_REASON.get(str(status.get("reason")), 500)
    return error_from_status(operation, code, status)


def _class_of(status_code: int, reason: str, message: str, details: Json, retry_after: float | None) -> type[ApiError]:
    causes = _cause_reasons(details)
    if status_code == 404 and reason == "NotFound" and details.get("name"):
        return NotFound
    if status_code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status_code == 403 and ("NamespaceTerminating" in causes or _TERMINATING in message):
        return NamespaceTerminating
    if "ResourceVersionTooLarge" in causes:  # a 504: the version was issued before etcd was restored
        return Expired
    kind = _BY_STATUS.get(status_code, ServerError)
    return Throttled if kind is ServerError and retry_after is not None else kind


def _status_object(body: bytes | Json | None) -> Json:
    if isinstance(body, bytes):
        return decode_object(body) or {}
    return body or {}


def _cause_reasons(details: Json) -> set[str]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return set()
    return {str(cause.get("reason")) for cause in causes if isinstance(cause, dict)}


def _message(status: Json, body: bytes | Json | None) -> str:
    message: Any = status.get("message")
    if not isinstance(message, str):
        message = body.decode("utf-8", "replace") if isinstance(body, bytes) else ""
    return " ".join(_LONG_VALUE.sub('"…"', message)[:MESSAGE_LIMIT].split())


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and value > 0:
        return float(min(value, RETRY_AFTER_LIMIT))
    return None
