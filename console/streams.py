"""Where a command writes: what cannot be written is one line of complaint, an escape, or, where nobody reads, nothing.

Without it, what cannot be written is a traceback, or an error that the interpreter shows at its very end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import IO, Any

from eno.errors import Terminal


class ReaderGone(Exception):
    """Raised when whoever read our output has seen enough."""


class _Guarded:
    """Standard output. What it cannot write is raised as Terminal, and as ReaderGone from a closed pipe."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """See IO."""
        with _told(self._stream):
            return self._stream.write(text)

    def flush(self) -> None:
        """See IO."""
        with _told(self._stream):
            self._stream.flush()


class _Forgiving:
    """Standard error, where nobody is left to tell what cannot be written."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """See IO."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """See IO."""
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard both standard streams within the block. One that is closed takes what it is given nowhere."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 — what is there is no path
        sys.stdout = _Guarded(before[0] or nowhere)
        sys.stderr = _Forgiving(before[1] or nowhere)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def _told(stream: IO[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _abandon(stream)
        if isinstance(error, BrokenPipeError):
            raise ReaderGone from error
        raise Terminal(
            "cannot be written",
            where="standard output",
            detail=error.strerror or type(error).__name__,
            hint="make room there, or send it somewhere else",
        ) from error


def _abandon(stream: IO[str]) -> None:
    """The interpreter must not try to write the rest at its end."""
    # Not every stream is a file.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
