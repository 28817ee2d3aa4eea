"""RFC 3339 instants, read strictly and written in whole seconds of UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Times outside of these are nobody's, and what is added to them may not exist."""


def bounded(instant: datetime) -> datetime:
    """The instant in UTC, or the bound that it lies beyond: a zero time is long ago, an absurd one far ahead."""
    # Compared first: the conversion of an instant at the edge of what datetime holds overflows.
    return min(max(instant, EARLIEST), LATEST).astimezone(UTC)


def parse_time(text: str) -> datetime:
    """An aware instant in UTC. Raises ValueError on anything but RFC 3339 with an offset, and outside the bounds."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    date, time, fraction, offset = found.groups(default="")
    instant = datetime.fromisoformat(f"{date}T{time}{fraction}{offset.upper()}")
    if not EARLIEST <= instant <= LATEST:
        raise ValueError(f"{text!r} lies outside of {EARLIEST.year} to {LATEST.year}")
    return instant.astimezone(UTC)


def format_time(instant: datetime) -> str:
    """`2026-01-31T12:00:00Z`: whole seconds, rounded down, as Kubernetes writes metav1.Time."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
