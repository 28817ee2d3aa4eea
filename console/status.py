"""Where every composition in scope stands: its decision, and what the queues hold for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime

from console.leading import leaderless
from eno.decision import Reason, finished
from eno.errors import BrokerUnavailable
from eno.objects import Composition
from eno.scope import Scope
from eno.times import format_time
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS
from runtime.dispatch import Dispatcher, KeyState, ParkedKey
from runtime.messages import CleanupMessage, GateMessage, RecordMessage, RecoverMessage, TaskName
from runtime.settings import Settings

_MESSAGES = (RecoverMessage, GateMessage, RecordMessage, CleanupMessage)

COMPOSITIONS_PER_LOOK = 250
"""Of how many Redis is asked in one round trip."""


@dataclass(frozen=True, slots=True)
class Row:
    """One composition. `decision` is its reason, or in words why there is none.

    `tasks` holds a word (`standing`) for each task of which Redis knows anything.
    """

    composition: Composition
    decision: str
    required: bool | None
    tasks: Mapping[TaskName, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether its current synthesis is."""
        current = self.composition.current
        return current is not None and current.ready is not None

    def age(self, now: datetime) -> float:
        """Seconds since the composition was created."""
        created = self.composition.created
        return (now - created).total_seconds() if created else 0.0

    def to_json(self, now: datetime) -> Json:
        """For machines."""
        current = self.composition.current
        return {
            "namespace": self.composition.namespace,
            "name": self.composition.name,
            "uid": self.composition.uid,
            "synthesis": (current.uuid or None) if current else None,
            "opted_in": self.composition.opted_in,
            "required": self.required,
            "decision": self.decision,
            "finished": current is not None and finished(current),
            "message": (current.recovery.message or None) if current and current.recovery else None,
            "hint": hint(self.composition) or None,
            "age_seconds": int(self.age(now)),
            "ready": self.ready,
            "tasks": {task.short: word for task, word in self.tasks.items()},
        }


@dataclass(frozen=True, slots=True)
class Queues:
    """What Redis holds: messages per task, and the parked keys. `unavailable` says why it is not known."""

    lengths: dict[TaskName, int]
    parked: Sequence[ParkedKey] = ()
    unavailable: BrokerUnavailable | None = None

    def to_json(self) -> Json:
        """For machines."""
        if self.unavailable is not None:
            return {"reachable": False, "error": str(self.unavailable)}
        return {
            "reachable": True,
            "waiting": {task.short: length for task, length in self.lengths.items()},
            "parked": [_parked_json(key) for key in self.parked],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What `sexton status` shows. `scope` says in words where it looked, `leaderless` where no watcher leads."""

    rows: Sequence[Row]
    queues: Queues
    scope: str = "all namespaces"
    leaderless: str = ""

    def to_json(self, now: datetime) -> Json:
        """For machines."""
        return {
            "compositions": [row.to_json(now) for row in self.rows],
            "queues": self.queues.to_json(),
            "leaderless": self.leaderless or None,
        }


def collect(cluster: Cluster, settings: Settings, now: datetime) -> Report:
    """The report for the settings' watch scope, ordered by namespace and name.

    Raises ApiError and MalformedObject when compositions cannot be read, UsageError when there is no scope. An
    unreachable Redis is part of the report.
    """
    scope = settings.scope
    compositions = read_compositions(cluster, scope)
    with closing(Dispatcher.connect(settings)) as dispatcher:
        try:
            tasks = _tasks(dispatcher, compositions)
            queues = Queues(dispatcher.lengths(), dispatcher.parked())
        except BrokerUnavailable as error:
            tasks, queues = {}, Queues({}, unavailable=error)
    return Report(tuple(rows(compositions, tasks)), queues, scope_title(scope), leaderless(cluster, settings, now))


def read_compositions(cluster: Cluster, scope: Scope) -> list[Composition]:
    """Every composition of the watch scope, the selector pushed to the server."""
    query = Query(COMPOSITIONS, scope.composition_namespace or None, label_selector=scope.label_selector)
    found = (Composition.from_json(item) for item in list_all(cluster, query).items)
    return sorted(found, key=lambda composition: (composition.namespace, composition.name))


def scope_title(scope: Scope) -> str:
    """The watch scope in words: `namespace apps`, `all namespaces with labels team=a`."""
    where = f"namespace {scope.composition_namespace}" if scope.composition_namespace else "all namespaces"
    return f"{where} with labels {scope.label_selector}" if scope.label_selector else where


def rows(compositions: Iterable[Composition], tasks: Mapping[str, Mapping[TaskName, str]]) -> Iterable[Row]:
    """One row each. `tasks` says by UID what Redis knows of the composition's tasks."""
    for each in compositions:
        required = each.current.recovery_required if each.current else None
        yield Row(each, decision(each), required, tasks.get(each.uid, {}))


def decision(composition: Composition) -> str:
    """The reason that stands for the current synthesis, or why none does."""
    current = composition.current
    if current is not None and finished(current) and current.recovery is not None:
        return current.recovery.reason
    if composition.deleting:
        return "deleting"
    if current is None or current.synthesized is None:
        return "not synthesized"
    if not composition.opted_in:
        return "not opted in"
    if current.recovery is not None and current.recovery.reason and current.recovery.synthesis_uuid == current.uuid:
        return f"{current.recovery.reason}, retrying"
    return "undecided"


def hint(composition: Composition) -> str:
    """What people should hear of a decision that stands, empty when there is nothing: see `workers.recovery`."""
    current = composition.current
    if current is None or not finished(current) or current.recovery is None:
        return ""
    silent = current.recovery_required is None and composition.previous is None
    if not silent or current.recovery.reason != Reason.NOT_NEEDED:
        return ""
    return (
        "its first synthesis does not say whether it lacks history: upgrade Eno, or set SEXTON_INFER_REQUIRED=true "
        "to treat such syntheses as lacking it"
    )


def keys_of(composition: Composition) -> dict[TaskName, str]:
    """What Redis knows each task of the composition's current synthesis by."""
    fields: Json = {
        "namespace": composition.namespace,
        "name": composition.name,
        "uid": composition.uid,
        "synthesis_uuid": composition.current.uuid if composition.current else "",
        "slices": (),
    }
    # Not validated: an odd UUID must not keep everything else from being shown.
    return {each.task: each.model_construct(**fields).key for each in _MESSAGES}


def standing(state: KeyState) -> str:
    """How a key stands, in one word; empty when nothing is known of it."""
    words = {
        "parked": state.parked,
        "running": state.running,
        "pending": state.pending,
        "failing": state.failures,
        "waiting": state.not_before,
    }
    return next((word for word, holds in words.items() if holds), "")


def _tasks(dispatcher: Dispatcher, compositions: Sequence[Composition]) -> dict[str, dict[TaskName, str]]:
    """How the tasks of each composition stand, by UID, where anything is known. Raises BrokerUnavailable."""
    found: dict[str, dict[TaskName, str]] = {}
    for start in range(0, len(compositions), COMPOSITIONS_PER_LOOK):
        keys = [
            (each.uid, task, key)
            for each in compositions[start : start + COMPOSITIONS_PER_LOOK]
            for task, key in keys_of(each).items()
        ]
        states = dispatcher.describe_all([key for _, _, key in keys])
        for (uid, task, _), state in zip(keys, states, strict=True):
            if word := standing(state):
                found.setdefault(uid, {})[task] = word
    return found


def _parked_json(key: ParkedKey) -> Json:
    return {
        "key": key.key,
        "reason": key.reason,
        "message": key.message,
        "since": format_time(key.since),
        "until": format_time(key.until) if key.until else None,
        "composition": key.context.get("composition"),
    }
