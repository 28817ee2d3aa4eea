"""The two kinds of time in built-in kinds, as Go writes them back: always in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from devcluster.kinds import Undecodable
from eno.times import format_time, parse_time

_MICRO_TIME = re.compile(r".*[tT][0-9:]{8}(\.[0-9]{6})(Z|[+-][0-9]{2}:[0-9]{2})")


def second_time(text: str) -> str:
    """A metav1.Time: whole seconds. Raises Undecodable."""
    return format_time(_instant(text, "2006-01-02T15:04:05Z07:00"))


def micro_time(text: str) -> str:
    """A metav1.MicroTime: exactly six digits after the point. Raises Undecodable."""
    layout = "2006-01-02T15:04:05.000000Z07:00"
    if not _MICRO_TIME.fullmatch(text):
        raise Undecodable(f'parsing time "{text}" as "{layout}": cannot parse it as ".000000"')
    return _instant(text, layout).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _instant(text: str, layout: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError as error:
        raise Undecodable(f'parsing time "{text}" as "{layout}": cannot parse it') from error
