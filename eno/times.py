"""RFC 3339 instants, read strictly and written in whole seconds of UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def parse_time(text: str) -> datetime:
    """An aware instant. Raises ValueError on anything but RFC 3339 with an offset."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    date, time, fraction, offset = found.groups(default="")
    # fromisoformat takes at most microseconds.
    return datetime.fromisoformat(f"{date}T{time}{fraction[:7]}{offset.upper()}")


def format_time(instant: datetime) -> str:
    """`2026-01-31T12:00:00Z`: whole seconds, rounded down, as Kubernetes writes metav1.Time."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
