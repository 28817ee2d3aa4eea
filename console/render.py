"""How the command shows things: tables and trees for people, one JSON document for machines.

What is shown comes from clusters and files, so nothing in it is ever taken for markup or emoji codes, or acts on the
terminal. A line break is one of ours (`lines`) or is shown as an escape.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import IO, Any, TypeAlias

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from console.backfill import Tally, Workload
from console.explain import Explanation
from console.plan import Preview, SliceWrite
from console.status import Report, hint
from console.verdict import Ended
from console.waiting import Awaited
from eno.characters import visible
from eno.identity import ResourceId
from eno.times import format_time
from eno.wording import counted
from kube.cluster import Json

PIPE_WIDTH = 200
"""Columns when nobody looks at a terminal: a name that is folded there cannot be searched for."""


Cell: TypeAlias = str | Text
"""What stands in a table: one line, or `lines`."""


class _Terminal(Console):
    """A console that takes text as it is, and shows what cannot be read in it as escapes.

    Only strings come by here: a Text is to be made of `line` or `lines`.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """See Console: what it makes of each string, wherever in a table or a tree that stands."""
        return super().render_str(visible(text), **options)


class _Grid(Table):
    """A table whose edges, an empty line above and below, are for terminals: a pipe begins with its first line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.show_edge = console.is_terminal
        yield from super().__rich_console__(console, options)


class Output(StrEnum):
    """What `--output` takes."""

    TABLE = "table"
    JSON = "json"


def terminal(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (default: stdout) for text from anywhere."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return _Terminal(file=stream, width=width, highlight=False, markup=False, emoji=False)


def line(text: str, style: str = "") -> Text:
    """Text as it is, for what takes a string for markup or styles a part of a line."""
    return Text(visible(text), style=style)


def lines(texts: Iterable[str]) -> Text:
    """Each as a line of its own."""
    return Text("\n").join(map(line, texts))


def print_json(document: Json) -> None:
    """Exactly one JSON document on stdout, in ASCII: neither encodings nor terminals can do anything to it."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def grid(*headers: str, rows: Iterable[Iterable[Cell]], unfolded: Collection[str] = ()) -> Table:
    """A plain table; long cells are folded, never cut. Columns in `unfolded` are short and keep their width."""
    table = _Grid(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in unfolded)
    for row in rows:
        table.add_row(*row)
    return table


def facts(pairs: Iterable[tuple[str, Cell]]) -> Table:
    """Two columns: what, and its value."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, value)
    return table


def plan(preview: Preview) -> Tree:
    """The plan as a tree: each write with its tombstones, what is held, the decision at the end."""
    tree = Tree(f"{preview.composition}, synthesis {preview.synthesis_uuid or 'none'}", guide_style="dim")
    for write in preview.writes:
        _leaves(tree.add(write_title(write)), write.tombstones)
    if preview.held:
        _leaves(tree.add("hold, because something wanted lives in it"), preview.held)
    if preview.decision is not None:
        message = preview.decision.get("message", "")
        tree.add(f"publish {preview.decision['reason']}" + (f": {message}" if message else ""))
    if preview.note:
        tree.add(preview.note)
    return tree


def explanation(found: Explanation) -> list[Table | str]:
    """The composition, what is in the way, and its slices each with its fate."""
    rows: dict[str, Cell] = dict(found.facts)
    if found.obstacles:
        rows["in the way"] = lines(found.obstacles)
    if found.resynthesis:
        rows["resynthesis"] = found.resynthesis
    if found.leaderless:
        rows["watcher"] = found.leaderless
    rows |= {f"task {each.task.short}": each.text for each in found.tasks if each.text}
    shown: list[Table | str] = [facts(rows.items())]
    if found.slices:
        slices = ((each.name, ", ".join(each.referenced_by), each.verb, each.why) for each in found.slices)
        shown.append(grid("SLICE", "REFERENCED BY", "FATE", "WHY", rows=slices))
    return shown


def awaited(found: Awaited) -> Table:
    """What was waited for, now that it is there."""
    document = found.to_json()
    rows = [
        ("composition", found.title),
        ("synthesis", document["synthesis"] or "none"),
        ("decision", (document["reason"] or "none") + (f": {document['message']}" if document["message"] else "")),
        ("ready", "yes" if document["ready"] else "no"),
    ]
    return facts(rows)


def backfilled(work: Workload, tally: Tally, scope: str, *, dry_run: bool) -> list[Table | str]:
    """What a backfill did, or would do."""
    shown: list[Table | str] = []
    if dry_run and work.due:
        shown.append(grid("WOULD BE ENQUEUED", "TASK", rows=((each.title, work.task.short) for each in work.due)))
    looked_at = " and ".join(counted(number, noun) for noun, number in work.looked_at.items())
    shown.append(f"{work.task.short} is due for {len(work.due)} of {looked_at} in {scope}.")
    if not dry_run and work.due:
        counts = ", ".join(f"{number} {answer}" for answer, number in tally.answers.items())
        shown.append(f"{(counts or 'nothing enqueued')}.")
        left = len(work.due) - tally.asked
        shown += [f"{left} left: the same command goes on with them."] if left else []
    return shown + [f"Left alone: {finding}." for finding in work.findings]


def ending(ended: Ended) -> Group:
    """The demo's last table: what was buried, what it took, and what became of the composition."""
    burial, sequel = ended.burial, ended.sequel
    rows = (str(identity).split(" ", 1) for identity in burial.buried)
    counts = (
        f"{verb} {resource} {number}"
        for verb, numbers in burial.api_calls.items()
        for resource, number in numbers.items()
    )
    recorded = counted(len(sequel.inventory.entries()), "resource")
    summary: list[tuple[str, Cell]] = [
        ("buried", str(len(burial.buried))),
        *([("held", ", ".join(str(identity) for identity in burial.held))] if burial.held else []),
        ("kept", str(burial.kept)),
        ("decision", burial.decision["reason"]),
        ("API calls", lines(counts)),
        ("ready", format_time(sequel.ready)),
        ("recorded", f"{recorded} in {counted(len(sequel.inventory.chunks), 'Secret')}"),
        ("cleaned up", counted(len(sequel.cleaned_up), "slice")),
        ("left behind", "nothing"),
        ("time", f"{ended.seconds:.1f} s"),
    ]
    return Group(grid("BURIED", "NAME", rows=rows), facts(summary))


def write_title(write: SliceWrite) -> str:
    """One line: what is done to which slice, and how many tombstones it is about."""
    count = counted(len(write.tombstones), "tombstone")
    if write.operation == "append":
        return f"append {count} to slice {write.slice}"
    return f"create overflow slice {write.slice} with {count}"


def age(seconds: float) -> str:
    """A duration as kubectl shows one: `42s`, `5m`, `3h`, `8d`."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def status(report: Report, now: datetime) -> list[Table | str]:
    """The compositions as a table, then what the queues hold."""
    headers = ("COMPOSITION", "DECISION", "READY", "REQUIRED", "TASK", "AGE")
    cells = (
        (
            each.composition.title,
            each.decision,
            _said(each.ready),
            _said(each.required),
            lines(f"{task.short}: {word}" for task, word in each.tasks.items()),
            age(each.age(now)),
        )
        for each in report.rows
    )
    table = grid(*headers, rows=cells, unfolded=("READY", "REQUIRED", "TASK", "AGE"))
    shown: list[Table | str] = [table if report.rows else f"No compositions in {report.scope}."]
    shown += [f"{row.composition.title}: {hint(row.composition)}." for row in report.rows if hint(row.composition)]
    shown += [f"{report.leaderless}."] if report.leaderless else []
    if report.queues.unavailable is not None:
        return shown
    waiting = ", ".join(f"{length} {task.short}" for task, length in report.queues.lengths.items() if length)
    shown.append(f"Waiting in the queues: {waiting or 'nothing'}. Parked keys: {len(report.queues.parked)}.")
    if report.queues.parked:
        parked = (
            (
                key.context.get("composition", key.key),
                key.context.get("task", ""),
                key.message,
                age((now - key.since).total_seconds()),
            )
            for key in report.queues.parked
        )
        shown.append(grid("PARKED", "TASK", "WHY", "SINCE", rows=parked))
    return shown


def _said(value: bool | None) -> str:
    return "" if value is None else str(value).lower()


def _leaves(branch: Tree, identities: Iterable[ResourceId]) -> None:
    for identity in identities:
        branch.add(str(identity))
