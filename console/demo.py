"""The main job, played for real: a composition loses its history, and Sexton buries what it owes.

Everything that Sexton does happens in its own processes. The demo only plays the others (`console.play`), looks
on (`console.performance`), and judges what it sees (`console.verdict`).
"""

from __future__ import annotations

import sys
import time

from console import render
from console.cast import require_devcluster
from console.interrupts import orderly_termination
from console.narrator import Narrator
from console.performance import perform
from console.render import Output
from console.stage import Stage
from console.story import Story
from eno.errors import SextonError
from runtime.redis_server import find_program

DEFAULT_TIMEOUT = 180.0
"""Seconds."""


def run_demo(story: Story, *, timeout: float, output: Output) -> None:
    """Play the story and show how it ended; on stdout, the JSON document alone.

    Raises UsageError when something that it needs is not installed, Terminal when anything but the expected happened.
    """
    find_program()
    require_devcluster()
    narrator = Narrator(render.terminal(sys.stdout if output is Output.TABLE else sys.stderr))
    with orderly_termination(), Stage() as stage:
        try:
            ended = perform(stage, story, narrator, time.monotonic() + timeout)
        except SextonError:
            _show_logs(stage)
            stage.check(grace=1.0)
            raise
    if output is Output.JSON:
        render.print_json(ended.to_json())
    else:
        render.terminal().print(render.ending(ended))


def _show_logs(stage: Stage) -> None:
    """The last words of whoever ended unasked, else of everybody, on stderr."""
    ended = [child for child in stage.children if not child.running]
    for child in ended or stage.children:
        sys.stderr.write(f"--- last lines of {child.name}\n{child.tail()}\n")
