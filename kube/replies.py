"""What an answer has to look like before it is believed.

A login page, a cut-off list or an object of another kind must not pass for an answer: with those, absence
would be read out of an error.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from eno.errors import BadResponse
from kube.bodies import decode_object
from kube.cluster import Json, Page
from kube.requests import Request
from kube.statuses import RETRY_AFTER_LIMIT


def object_from(request: Request, body: bytes) -> Json:
    """The object in the body of a 2xx answer. Raises BadResponse when it is none, or of another kind."""
    obj = decode_object(body)
    if obj is None:
        raise BadResponse(request.operation, reason="NotJSON", message="the answer is not a JSON object")
    check_kind(request, obj)
    return obj


def check_kind(request: Request, obj: Json) -> None:
    """Raises BadResponse when the answer's kind is not the one that was asked for.

    A server that does not know `PartialObjectMetadata` sends whole objects, of which Sexton would keep
    manifests and Secret data that it promised never to hold.
    """
    if request.kind and obj.get("kind") != request.kind:
        found = str(obj.get("kind"))[:100]
        raise BadResponse(request.operation, reason="WrongKind", message=f"expected {request.kind}, got {found}")


def page_from(request: Request, body: bytes, date: datetime | None) -> Page:
    """The page in the body of a list's 2xx answer. Raises BadResponse unless it is all there."""
    answer = object_from(request, body)
    metadata, items = answer.get("metadata"), answer.get("items")
    if items is None and "items" in answer and request.kind == "PartialObjectMetadataList":
        # kube-apiserver's way of saying that a metadata list is empty; other lists are never null.
        items = []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadResponse(request.operation, reason="NoItems", message="a list without a list of objects")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    token = metadata.get("continue") or "" if isinstance(metadata, dict) else ""
    if not isinstance(version, str) or not version or not isinstance(token, str):
        raise BadResponse(request.operation, reason="NoResourceVersion", message="a list that cannot be continued")
    return Page(items, version, token, date)


def date_from(value: str | None) -> datetime | None:
    """The instant in an HTTP `Date` header, in UTC; None when it is absent or malformed."""
    try:
        date = parsedate_to_datetime(value or "")
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def retry_after_from(value: str | None, now: datetime) -> float | None:
    """Seconds to wait after a `Retry-After` header, which holds seconds or an HTTP date (RFC 9110, 10.2.3).

    `now` should be the server's own clock, since a date is on that. None when absent, malformed or over.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        date = date_from(text)
        seconds = (date - now).total_seconds() if date else 0.0
    return min(seconds, RETRY_AFTER_LIMIT) if seconds > 0 else None
