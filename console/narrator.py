"""Tells a play while it happens: one line an act, with the seconds since the beginning."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from console import render

_INDENT = 8


class Narrator:
    """Writes to one console. On a terminal, what is being waited for is shown with a spinner."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def tell(self, line: str) -> None:
        """Something has happened."""
        row = Table.grid(padding=(0, 2))
        row.add_column(no_wrap=True)
        row.add_column(overflow="fold")
        row.add_row(f"{self.seconds:5.1f}s", line)
        self._console.print(row)

    def show(self, what: RenderableType) -> None:
        """Something to look at, below the line it belongs to."""
        self._console.print(Padding(what, (0, 0, 0, _INDENT), expand=False))

    def waiting(self, line: str) -> AbstractContextManager[object]:
        """Something is happening."""
        return self._console.status(render.line(line))
