"""One line per finished request: how tests, the demo and the benchmarks count API calls."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """A finished request; `verb` is the API verb, not the HTTP method. Bytes are those of the bodies.

    `code` 0: the client was gone before there was an answer.
    """

    time: str
    userAgent: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    bytesIn: int = 0
    bytesOut: int = 0


class AuditLog:
    """Appends entries to a file, one compact JSON line each, whole lines only. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def __call__(self, entry: Entry) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


def read_entries(path: Path) -> list[Entry]:
    """The entries of an audit log so far. Raises OSError."""
    lines = path.read_bytes().split(b"\n")
    return [msgspec.json.decode(line, type=Entry) for line in lines[:-1]]
