"""How the command shows things: tables and trees for people, one JSON document for machines.

What is shown comes from clusters and files, so nothing in it is ever taken for markup or emoji codes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import IO

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.tree import Tree

from console.backfill import Tally, Workload
from console.explain import Explanation
from console.plan import Preview, SliceWrite
from console.status import Report, Row, hint
from console.verdict import Ended
from console.waiting import Awaited
from eno.identity import ResourceId
from eno.times import format_time
from eno.wording import counted
from kube.cluster import Json

PIPE_WIDTH = 200
"""Columns when nobody looks at a terminal: a name that is folded there cannot be searched for."""


class Output(StrEnum):
    """What `--output` takes."""

    TABLE = "table"
    JSON = "json"


def terminal(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (default: stdout) that takes text as it is."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_json(document: Json) -> None:
    """Exactly one JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def grid(*headers: str, rows: Iterable[Iterable[str]], unfolded: Collection[str] = ()) -> Table:
    """A plain table; long cells are folded, never cut. Columns in `unfolded` are short and keep their width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in unfolded)
    for row in rows:
        table.add_row(*row)
    return table


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
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
    rows = dict(found.facts)
    if found.obstacles:
        rows["in the way"] = "\n".join(found.obstacles)
    if found.resynthesis:
        rows["resynthesis"] = found.resynthesis
    rows |= {f"task {each.task.short}": each.text for each in found.tasks if each.text}
    shown: list[Table | str] = [facts(rows.items())]
    if found.slices:
        slices = (
            (each.name, ", ".join(each.referenced_by), each.verb, each.fate.reason if each.fate else "")
            for each in found.slices
        )
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
    shown.append(f"{work.task.short} is due for {len(work.due)} of {work.looked_at} in {scope}.")
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
    summary = [
        ("buried", str(len(burial.buried))),
        *([("held", ", ".join(str(identity) for identity in burial.held))] if burial.held else []),
        ("kept", str(burial.kept)),
        ("decision", burial.decision["reason"]),
        ("API calls", "\n".join(counts)),
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
    headers = ("COMPOSITION", "DECISION", "REQUIRED", "TASK", "AGE")
    cells = ((row.composition.title, row.decision, _required(row), row.task, age(row.age(now))) for row in report.rows)
    shown: list[Table | str] = [grid(*headers, rows=cells) if report.rows else f"No compositions in {report.scope}."]
    shown += [f"{row.composition.title}: {hint(row.composition)}." for row in report.rows if hint(row.composition)]
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


def _required(row: Row) -> str:
    return "" if row.required is None else str(row.required).lower()


def _leaves(branch: Tree, identities: Iterable[ResourceId]) -> None:
    for identity in identities:
        branch.add(str(identity))
