"""When an API server answered whom, as a file that grows while it is read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A finished request: `at` is monotonic seconds, `resource` the plural with its subresource; bytes of bodies."""

    at: float
    agent: str
    verb: str
    resource: str
    name: str
    code: int
    received: int
    sent: int

    @property
    def decides(self) -> bool:
        """Whether it published something on a composition, which in a recovery is the decision."""
        return (self.verb, self.resource, self.code) == ("patch", "compositions/status", 200)


class Log:
    """Appends entries to a file, whole lines only. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def note(self, entry: Entry) -> None:
        """Append one."""
        line = msgspec.json.encode(entry) + b"\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        """No more will come."""
        self._file.close()


class Timeline:
    """Reads such a file on from where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.entries: list[Entry] = []

    def advance(self) -> list[Entry]:
        """The entries that came since the last call; all of them are in `entries`. Raises OSError."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + bool(whole)
        fresh = [msgspec.json.decode(line, type=Entry) for line in whole.split(b"\n") if line]
        self.entries += fresh
        return fresh

    def by(self, agent: str) -> list[Entry]:
        """The requests of everybody whose user agent begins so."""
        return [entry for entry in self.entries if entry.agent.startswith(agent)]


def decisions(entries: Iterable[Entry]) -> dict[str, float]:
    """When each composition was decided, by name: the first time counts."""
    found: dict[str, float] = {}
    for entry in entries:
        if entry.decides:
            found.setdefault(entry.name, entry.at)
    return found


def first_requests(entries: Iterable[Entry]) -> dict[str, float]:
    """When each composition was first asked about, by name."""
    found: dict[str, float] = {}
    for entry in entries:
        if entry.resource == "compositions" and entry.verb == "get":
            found.setdefault(entry.name, entry.at)
    return found
