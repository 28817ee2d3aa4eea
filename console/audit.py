"""What Sexton asked of the API servers, counted from what the servers wrote down themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from devcluster.audit import Entry, read_entries

ApiCalls: TypeAlias = Mapping[str, Mapping[str, int]]
"""Requests by verb, then by resource (`compositions`, `compositions/status`)."""


@dataclass(frozen=True, slots=True)
class AuditTrail:
    """The audit logs of several servers, from some moment on: `starts` counts the entries before it."""

    starts: tuple[tuple[Path, int], ...]

    @classmethod
    def since_now(cls, *paths: Path) -> Self:
        """What is written from now on. Raises OSError."""
        return cls(tuple((path, len(read_entries(path))) for path in paths))

    def calls(self, user_agent: str) -> ApiCalls:
        """Requests of the user agents that begin with `user_agent`. Raises OSError."""
        ours = (entry for entry in self._entries() if entry.userAgent.startswith(user_agent))
        counts = Counter((entry.verb, _resource(entry)) for entry in ours)
        found: dict[str, dict[str, int]] = {}
        for (verb, resource), number in sorted(counts.items()):
            found.setdefault(verb, {})[resource] = number
        return found

    def _entries(self) -> Iterator[Entry]:
        for path, start in self.starts:
            yield from read_entries(path)[start:]


def _resource(entry: Entry) -> str:
    return f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
