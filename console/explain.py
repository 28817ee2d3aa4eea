"""Why a composition stands where it stands: what holds its readiness, and what would become of each of its slices.

The worker's own rules, asked on live reads and never acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from console.leading import leaderless
from console.status import decision, hint, keys_of, standing
from console.waiting import opt_in
from eno.errors import BrokerUnavailable, NotFound, Terminal
from eno.objects import Composition, ResourceSlice, Synthesis
from eno.readiness import Hole, obstacles, resynthesis
from eno.retention import Case, Fate, Keep, slice_fate
from eno.scope import Scope
from eno.times import format_time
from eno.wording import counted
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import RESOURCE_SLICES
from runtime.dispatch import Dispatcher, KeyState, ParkedKey
from runtime.messages import TaskName
from runtime.settings import Settings
from workers.context import Context
from workers.freshness import read
from workers.reading import read_states

SYNTHESIZE = "Eno has to synthesize again"


@dataclass(frozen=True, slots=True)
class SliceView:
    """A slice, which syntheses name it, and what a cleanup would do with it now. `fate` is None when it is missing."""

    name: str
    referenced_by: tuple[str, ...]
    fate: Fate | None

    @property
    def why(self) -> str:
        """The reason of its fate; of a missing one, what has to happen."""
        if self.fate is not None:
            return self.fate.reason
        if "current" in self.referenced_by:
            return SYNTHESIZE
        return "not written yet" if "in flight" in self.referenced_by else "nothing reads it any more"

    @property
    def verb(self) -> str:
        """`keep`, `release`, `delete` or `missing`."""
        return "missing" if self.fate is None else type(self.fate).__name__.lower()

    def to_json(self) -> Json:
        """For machines."""
        until = self.fate.until if isinstance(self.fate, Keep) else None
        return {
            "name": self.name,
            "referenced_by": list(self.referenced_by),
            "fate": self.verb,
            "reason": self.why,
            "until": format_time(until) if until else None,
        }


@dataclass(frozen=True, slots=True)
class TaskView:
    """What Redis knows of one of the composition's keys."""

    task: TaskName
    state: KeyState
    parked: ParkedKey | None = None

    @property
    def text(self) -> str:
        """How it stands, since how many failures, and when it is next; empty when there is nothing to tell."""
        if self.parked is not None:
            return f"parked: {self.parked.message}"
        parts = [word for word in (standing(self.state),) if word and word != "failing"]
        if self.state.failures:
            parts.append(f"failed {counted(self.state.failures, 'time')}")
        if self.state.not_before:
            parts.append(f"next at {format_time(self.state.not_before)}")
        # Redis keeps no reason of what may still succeed.
        return ", ".join(parts) + ("; the workers' log says why" if self.state.failures else "")

    def to_json(self) -> Json:
        """For machines."""
        return {
            "task": self.task.short,
            "pending": self.state.pending,
            "running": self.state.running,
            "not_before": format_time(self.state.not_before) if self.state.not_before else None,
            "attempts": self.state.attempts,
            "failures": self.state.failures,
            "parked": self.parked.message if self.parked else None,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `sexton explain` shows. `composition` is None when only its slices are left.

    `leaderless` says where no watcher leads.
    """

    title: str
    composition: Composition | None
    obstacles: tuple[str, ...] = ()
    resynthesis: str = ""
    slices: tuple[SliceView, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    unavailable: BrokerUnavailable | None = None
    leaderless: str = ""

    @property
    def current(self) -> Synthesis | None:
        """The current synthesis."""
        return self.composition.current if self.composition else None

    @property
    def facts(self) -> Mapping[str, str]:
        """The composition in words."""
        if self.composition is None:
            return {"composition": f"{self.title} does not exist"}
        current = self.current
        message = current.recovery.message if current and current.recovery else ""
        return {
            "composition": f"{self.title}{' (deleting)' if self.composition.deleting else ''}",
            "synthesis": (current.uuid if current else "") or "none",
            "decision": decision(self.composition) + (f": {message}" if message else ""),
            **({} if self.composition.opted_in else {"opted in": f"no; {opt_in(self.composition)}"}),
            **({"hint": hint(self.composition)} if hint(self.composition) else {}),
            "reconciled": _instant(current.reconciled if current else None),
            "ready": _instant(current.ready if current else None),
        }

    def to_json(self) -> Json:
        """For machines."""
        current = self.current
        return {
            "composition": self.title,
            "exists": self.composition is not None,
            "uid": self.composition.uid if self.composition else None,
            "synthesis": (current.uuid or None) if current else None,
            "opted_in": self.composition.opted_in if self.composition else None,
            "decision": decision(self.composition) if self.composition else None,
            "message": (current.recovery.message or None) if current and current.recovery else None,
            "hint": (hint(self.composition) or None) if self.composition else None,
            "reconciled": format_time(current.reconciled) if current and current.reconciled else None,
            "ready": format_time(current.ready) if current and current.ready else None,
            "obstacles": list(self.obstacles),
            "resynthesis": self.resynthesis or None,
            "slices": [each.to_json() for each in self.slices],
            "tasks": [each.to_json() for each in self.tasks],
            "leaderless": self.leaderless or None,
            "queues": {"reachable": self.unavailable is None},
        }


def explain(context: Context, dispatcher: Dispatcher, namespace: str, name: str) -> Explanation:
    """Explain a composition, or the slices that it left behind.

    Raises Terminal when there is neither, ApiError and MalformedObject when they cannot be read. An unreachable
    Redis is part of the explanation.
    """
    live = read(context.upstream, namespace, name)
    composition, now = live.composition if live else None, context.clock()
    slices = _slices(context, namespace, name, composition)
    title = f"{namespace}/{name}"
    if composition is None:
        if not slices:
            raise Terminal("does not exist", where=f"composition {title}", hint="check the namespace and the name")
        return Explanation(title, None, slices=slices)
    states = read_states(context.upstream, composition)
    tasks, unavailable = _tasks(dispatcher, composition)
    return Explanation(
        title,
        composition,
        tuple(_obstacles(composition, states)),
        _resynthesis(composition, states, now),
        slices,
        tasks,
        unavailable,
        leaderless(context.upstream, context.settings, now),
    )


def explain_with(settings: Settings, context: Context, namespace: str, name: str) -> Explanation:
    """The explanation, with a connection to the settings' Redis for as long as it takes."""
    with closing(Dispatcher.connect(settings)) as dispatcher:
        return explain(context, dispatcher, namespace, name)


def _slices(context: Context, namespace: str, name: str, composition: Composition | None) -> tuple[SliceView, ...]:
    """Every slice that the composition's syntheses name or that a composition of its name controls."""
    references: dict[str, list[str]] = {}
    syntheses = (
        {"current": composition.current, "previous": composition.previous, "in flight": composition.in_flight}
        if composition
        else {}
    )
    for label, synthesis in syntheses.items():
        for slice_name in synthesis.slice_names if synthesis else ():
            if slice_name is not None:
                references.setdefault(slice_name, []).append(label)
    for slice_name in _controlled(context.upstream, namespace, name):
        references.setdefault(slice_name, [])
    return tuple(
        SliceView(slice_name, tuple(dict.fromkeys(labels)), _fate(context, namespace, slice_name, composition))
        for slice_name, labels in references.items()
    )


def _controlled(cluster: Cluster, namespace: str, name: str) -> Iterable[str]:
    query = Query(RESOURCE_SLICES, namespace, metadata_only=True)
    for item in list_all(cluster, query).items:
        view = ResourceSlice.from_json(item)
        if view.owner is not None and view.owner.name == name:
            yield view.name


def _fate(context: Context, namespace: str, name: str, composition: Composition | None) -> Fate | None:
    try:
        found = ResourceSlice.from_json(context.upstream.get(RESOURCE_SLICES, namespace, name))
    except NotFound:
        return None
    settings = context.settings
    return slice_fate(
        Case(
            slice=found,
            composition=composition,
            now=context.clock(),
            scope=Scope(composition_namespace=namespace, label_selector=settings.composition_label_selector),
            infer_required=settings.infer_required,
        )
    )


def _obstacles(composition: Composition, states: Sequence[ResourceSlice | Hole]) -> Iterator[str]:
    """What is in the way, of Eno's making too."""
    current = composition.current
    unsynthesized = current is None or current.synthesized is None
    if unsynthesized and not composition.opted_in and not composition.deleting:
        yield "Eno has not synthesized it yet"
    named = zip(dict.fromkeys(current.slice_names if current else ()), states, strict=False)
    missing = (name for name, state in named if state is Hole.MISSING)
    for each in obstacles(composition, states):
        if each == Hole.MISSING:
            yield f"slice {next(missing)} is missing: {SYNTHESIZE}"
        else:
            yield f"{each}: {SYNTHESIZE}" if each == Hole.NAMELESS else each


def _resynthesis(composition: Composition, states: list[ResourceSlice | Hole], now: datetime) -> str:
    """Why a worker whose operator is enabled would ask for a resynthesis, empty when it would not."""
    wanted = resynthesis(composition, states, now, recovers=True)
    if wanted is None:
        return ""
    return wanted.why if wanted.at is None else f"{wanted.why}; asked for at {format_time(wanted.at)}"


def _tasks(dispatcher: Dispatcher, composition: Composition) -> tuple[tuple[TaskView, ...], BrokerUnavailable | None]:
    try:
        parked = {each.key: each for each in dispatcher.parked()}
        keys = keys_of(composition)
        states = dispatcher.describe_all(list(keys.values()))
        views = (TaskView(task, state, parked.get(keys[task])) for task, state in zip(keys, states, strict=True))
        return tuple(views), None
    except BrokerUnavailable as error:
        return (), error


def _instant(instant: datetime | None) -> str:
    return format_time(instant) if instant else "no"
