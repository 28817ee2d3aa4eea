"""What the watcher would ask for, derived by its own rules from complete lists instead of from streams.

Whoever enqueues by hand says no more than this: which object, and which task. What the task then does follows from
the live object (P8), and whether it does anything at all from the settings of the worker, so a message by hand
carries no scope of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from eno.errors import UsageError
from eno.scope import Scope
from kube.cluster import list_all
from runtime.messages import Message, TaskName
from runtime.settings import Settings
from watcher import derive
from watcher.cache import Cache
from watcher.derive import Derived, Rule
from watcher.keys import Key, Kind
from watcher.process import queries
from watcher.records import Record, Subject, Unreadable, read
from workers.context import Context

RECOVERY_TASKS = frozenset({TaskName.RECOVER, TaskName.RECORD, TaskName.RETIRE})
"""Those that act in the recovery namespace only."""

_RULES: Mapping[TaskName, Rule] = {
    TaskName.RECOVER: derive.recover,
    TaskName.GATE: derive.gate,
    TaskName.RECORD: derive.record,
    TaskName.CLEANUP: derive.cleanup,
    TaskName.RETIRE: derive.retire,
}

_LISTED: Mapping[TaskName, frozenset[Kind]] = {
    TaskName.RECOVER: frozenset({Kind.COMPOSITION}),
    TaskName.GATE: frozenset({Kind.COMPOSITION, Kind.SLICE}),
    TaskName.RECORD: frozenset({Kind.COMPOSITION, Kind.INVENTORY}),
    TaskName.CLEANUP: frozenset({Kind.COMPOSITION, Kind.SLICE}),
    TaskName.RETIRE: frozenset({Kind.COMPOSITION, Kind.INVENTORY}),
}
"""What has to be known before a task's rule can be asked."""


@dataclass(frozen=True, slots=True)
class Due:
    """A task that a state calls for. `title` says for people what it is about."""

    title: str
    message: Message


class Derivation:
    """One task's rule, and the records that it is asked about. `findings` are for people: what is left alone."""

    def __init__(self, task: TaskName, scope: Scope, now: datetime) -> None:
        self.findings: list[str] = []
        self._task = task
        self._rule = _RULES[task]
        self._scope = scope
        self._now = now
        self._cache = Cache()
        self._looks: set[Key] = set()

    def take(self, kind: Kind, records: Iterable[Record | Unreadable]) -> None:
        """Take over a complete list of a kind. What cannot be read becomes a finding."""
        found = list(records)
        self.findings += [each.reason for each in found if isinstance(each, Unreadable)]
        self._looks |= self._cache.replace(kind, [each for each in found if not isinstance(each, Unreadable)])

    @property
    def keys(self) -> list[Key]:
        """Everything that a watcher would look at, in order."""
        return sorted(self._looks)

    @property
    def looked_at(self) -> Counter[str]:
        """How much the task could be about in this scope, by noun: nothing of other namespaces."""
        found = Counter({"lineage" if self._task is TaskName.RETIRE else "composition": 0})
        found.update(noun for key in self.keys if (noun := self._noun(key)))
        return found

    def _noun(self, key: Key) -> str:
        """What a key is to the task; empty when it is nothing, or counts by another key already."""
        if (key.kind is Kind.LINEAGE) is not (self._task is TaskName.RETIRE):
            return ""
        if key.kind is not Kind.LINEAGE:
            return "composition" if key.kind is Kind.COMPOSITION else "unowned slice"
        found = self.subject(key).lineage
        stored = found.inventories if found and not key.name else ()
        return "lineage" if any(each.holding.namespace == self._scope.recovery_namespace for each in stored) else ""

    def subject(self, key: Key) -> Subject:
        """What the rule sees of a key."""
        return self._cache.subject(key)

    def of(self, key: Key) -> Derived:
        """What the state of one key calls for, in messages that carry no scope."""
        derived = self._rule(self.subject(key), self._now, self._scope)
        return replace(derived, tasks=tuple(each.model_copy(update={"scope": None}) for each in derived.tasks))

    def due(self) -> Iterator[Due]:
        """What the state of all keys calls for. What no message can carry becomes a finding."""
        for key in self.keys:
            try:
                derived = self.of(key)
            except UsageError as error:
                self.findings.append(str(error))
                continue
            self.findings += derived.findings
            yield from (Due(title(message), message) for message in derived.tasks)


def look(context: Context, task: TaskName, scope: Scope) -> Derivation:
    """The task's rule on what the API servers hold now.

    Raises ApiError when a list is not complete: what was not read must not look as if nothing were due (P9).
    """
    found = Derivation(task, scope, context.clock())
    for kind, query in queries(scope).items():
        if kind in _LISTED[task]:
            cluster = context.downstream if kind is Kind.INVENTORY else context.upstream
            found.take(kind, (read(kind, item, scope) for item in list_all(cluster, query).items))
    return found


def by_hand(settings: Settings, task: TaskName, namespace: str = "") -> Scope:
    """The scope that a person asks in, whose settings need not be those of the processes.

    What the settings name is a limit. What they leave open is filled with `namespace`, and recovery counts as
    enabled: only the worker knows whether it is. Raises UsageError when a namespace is needed and nothing names one.
    """
    if namespace and not (settings.all_namespaces or settings.composition_namespace or settings.pod_namespace):
        settings = settings.model_copy(update={"composition_namespace": namespace})
    scope = settings.scope
    recovery = scope.recovery_namespace or scope.composition_namespace or namespace
    if task in RECOVERY_TASKS and not recovery:
        raise UsageError(
            f"{task.short} acts in one namespace only",
            where="settings",
            hint="name it with --namespace, or set POD_NAMESPACE to that of the workers",
        )
    return scope.model_copy(update={"recovery_enabled": True, "recovery_namespace": recovery})


def title(message: Message) -> str:
    """What a message is about: a composition, a lineage, or slices that nobody controls."""
    fields = message.log_context()
    if "lineage" in fields:
        return f"lineage {fields['lineage']}"
    about = fields["composition"]
    return f"{about}(no owner)" if about.endswith("/") else about
