"""One task for one composition, asked for by a person: the message that the watcher would have sent, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import assert_never

from console.derivation import RECOVERY_TASKS, Derivation, by_hand, look
from console.plan import Target, settled
from eno.decision import nothing_to_record
from eno.errors import Retryable, SextonError, Terminal, UsageError
from eno.inventory.secrets import lineage
from eno.objects import Composition
from eno.scope import Scope
from eno.times import format_time
from kube.cluster import Json
from runtime.dispatch import Dispatched, Dispatcher, Enqueued, NotBefore, Parked, Pending, Running
from runtime.messages import Message, TaskName, parse
from watcher.derive import SLICES_PER_MESSAGE, Derived
from watcher.keys import Key, Kind, lineage_key
from watcher.records import Subject
from workers.context import Context
from workers.freshness import read

FORCE_HINT = "--force asks for it all the same; whatever is not due ends unchanged"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for. `synthesis` is a condition: the UUID that has to be the current one, empty for any."""

    task: TaskName
    target: Target
    synthesis: str = ""
    force: bool = False

    @property
    def title(self) -> str:
        """`recover of apps/shop`."""
        return f"{self.task.short} of {self.target.namespace}/{self.target.name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one message. `why` holds the reason of a parked key."""

    wish: Wish
    message: Message
    dispatched: Dispatched
    why: str = ""

    @property
    def word(self) -> str:
        """`enqueued`, `pending`, `running`, `not before` or `parked`."""
        return word(self.dispatched)

    @property
    def until(self) -> datetime | None:
        """When the key is looked at again by itself."""
        match self.dispatched:
            case NotBefore(at) | Parked(at):
                return at
        return None

    @property
    def line(self) -> str:
        """For people."""
        fields = self.message.log_context()
        synthesis = fields.get("synthesis")
        about = self.wish.title + (f", synthesis {synthesis}" if synthesis else "")
        match self.dispatched:
            case Enqueued():
                return f"enqueued: {about}"
            case Pending():
                return f"already pending: {about}"
            case Running():
                return f"running, and looked at once more after that: {about}"
            case NotBefore(at):
                return f"not before {format_time(at)}: {about}"
            case Parked(until):
                return f"parked, looked at again at {format_time(until)}: {about}"
        assert_never(self.dispatched)

    @property
    def error(self) -> SextonError | None:
        """Why nothing waits in the queue now, or None when something does."""
        force = "--force asks for it now"
        match self.dispatched:
            case NotBefore(at):
                return Retryable(
                    "it failed or waits", where=self.wish.title, hint=f"{force}, {format_time(at)} is next"
                )
            case Parked():
                return Terminal(f"it is parked: {self.why or 'unknown'}", where=self.wish.title, hint=force)
        return None

    def to_json(self) -> Json:
        """For machines."""
        return {
            "task": self.wish.task.short,
            "composition": f"{self.wish.target.namespace}/{self.wish.target.name}",
            "answer": self.word.replace(" ", "-"),
            "until": format_time(self.until) if self.until else None,
            "why": self.why or None,
            "message": self.message.payload(),
        }


def word(dispatched: Dispatched) -> str:
    """What became of a message, in one or two words."""
    match dispatched:
        case Enqueued():
            return "enqueued"
        case Pending():
            return "pending"
        case Running():
            return "running"
        case NotBefore():
            return "not before"
        case Parked():
            return "parked"
    assert_never(dispatched)


def enqueue(dispatcher: Dispatcher, wish: Wish, messages: Sequence[Message]) -> list[Answer]:
    """Send each message unless its key is pending or held back; with force, whatever held it back is dropped.

    Raises BrokerUnavailable.
    """
    answers = []
    for message in messages:
        if wish.force:
            dispatcher.forget(message.key)
        dispatched = dispatcher.enqueue(message)
        reasons = {each.key: each.message for each in dispatcher.parked()} if isinstance(dispatched, Parked) else {}
        answers.append(Answer(wish, message, dispatched, reasons.get(message.key, "")))
    return answers


def messages(context: Context, wish: Wish) -> list[Message]:
    """What the live state calls for; with force, also what it does not.

    Raises Terminal when it calls for nothing, when there is no such composition or when it is out of scope, ApiError
    and MalformedObject when that cannot be told.
    """
    target, task = wish.target, wish.task
    scope = by_hand(context.settings, task, target.namespace)
    live = read(context.upstream, target.namespace, target.name)
    composition = live.composition if live else None
    _check(wish, composition, scope)
    narrow = scope.model_copy(update={"composition_namespace": target.namespace})
    found = look(context, task, narrow)
    keys = _lineages(found, target, composition) if task is TaskName.RETIRE else [_key(target)]
    derived = [found.of(key) for key in keys]
    due = [message for each in derived for message in each.tasks]
    if not due and wish.force:
        due = list(_useless(wish, found, keys, composition))
    if not due:
        raise _refusal(wish, composition, derived)
    return due


def _check(wish: Wish, composition: Composition | None, scope: Scope) -> None:
    """Raises Terminal when nothing could come of it, whatever the state calls for."""
    target = wish.target
    if scope.composition_namespace not in ("", target.namespace):
        why = f"namespace {target.namespace} is outside {scope.composition_namespace}"
        raise Terminal(why, where=wish.title, hint="the settings of this command say so")
    if wish.task in RECOVERY_TASKS and target.namespace != scope.recovery_namespace:
        why = f"namespace {target.namespace} is outside the recovery namespace {scope.recovery_namespace}"
        raise Terminal(why, where=wish.title, hint="POD_NAMESPACE says so")
    if composition is None:
        if wish.task in (TaskName.CLEANUP, TaskName.RETIRE) and not wish.synthesis:
            return
        title = f"composition {target.namespace}/{target.name}"
        raise Terminal("does not exist", where=title, hint="check the namespace and the name")
    outside = scope.outside_watch(composition)
    if outside:
        raise Terminal(outside, where=wish.title, hint="the settings of this command say so")
    current = composition.current.uuid if composition.current else ""
    if wish.synthesis and wish.synthesis != current:
        why = f"synthesis {wish.synthesis} is not the current one"
        raise Terminal(why, where=wish.title, hint=f"that is {current or 'none'}; a worker would find it superseded")


def _key(target: Target) -> Key:
    return Key(Kind.COMPOSITION, target.namespace, target.name)


def _lineages(found: Derivation, target: Target, composition: Composition | None) -> list[Key]:
    """The lineage of the composition, and those that still hold inventories of its name."""
    ids = {lineage(target.namespace, composition.synthesizer)} if composition else set()
    for key in found.keys:
        if key.kind is Kind.LINEAGE and (group := found.subject(key).lineage) is not None:
            named = {each.refers_to[1].name for each in group.inventories}
            ids |= {group.id} if target.name in named else set()
    return [lineage_key(each) for each in sorted(ids)]


def _useless(wish: Wish, found: Derivation, keys: Sequence[Key], composition: Composition | None) -> Iterator[Message]:
    """Messages for what no rule calls for: a worker looks, and finds nothing to do. Raises InvalidMessage."""
    target = wish.target
    names = {"namespace": target.namespace, "name": target.name}
    uuid = composition.current.uuid if composition and composition.current else ""
    match wish.task:
        case TaskName.RETIRE:
            for key in keys:
                yield parse(wish.task, {"namespace": target.namespace, "lineage": key.namespace})
        case TaskName.CLEANUP:
            for uid, slices in _owned(found.subject(_key(target)), target):
                yield parse(wish.task, {**names, "uid": uid, "synthesis_uuid": uuid, "slices": slices})
        case _ if composition is not None:
            yield parse(wish.task, {**names, "uid": composition.uid, "synthesis_uuid": uuid})


def _owned(subject: Subject, target: Target) -> Iterator[tuple[str, list[str]]]:
    """The slices that compositions of this name control, by UID."""
    own = sorted((each for each in subject.slices if each.owner_name == target.name), key=attrgetter("owner_uid"))
    for uid, group in groupby(own, attrgetter("owner_uid")):
        yield uid, [each.key.name for each in group][:SLICES_PER_MESSAGE]


def _refusal(wish: Wish, composition: Composition | None, derived: Sequence[Derived]) -> Terminal:
    findings = [finding for each in derived for finding in each.findings]
    if findings:
        return Terminal(findings[0], where=wish.title)
    instants = [each.look_again for each in derived if each.look_again is not None]
    hint = "there is nothing that a message could name" if wish.force else FORCE_HINT
    later = f" before {format_time(min(instants))}" if instants else ""
    return Terminal(f"nothing calls for it{later}: {_why(wish, composition)}", where=wish.title, hint=hint)


def _why(wish: Wish, composition: Composition | None) -> str:
    match wish.task:
        case TaskName.RECOVER if composition is not None:
            return settled(composition) or "no decision is due"
        case TaskName.RECORD if composition is not None:
            return nothing_to_record(composition) or "recorded already"
        case TaskName.GATE:
            return "its readiness is neither held nor unsettled"
        case TaskName.CLEANUP:
            return "no slice may go"
        case _:
            return "no inventory is to be marked, unmarked or let go"


def require_task(task: TaskName, synthesis: str) -> None:
    """Raises UsageError when the task does not take a synthesis."""
    if synthesis and task is TaskName.RETIRE:
        raise UsageError("retire is about inventories of any synthesis", hint="leave --synthesis out")
