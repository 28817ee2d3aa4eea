"""The main job, played for real: a composition loses its history, and Sexton buries what it owes.

Everything that Sexton does happens in its own processes. The demo only plays the others (`console.play`), looks
on, and judges the end (`console.verdict`).
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from console import render
from console.audit import AuditTrail
from console.cast import NAMESPACE, WORKERS, Cast, assemble, require_devcluster
from console.clusters import USER_AGENT, utc_now
from console.narrator import Narrator
from console.plan import Preview, preview
from console.play import Play, tombstones
from console.render import Output, counted
from console.stage import Stage
from console.status import recovery_key
from console.story import Story
from console.verdict import Burial, objections
from eno.decision import Reason
from eno.errors import SextonError, Terminal
from kube.cluster import Json
from runtime.dispatch import Dispatcher
from runtime.redis_server import find_program
from workers.context import Context

DEFAULT_TIMEOUT = 180.0
"""Seconds."""

NAME, SYNTHESIZER = "app", "app-synthesizer"
"""Of the composition."""

WORKER_AGENT = "sexton-worker/"
"""How the workers introduce themselves to an API server."""


def run_demo(story: Story, *, timeout: float, output: Output) -> None:
    """Play the story and show how it ended; on stdout, the JSON document alone.

    Raises UsageError when something that it needs is not installed, Terminal when anything but the expected happened.
    """
    find_program()
    require_devcluster()
    narrator = Narrator(render.terminal(sys.stdout if output is Output.TABLE else sys.stderr))
    with _orderly_termination(), Stage() as stage:
        try:
            burial = _Performance(stage, story, narrator, time.monotonic() + timeout).run()
        except SextonError:
            _show_logs(stage)
            stage.check(grace=1.0)
            raise
    if output is Output.JSON:
        render.print_json(burial.to_json())
    else:
        render.terminal().print(render.burial(burial))


@dataclass(frozen=True, slots=True)
class _Performance:
    """The acts in order. `deadline` is in `time.monotonic()` seconds."""

    stage: Stage
    story: Story
    narrator: Narrator
    deadline: float

    def run(self) -> Burial:
        with self.narrator.waiting("starting Redis and two API servers"):
            cast = assemble(self.stage, self.deadline)
        self.narrator.tell("Redis, an upstream and a downstream API server are up")
        play = Play(cast.upstream.connect(), cast.downstream.connect(), NAMESPACE, NAME, SYNTHESIZER)
        self._history(cast, play)
        self._loss(play)
        return self._recovery(cast, play)

    def _history(self, cast: Cast, play: Play) -> None:
        """A first life, at the end of which the inventory is recorded and the watcher is gone."""
        play.create_namespace()
        cast.start_workers()
        watcher = cast.start_watcher()
        self.narrator.tell(f"{len(WORKERS)} workers and the watcher started")
        slices = play.create(self.story.history)
        manifests = counted(len(self.story.history), "manifest")
        self.narrator.tell(f"Eno synthesized {NAMESPACE}/{NAME}: {manifests} in {counted(slices, 'slice')}")
        decision = self._decision(play)
        if decision["reason"] != Reason.INVENTORY_NOT_FOUND:
            raise Terminal(f"the first synthesis was decided {decision['reason']}", where="demo")
        self.narrator.tell(f"Sexton decided {decision['reason']}: there is no history yet, nothing is owed")
        play.become_ready()
        secrets = play.record()
        self.narrator.tell(
            f"Eno reports it ready; its inventory is recorded downstream in {counted(secrets, 'Secret')}"
        )
        self.stage.stop(watcher)

    def _loss(self, play: Play) -> None:
        """What must not happen, while Sexton's watcher is not even running."""
        play.lose()
        self.narrator.tell("While the watcher was down, the composition and its slices were force-deleted")
        play.create(self.story.kept)
        missing = len(self.story.discontinued)
        self.narrator.tell(
            f"It was recreated without {counted(missing, 'resource')}, and Eno, its history lost, "
            f"made {counted(len(tombstones(play.slices())), 'tombstone')}"
        )

    def _recovery(self, cast: Cast, play: Play) -> Burial:
        before = play.slices()
        planned = self._plan(cast)
        audit = AuditTrail.since_now(cast.upstream.audit_log, cast.downstream.audit_log)
        cast.start_watcher()
        decision = self._decision(play)
        self.narrator.tell(f"The watcher is back; a worker decided {decision['reason']}")
        self._quiet(cast, play)
        after = play.slices()
        found = objections(self.story, planned, before, after, decision)
        if found:
            raise Terminal("; ".join(found), where="demo")
        self.narrator.tell("The cluster holds exactly what the plan said")
        buried = tuple(tombstones(after))
        calls = audit.calls(WORKER_AGENT)
        return Burial(buried, planned.held, len(self.story.kept), decision, calls, self.narrator.seconds)

    def _quiet(self, cast: Cast, play: Play) -> None:
        """Until nothing of this composition waits or runs any more, so that every call has been counted."""
        composition = play.read()

        def look() -> bool | None:
            state = dispatcher.describe(recovery_key(composition))
            return None if state.pending or state.running else True

        with closing(Dispatcher.connect(cast.settings)) as dispatcher:
            self.stage.wait_for("quiet queue", look, deadline=self.deadline)

    def _plan(self, cast: Cast) -> Preview:
        upstream, downstream = (server.connect(USER_AGENT) for server in (cast.upstream, cast.downstream))
        planned = preview(Context(upstream, downstream, utc_now, cast.settings), NAMESPACE, NAME)
        if planned.cause is not None:
            raise planned.cause
        self.narrator.tell(f"sexton plan {NAMESPACE}/{NAME}")
        self.narrator.show(render.plan(planned))
        return planned

    def _decision(self, play: Play) -> Json:
        with self.narrator.waiting("waiting for Sexton's decision"):
            return self.stage.wait_for("decision", play.decision, deadline=self.deadline)


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, so that everything is cleaned up."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_logs(stage: Stage) -> None:
    """The last words of whoever ended unasked, else of everybody, on stderr."""
    ended = [child for child in stage.children if not child.running]
    for child in ended or stage.children:
        sys.stderr.write(f"--- last lines of {child.name}\n{child.tail()}\n")
