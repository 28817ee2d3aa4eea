"""What a worker makes of a message before it becomes a task: nothing but a known name and keyword arguments.

Celery's messages can do more than Sexton asks of them: wait for an instant in a worker's memory, lift time
limits, call further tasks, name a task as something else. Whoever can write to Redis could use that, and some
malformed headers end the worker that reads them, again and again since they are never acknowledged. So headers
are made anew from what Sexton's own producer sets, and bodies must look exactly like its own (P8).
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 256


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message to execute, with the headers to execute it with."""

    headers: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message to throw away: `action` for the log, and why."""

    action: str
    reason: str


EMPTY: Mapping[str, Any] = {
    "body": "",
    "headers": {},
    "properties": {"delivery_tag": "malformed", "delivery_info": {"exchange": "", "routing_key": ""}},
}
"""What takes the place of an item that is no message, so that it is acknowledged and dropped like others."""


def is_message(item: object) -> bool:
    """Whether a decoded item of a queue has the shape that kombu relies on without looking."""
    if not isinstance(item, dict):
        return False
    headers, body, properties = item.get("headers"), item.get("body"), item.get("properties")
    match properties:
        case {"delivery_tag": str(), "delivery_info": {"exchange": str(), "routing_key": str()}, **others}:
            known_parts = isinstance(headers, dict | None) and isinstance(body, str | None)
            return known_parts and _decodes(body, others.get("body_encoding"))
        case _:
            return False


def _decodes(body: str | None, encoding: object) -> bool:
    if encoding not in (None, "utf-8", "base64"):
        return False
    try:
        base64.b64decode(body or "") if encoding == "base64" else None
    except ValueError:
        return False
    return True


def inspect(headers: object, payload: object, known: Collection[str]) -> Accepted | Dropped:
    """Judge a message by its headers and decoded body. `known` are the names of this worker's tasks.

    Accepted is a message of task protocol 2 with `[[], {…}, {…}]` as body, whose options are all empty.
    """
    if not isinstance(headers, Mapping):
        return Dropped("message-rejected", "no headers")
    name, identity = headers.get("task"), headers.get("id")
    if not (_is_word(name) and _is_word(identity)):
        return Dropped("message-rejected", "no task name or id in the headers")
    if name not in known:
        return Dropped("task-unknown", f"no task {name!r} in this version")
    match payload:
        case [[], dict(arguments), _] if "self" in arguments:
            # Celery binds a task to itself under this name.
            return Dropped("message-rejected", "an argument named self")
        case [[], dict(), dict(options)] if not any(options.values()):
            return Accepted(_headers(name, identity, headers))
        case [[], dict(), dict()]:
            return Dropped("message-rejected", "calls for further tasks")
        case _:
            return Dropped("message-rejected", "the body is not a list of no arguments, keyword arguments and options")


def _headers(name: object, identity: object, given: Mapping[str, Any]) -> dict[str, Any]:
    shown = given.get("kwargsrepr")
    return {
        "lang": "py",
        "task": name,
        "id": identity,
        "root_id": identity,
        "parent_id": None,
        "group": None,
        "argsrepr": "()",
        "kwargsrepr": shown[:1024] if isinstance(shown, str) else "",
        "ignore_result": True,
    }


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
