"""The body of a watch: bytes to lines to events.

A chunk may end anywhere, also inside a UTF-8 sequence, so lines are cut as bytes and decoded whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eno.errors import BadResponse, Unreachable
from kube.bodies import decode_object
from kube.cluster import Json, WatchEvent
from kube.replies import check_kind
from kube.requests import Request
from kube.statuses import error_from_event

LINE_LIMIT = 32 * 1024 * 1024
"""Bytes. etcd refuses objects above some 1.5 MiB, so a longer line is no event."""


def events(request: Request, chunks: Iterable[bytes]) -> Iterator[WatchEvent]:
    """The events in the body of a watch.

    Raises the ApiError of an ERROR line, BadResponse on a line that is no event, Unreachable when the body
    ends in the middle of one. Event types that Sexton does not know are skipped: new ones may be added.
    """
    for line in lines(request.operation, chunks):
        event = event_from(request, line)
        if event is not None:
            yield event


def lines(operation: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The non-blank lines in `chunks`, without their ends."""
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        if b"\n" not in chunk:
            if len(pending) > LINE_LIMIT:
                raise BadResponse(operation, reason="LineTooLong", message="a watch event without an end")
            continue
        *complete, rest = bytes(pending).split(b"\n")
        pending = bytearray(rest)
        yield from (line for line in complete if line.strip())
    if pending.strip():
        raise Unreachable(operation, reason="Broken", message="the stream ended inside an event")


def event_from(request: Request, line: bytes) -> WatchEvent | None:
    """The event on one line, or None for an unknown type. Raises as `events` does."""
    event = decode_object(line)
    if event is None:
        raise BadResponse(request.operation, reason="NotJSON", message="a watch event that is no JSON object")
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise BadResponse(request.operation, reason="NoEvent", message="a watch event without type or object")
    match kind:
        case "ADDED" | "MODIFIED" | "DELETED":
            check_kind(request, obj)
            return WatchEvent(kind, _versioned(request, obj))
        case "BOOKMARK":
            return WatchEvent(kind, _versioned(request, obj))
        case "ERROR":
            raise error_from_event(request.operation, obj)
        case _:
            return None


def _versioned(request: Request, obj: Json) -> Json:
    metadata = obj.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version:
        raise BadResponse(
            request.operation, reason="NoResourceVersion", message="a watch event to which no watch can return"
        )
    return obj
