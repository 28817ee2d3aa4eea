"""JSON bodies: bytes to objects and back, with every way to be malformed in one place.

Bodies stay plain dictionaries (no models), so that whatever a server sends goes back to it unchanged.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kube.cluster import Json


def decode_object(body: bytes) -> Json | None:
    """The JSON object in `body`, or None for anything else: other JSON, no JSON, not UTF-8, too deep."""
    try:
        decoded: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON."""
    return msgspec.json.encode(value)
