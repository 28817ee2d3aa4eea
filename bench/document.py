"""The generated part of docs/performance.md: what stands between two marks is replaced, the rest is prose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench import table
from bench.figures import Section
from bench.machine import Machine

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def block(machine: Machine, sections: Sequence[Section]) -> str:
    """The latest figures as Markdown."""
    return "\n\n".join([machine.sentence(), *map(table.markdown, sections)])


def rewrite(text: str, generated: str) -> str:
    """The document with another generated part. Raises ValueError unless it has both marks, once and in order."""
    before, begin, rest = text.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end or BEGIN in inside + after or END in after:
        raise ValueError(f"the document needs one {BEGIN} and one {END} after it")
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


def update(path: Path, machine: Machine, sections: Sequence[Section]) -> None:
    """Rewrite the document in place. Raises ValueError and OSError."""
    text = path.read_text(encoding="utf-8")
    path.write_text(rewrite(text, block(machine, sections)), encoding="utf-8")
