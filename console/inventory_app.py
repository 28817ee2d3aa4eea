"""`sexton inventory`: list, show and verify what is remembered downstream. Nothing is ever written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from console import clusters, render
from console.inventory import Remembered, Stored, Verification, list_remembered, only, verify, verify_all
from console.options import OutputOption, Target, settings
from console.plan import parse_target
from console.render import Output
from eno.errors import InvalidInventory, Terminal
from workers.context import Context
from workers.freshness import read

app = typer.Typer(
    name="inventory",
    help="What is remembered downstream, and whether a recovery could rely on it.",
    no_args_is_help=True,
)

SHORT_UUID = 8
"""Characters of a synthesis UUID in the table: enough to tell snapshots apart. JSON has all of it."""

RUNBOOK = "see docs/operations.md#sextoninventoryinvalid"

Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the compositions.", show_default="all")
]


@app.command("list")
def list_snapshots(context: typer.Context, namespace: Namespace = None, output: OutputOption = Output.TABLE) -> None:
    """Show every stored snapshot, and what else carries the label."""
    connected = _connected(context)
    found = list_remembered(connected.downstream, payloads=False)
    if namespace is not None:
        found = only(found, namespace)
    if output is Output.JSON:
        render.print_json(found.to_json())
        return
    _print(_listed(found, connected.clock()) or ["Nothing is stored."])


@app.command()
def show(context: typer.Context, composition: Target, output: OutputOption = Output.TABLE) -> None:
    """Show what the snapshots of a composition list, whether or not it exists."""
    target = parse_target(composition)
    everything = list_remembered(_connected(context).downstream, payloads=True)
    found = only(everything, target.namespace, target.name).snapshots
    if not found:
        raise Terminal("nothing is stored", where=f"inventory of {composition}", hint="see sexton inventory list")
    if output is Output.JSON:
        entries = [[json.loads(entry.encode()) for entry in each.entries()] for each in found]
        document = [{**each.to_json(), "entries": listed} for each, listed in zip(found, entries, strict=True)]
        render.print_json({"snapshots": document})
        return
    _print(part for each in found for part in _shown(each))


@app.command("verify")
def verify_inventory(
    context: typer.Context,
    composition: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE/NAME", help="The composition.", show_default="all in scope")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain what a recovery would choose today and why, and what is wrong with the rest.

    Fails unless every history can be relied on.
    """
    connected = _connected(context)
    found = verify_all(connected) if composition is None else [_verified(composition, connected)]
    if output is Output.JSON:
        render.print_json({"compositions": [each.to_json() for each in found]})
    else:
        blocks = [_explained(each) for each in found]
        _print([part for block in blocks for part in ("", *block)][1:] or ["No compositions in scope."])
    bad = [each for each in found if not each.ok]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        where = f"inventory of {bad[0].composition.title}"
        raise InvalidInventory(f"{bad[0].problem}{more}", where=where, hint=RUNBOOK)


def _verified(text: str, connected: Context) -> Verification:
    target = parse_target(text)
    live = read(connected.upstream, target.namespace, target.name)
    if live is None:
        hint = "sexton inventory show tells what is stored of it"
        raise Terminal("does not exist", where=f"composition {text}", hint=hint)
    return verify(live.composition, connected)


def _connected(context: typer.Context) -> Context:
    return clusters.context(settings(context))


def _print(parts: Iterable[Table | str]) -> None:
    console = render.terminal()
    for part in parts:
        console.print(part)


def _listed(found: Remembered, now: datetime) -> list[Table | str]:
    parts: list[Table | str] = []
    if found.snapshots:
        headers = ("COMPOSITION", "SYNTHESIZER", "SYNTHESIS", "AGE", "UNCLAIMED", "STATE")
        rows = (_row(each, now) for each in found.snapshots)
        parts.append(render.grid(*headers, rows=rows, unfolded=("SYNTHESIS", "AGE", "UNCLAIMED")))
    if found.unusable:
        defects = ((each.name, each.defect) for each in found.unusable)
        parts.append(render.grid("UNUSABLE SECRET", "DEFECT", rows=defects))
    parts += [f"Ignored, since it only carries the label: Secret {name}." for name in found.foreign]
    return parts


def _row(each: Stored, now: datetime) -> Sequence[str]:
    source, since = each.chunks[0].source, each.unclaimed_since
    unclaimed = render.age((now - since).total_seconds()) if since else ""
    age = render.age((now - source.synthesized).total_seconds())
    return (each.title, source.synthesizer, source.synthesis_uuid[:SHORT_UUID], age, unclaimed, each.state)


def _shown(each: Stored) -> list[Table | str]:
    entries = each.entries()
    facts: list[tuple[str, render.Cell]] = [
        ("composition", each.title),
        ("synthesis", each.chunks[0].source.synthesis_uuid),
        ("state", each.state),
        ("secrets", render.lines(chunk.name for chunk in each.chunks)),
        ("resources", str(len(entries))),
    ]
    rows = ((entry.id.kind, entry.id.namespace, entry.id.name, entry.api_version) for entry in entries)
    parts: list[Table | str] = [render.facts(facts)]
    if entries:
        parts.append(render.grid("KIND", "NAMESPACE", "NAME", "VERSION", rows=rows))
    return parts


def _explained(each: Verification) -> list[Table | str]:
    facts: list[tuple[str, render.Cell]] = [
        ("composition", each.composition.title),
        ("verdict", each.verdict),
        ("would choose", each.choice),
        *([("resources", str(each.entries))] if each.chosen else []),
        *([("missing", render.lines(map(str, each.missing[:20])))] if each.missing else []),
        *([("besides", render.lines(each.findings))] if each.findings else []),
    ]
    return [render.facts(facts)]
