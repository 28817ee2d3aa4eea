"""Ctrl-C between two steps instead of within one, which would leave it open whether that step was made."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Decides when Ctrl-C becomes a KeyboardInterrupt, inside its `with` block. For the main thread only.

    The signal is not blocked: another thread would be given it, and Python would raise all the same.
    """

    def __init__(self) -> None:
        self._undivided = False
        self._waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """A step that is made whole; Ctrl-C waits for its end. Pressed twice, it waits no longer."""
        self._undivided = True
        try:
            yield
        finally:
            self._undivided = False
        if self._waiting:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._undivided or self._waiting:
            raise KeyboardInterrupt
        self._waiting = True
