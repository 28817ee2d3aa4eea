"""How a command ends when it is told to: cleaned up, and between two steps instead of within one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self


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


@contextmanager
def orderly_termination() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, so that everything is cleaned up."""
    told: list[int] = []

    def leave(number: int, _frame: FrameType | None = None) -> NoReturn:
        told.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
        # What a signal raises in the middle of a destructor is printed, and lost.
        if told:
            leave(told[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
