"""`python -m bench`: measure, print the tables, and write JSON, pictures and the documentation where asked to."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console

from bench import document, plots, table
from bench.figures import Section
from bench.machine import Machine
from eno.errors import SextonError

SECTIONS: Mapping[str, str] = {
    "decision": "bench.decision",
    "calls": "bench.calls",
    "throughput": "bench.throughput",
    "latency": "bench.latency",
    "watcher": "bench.watching",
    "profile": "bench.profiling",
}
"""The parts, and the modules whose `run(quick=...)` measures them."""

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when everything was measured, whether or not the aims are met."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    machine = Machine.look(quick=options.quick)
    console.print(machine.sentence(), "\n", soft_wrap=True)
    sections = []
    try:
        for name in options.only or SECTIONS:
            with console.status(f"measuring: {name}"):
                section = import_module(SECTIONS[name]).run(quick=options.quick)
            console.print(table.terminal(section), "")
            sections.append(section)
    except SextonError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    _write(options, machine, sections)
    return 0


def _write(options: argparse.Namespace, machine: Machine, sections: Sequence[Section]) -> None:
    if options.json:
        body = {"machine": machine.to_json(), "sections": [section.to_json() for section in sections]}
        options.json.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    if directory := IMAGES if options.docs else options.plots:
        directory.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for curve in section.curves:
                plots.draw(curve, directory)
    if options.docs:
        document.update(DOCUMENT, machine, sections)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, rougher figures, not quite two minutes")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="one part; repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures for machines")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="the curves as PNG")
    parser.add_argument("--docs", action="store_true", help=f"rewrite {DOCUMENT.relative_to(ROOT)} and its pictures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
