"""What a person sees of an examination: a line a check, and below it, in one piece, the line that mends it."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from console import render
from console.doctor.checks import Check, Examination, State

_MARKS = {
    State.OK: ("✓", "green"),
    State.WARNING: ("!", "yellow"),
    State.FAILED: ("✗", "bold red"),
    State.SKIPPED: ("–", "dim"),
}
_INDENT = 4


def show(found: Examination, console: Console) -> None:
    """Print it, area by area. Lines to copy are never folded, however wide: they are pasted in one piece."""
    width = max((len(each.name) for each in found.checks), default=0)
    for area, checks in groupby(found.checks, key=lambda check: check.area):
        console.print(render.line(area, "bold"))
        for check in checks:
            console.print(_line(check, min(width, 28)))
            if check.fix:
                console.print(render.line(" " * _INDENT + check.fix, "cyan"), soft_wrap=True)
    console.print(_verdict(found))


def _line(check: Check, width: int) -> RenderableType:
    mark, style = _MARKS[check.state]
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(no_wrap=True, width=1)
    row.add_column(width=width, overflow="fold")
    row.add_column(overflow="fold")
    row.add_row(Text(mark, style=style), check.name, check.found)
    return Padding(row, (0, 0, 0, 1), expand=False)


def _verdict(found: Examination) -> Group:
    counts = {state: sum(check.state is state for check in found.checks) for state in State}
    words = {
        State.OK: "well",
        State.WARNING: "worth a look",
        State.FAILED: "to be mended",
        State.SKIPPED: "not checked",
    }
    parts = [f"{counts[state]} {word}" for state, word in words.items() if counts[state] or state is State.OK]
    return Group("", ", ".join(parts) + ".")
