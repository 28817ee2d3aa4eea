"""The story that the demo tells, act by act: what is played, what is waited for, and what is judged.

How the calls of one recovery are told apart from everything else that Sexton asks of the API servers: recover is
consumed by a worker process of its own. While a recovery is judged, the process that executes all other tasks is
not running, so whatever a worker asks up to the published decision belongs to that recovery. What follows it,
the Event and one more look at a changed object, is not part of it and must not write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from console import render
from console.audit import AuditTrail
from console.cast import KEEPER, NAMESPACE, RECOVERER, Cast, assemble
from console.clusters import USER_AGENT, utc_now
from console.narrator import Narrator
from console.plan import Preview, preview
from console.play import Play, tombstones
from console.stage import Child, Stage
from console.story import Manifest, Story, owned
from console.verdict import Burial, Ended, Sequel, call_objections, inventory_objections, minimum_calls, objections
from eno.decision import Reason
from eno.errors import Terminal
from eno.inventory.selection import Snapshot
from eno.wording import counted
from kube.cluster import Json
from runtime.dispatch import Dispatcher
from runtime.messages import TaskName, parse
from workers.context import Context

T = TypeVar("T")

NAME, SYNTHESIZER = "app", "app-synthesizer"
"""Of the composition."""

TITLE = f"{NAMESPACE}/{NAME}"

WORKER_AGENT = "sexton-worker/"
"""How the workers introduce themselves to an API server."""


def perform(stage: Stage, story: Story, narrator: Narrator, deadline: float) -> Ended:
    """Play the story to its end. `deadline` is in `time.monotonic()` seconds.

    Raises Terminal when anything but the expected happened, or not in time.
    """
    with narrator.waiting("starting Redis and two API servers"):
        cast = assemble(stage, deadline)
    narrator.tell("Redis, an upstream and a downstream API server are up")
    play = Play(cast.upstream.connect(), cast.downstream.connect(), NAMESPACE, NAME, SYNTHESIZER)
    with closing(Dispatcher.connect(cast.settings)) as dispatcher:
        return _Performance(cast, play, dispatcher, story, narrator, deadline).run()


@dataclass(frozen=True, slots=True)
class _Performance:
    """The acts in order."""

    cast: Cast
    play: Play
    dispatcher: Dispatcher
    story: Story
    narrator: Narrator
    deadline: float

    def run(self) -> Ended:
        keeper, first = self._history()
        self._loss()
        self._hold()
        burial = self._recovery(keeper)
        ready, second = self._carry_out(len(burial.buried))
        cleaned_up = self._clean_up()
        self._end()
        replaced = tuple(chunk.name for chunk in first.chunks)
        return Ended(burial, Sequel(ready, second, replaced, cleaned_up), self.narrator.seconds)

    def _history(self) -> tuple[tuple[Child, ...], Snapshot]:
        """A first life: undecided, it cannot be called ready; decided, it becomes so, and its inventory is recorded.

        At its end only the keeper runs.
        """
        self.play.create_namespace()
        keeper, watcher = self.cast.start_workers(KEEPER), self.cast.start_watcher()
        self.narrator.tell("The watcher started, and a worker for everything but recover")
        slices = self.play.create(self.story.history)
        manifests = counted(len(self.story.history), "manifest")
        self.narrator.tell(f"Eno synthesized {TITLE}: {manifests} in {counted(slices, 'slice')}")
        self.play.hurry()
        self._taken_back()
        self.narrator.tell("A hasty Eno reconciled it and called it ready; gate took that back")
        recoverer = self.cast.start_workers(RECOVERER)
        self._decided(Reason.INVENTORY_NOT_FOUND)
        self.narrator.tell(f"recover started and decided {Reason.INVENTORY_NOT_FOUND}: nothing is owed")
        self._ready()
        self.narrator.tell("gate said Ready")
        snapshot = self._recorded(self.story.history)
        self.narrator.tell(f"record stored its inventory downstream: {_size(snapshot)}")
        self.cast.stage.stop((*watcher, *recoverer))
        return keeper, snapshot

    def _loss(self) -> None:
        """What must not happen, while Sexton's watcher is not even running."""
        self.play.lose()
        self.narrator.tell("The watcher went down; composition and slices were force-deleted")
        self.play.create(self.story.kept)
        missing, made = len(self.story.discontinued), len(tombstones(self.play.slices()))
        self.narrator.tell(
            f"Recreated without {counted(missing, 'resource')}, it got {counted(made, 'tombstone')}: history is lost"
        )

    def _hold(self) -> None:
        """As long as nobody recovers, nobody gets to call it ready."""
        self.play.call_ready()
        self.cast.start_watcher()
        self.narrator.tell("The watcher is back, recover is not")
        self._taken_back()
        self._quiet(TaskName.GATE)
        self.narrator.tell("Somebody called it ready; gate took that back: nothing is decided yet")

    def _recovery(self, keeper: tuple[Child, ...]) -> Burial:
        """The judged recovery, with no other task executed before its decision. Starts the keeper again."""
        before = self.play.slices()
        planned = self._plan()
        self.cast.stage.stop(keeper)
        audit = AuditTrail.since_now(self.cast.upstream.audit_log, self.cast.downstream.audit_log)
        self.cast.start_workers(RECOVERER)
        decision = self._decision()
        self._quiet(TaskName.RECOVER)
        during, afterwards = audit.split("patch", "compositions/status")
        calls, later = during.calls(WORKER_AGENT), afterwards.calls(WORKER_AGENT)
        self.cast.start_workers(KEEPER)
        self.narrator.tell(f"recover is back and decided {decision['reason']}")
        after = self.play.slices()
        expected = minimum_calls(planned.writes, len(before))
        _judge(objections(self.story, planned, before, after, decision) + call_objections(expected, calls, later))
        self.narrator.tell("The cluster holds exactly what the plan said, in the fewest API calls")
        return Burial(tuple(tombstones(after)), planned.held, self.story.resources_kept, decision, calls)

    def _carry_out(self, buried: int) -> tuple[datetime, Snapshot]:
        """The decision alone opens no gate; Eno has to carry it out. What is ready is recorded anew."""
        self._quiet(TaskName.GATE)
        _judge(["it was called ready before its tombstones were carried out"] if self._is_called_ready() else [])
        self.narrator.tell(f"gate holds on: {counted(buried, 'tombstone')} still to be carried out")
        ready = self._ready()
        self.narrator.tell(f"Eno carried out {counted(buried, 'tombstone')}; gate said Ready")
        snapshot = self._recorded(self.story.kept)
        self.narrator.tell(f"record replaced the inventory: now {_size(snapshot)}")
        return ready, snapshot

    def _clean_up(self) -> tuple[str, ...]:
        """Two syntheses later nothing refers to the slices of the recovered one."""
        old = frozenset(each.name for each in self.play.slices())
        for _ in range(2):
            self.play.resynthesize(self.story.kept)
            self._decided(Reason.NOT_NEEDED)
            self._ready()
            self._recorded(self.story.kept)
        needed = self.play.referenced()
        with self.narrator.waiting("waiting for cleanup"):
            self._await("end of the cleanup", lambda: True if self.play.slice_names() <= needed else None)
        _judge(["a slice that is needed is gone"] if self.play.slice_names() != needed else [])
        _judge(["the slices of the recovered synthesis are still needed"] if old & needed else [])
        self.narrator.tell(f"Two syntheses later, cleanup deleted {counted(len(old), 'slice')} that nothing needs")
        return tuple(sorted(old))

    def _end(self) -> None:
        """Deleted in good order, the composition leaves nothing behind."""
        self.play.delete()
        self._await("deletion of the composition", lambda: self.play.go_on_deleting() or None)
        _judge(["its inventory outlived a clean deletion"] if self.play.inventory_names() else [])
        self._await("release of the last slices", lambda: None if self.play.slice_names() else True)
        _judge(["a composition is left"] if self.play.composition_names() else [])
        _judge([f"{each.key} is parked: {each.message}" for each in self.dispatcher.parked()])
        self.narrator.tell("Deleted in good order, it left nothing: no slice, no inventory")

    def _plan(self) -> Preview:
        upstream, downstream = (server.connect(USER_AGENT) for server in (self.cast.upstream, self.cast.downstream))
        planned = preview(Context(upstream, downstream, utc_now, self.cast.settings), NAMESPACE, NAME)
        if planned.cause is not None:
            raise planned.cause
        self.narrator.tell(f"sexton plan {TITLE}")
        self.narrator.show(render.plan(planned))
        return planned

    def _decision(self) -> Json:
        with self.narrator.waiting("waiting for recover"):
            return self._await("decision", self.play.decision)

    def _decided(self, expected: Reason) -> None:
        reason = self._decision()["reason"]
        _judge([f"the decision is {reason} and not {expected}"] if reason != expected else [])

    def _taken_back(self) -> None:
        """Gate undoes what somebody else has called ready."""
        with self.narrator.waiting("waiting for gate"):
            self._await("correction of the readiness", lambda: None if self._is_called_ready() else True)

    def _ready(self) -> datetime:
        """Eno reconciles the current synthesis, and gate finds it ready."""

        def look() -> datetime | None:
            current = self.play.read().current
            return current.ready if current and current.reconciled else None

        self.play.reconcile()
        with self.narrator.waiting("waiting for gate"):
            return self._await("readiness", look)

    def _recorded(self, manifests: tuple[Manifest, ...]) -> Snapshot:
        """The inventory of the current synthesis, the only one that is stored by then."""
        with self.narrator.waiting("waiting for record"):
            snapshot = self._await("inventory", self.play.inventory)
        _judge(inventory_objections(owned(manifests), snapshot))
        return snapshot

    def _is_called_ready(self) -> bool:
        current = self.play.read().current
        return current is not None and (current.ready is not None or current.reconciled is not None)

    def _quiet(self, task: TaskName) -> None:
        """Until no message of this task about the current synthesis waits or runs any more."""
        composition = self.play.read()
        uuid = composition.current.uuid if composition.current else ""
        payload = {"namespace": NAMESPACE, "name": NAME, "uid": composition.uid, "synthesis_uuid": uuid}
        key = parse(task, payload).key

        def look() -> bool | None:
            state = self.dispatcher.describe(key)
            return None if state.pending or state.running else True

        self._await(f"end of {task}", look)

    def _await(self, what: str, look: Callable[[], T | None]) -> T:
        return self.cast.stage.wait_for(what, look, deadline=self.deadline)


def _judge(found: list[str]) -> None:
    """Raises Terminal when there is anything to object to."""
    if found:
        raise Terminal("; ".join(found), where="demo")


def _size(snapshot: Snapshot) -> str:
    return f"{counted(len(snapshot.entries()), 'resource')} in {counted(len(snapshot.chunks), 'Secret')}"
