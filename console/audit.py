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
    """A part of the audit logs of several servers: of each, the entries from `start` to before `stop` (None: all)."""

    spans: tuple[tuple[Path, int, int | None], ...]

    @classmethod
    def since_now(cls, *paths: Path) -> Self:
        """What is written from now on. Raises OSError."""
        return cls(tuple((path, len(read_entries(path)), None) for path in paths))

    def calls(self, user_agent: str) -> ApiCalls:
        """Requests of the user agents that begin with `user_agent`. Raises OSError."""
        ours = (entry for entry in self._entries() if entry.userAgent.startswith(user_agent))
        counts = Counter((entry.verb, _resource(entry)) for entry in ours)
        found: dict[str, dict[str, int]] = {}
        for (verb, resource), number in sorted(counts.items()):
            found.setdefault(verb, {})[resource] = number
        return found

    def split(self, verb: str, resource: str) -> tuple[Self, Self]:
        """Each server's log up to its first such request, that one included, and what came after it.

        The log of a server that got no such request stays whole, in the first part. Raises OSError.
        """
        first, second = [], []
        for path, start, stop in self.spans:
            entries = enumerate(read_entries(path)[start:stop], start=start + 1)
            after = next((end for end, entry in entries if (entry.verb, _resource(entry)) == (verb, resource)), stop)
            first.append((path, start, after))
            second += [] if after is None else [(path, after, stop)]
        return type(self)(tuple(first)), type(self)(tuple(second))

    def _entries(self) -> Iterator[Entry]:
        for path, start, stop in self.spans:
            yield from read_entries(path)[start:stop]


def _resource(entry: Entry) -> str:
    return f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
