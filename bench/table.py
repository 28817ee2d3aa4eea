"""Figures as text: a table for the terminal, Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.figures import Line, Section

HEADINGS = ("what", "ours", "beside", "ratio", "aim")


def number(value: float) -> str:
    """Three significant digits, thousands set apart, no exponent; counts in full."""
    if value == 0 or isinstance(value, int):
        return f"{value:,.0f}".replace(",", "\u202f")
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}".replace(",", "\u202f")
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.1 else f"{value:.2g}"


def quantity(value: float, unit: str) -> str:
    """A number with its unit; plain numbers have none."""
    return f"{number(value)} {unit}".strip()


def row(line: Line) -> tuple[str, str, str, str, str]:
    """The cells of a line, in the order of HEADINGS."""
    theirs = f"{line.beside}: {quantity(line.theirs, line.unit)}" if line.theirs is not None else line.beside
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    return line.what, quantity(line.ours, line.unit), theirs, ratio, verdict(line)


def verdict(line: Line) -> str:
    """The aim and whether it is met."""
    if line.aim is None:
        return ""
    unit = "" if line.aim.of_ratio else line.unit
    limit = f"{line.aim.value:.2f}" if line.aim.of_ratio else quantity(line.aim.value, unit)
    return f"{line.aim.bound} {limit} {'✓' if line.met else '✗'}"


def terminal(section: Section) -> Table:
    """For 80 columns and more."""
    table = Table(title=section.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        free = heading in ("what", "beside")
        table.add_column(heading, justify="left" if free else "right", no_wrap=not free)
    for line in section.lines:
        table.add_row(*row(line))
    table.caption = "\n".join(section.notes) or None
    table.caption_justify = "left"
    return table


def markdown(section: Section) -> str:
    """A heading, a table, the notes as paragraphs, the pictures."""
    rows = [HEADINGS, ("---", "---:", "---", "---:", "---"), *(row(line) for line in section.lines)]
    parts = [f"### {section.title}", "\n".join(_markdown_row(cells) for cells in rows), *section.notes]
    parts += [f"![{curve.title}](images/bench-{curve.name}.png)" for curve in section.curves]
    return "\n\n".join(parts)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
