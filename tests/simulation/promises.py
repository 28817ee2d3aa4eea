"""The promises, as functions. Each takes one write, or the end of a run, and says how it is broken.

They share no rule with the product: what it means to be wanted, finished, complete or claimed is said here once
more, from the specification, so that a rule that went wrong cannot excuse itself. They know views of objects, and
nothing of simulators: a write can as well come from an audit log.

Some things are not promised, since a write can slip in between a fresh read and the write that follows it. Where
that matters, a promise is broken only by what was so when the task began and still is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from eno.errors import NotFound
from eno.identity import ResourceId, parse_head
from eno.inventory.secrets import LINEAGE_KEY, lineage
from eno.objects import (
    CLEANUP_FINALIZER,
    DELETION_STRATEGY_ANNOTATION,
    FORCE_RESYNTHESIS_ANNOTATION,
    IGNORE_SIDE_EFFECTS_ANNOTATION,
    OVERFLOW_LABEL,
    SYMPHONY_DELETING_LABEL,
    Composition,
    ResourceSlice,
    Synthesis,
)
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.scope import Aggregation
from eno.times import parse_time
from kube.cluster import Json, Page
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from runtime.messages import Message, TaskName
from runtime.settings import Settings
from tests.simulation.state import State
from tests.simulation.wire import Call

NOTES = "eno.azure.io/inventory-"
SKIPPED = ("TombstoneRecoveryOperatorNotEnabled", "OutsideRecoveryNamespace")
TERMINAL = ("NotNeeded", "FinishedTombstoneRecovery", "InventoryNotFound", "InventoryInvalid", *SKIPPED)
SKEW = timedelta(minutes=10)
FUTURE = timedelta(minutes=5)
YOUNG = timedelta(seconds=5)


class Broken(AssertionError):
    """Raised when a promise is broken."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise


@dataclass(frozen=True, slots=True)
class Write:
    """One write of Sexton, and everything that happened before it in the same task.

    `start` is what the clusters held when the task began, `before` and `after` stand around the write.
    """

    call: Call
    earlier: Sequence[Call]
    message: Message
    settings: Settings
    start: State
    before: State
    after: State

    @property
    def task(self) -> TaskName:
        return self.message.task


def check(write: Write) -> None:
    """Hold one write against everything that is promised of every write. Raises Broken."""
    for promise in (
        p1_nothing_wanted_is_ever_buried,
        p2_never_ready_too_early,
        p3_history_is_never_lost,
        p4_nothing_referenced_is_deleted,
        p5_no_write_from_a_stale_view,
        p6_a_decision_leaves_nothing_behind,
        p8_stay_in_scope,
        p9_a_read_error_is_never_absence,
    ):
        how = promise(write)
        if how is not None:
            raise Broken(promise.__name__[:2].upper(), f"{write.task.short}: {write.call}: {how}")


def check_end(state: State, settings: Settings, unfinished: frozenset[str]) -> None:
    """Hold the end of a run against what is promised of ends; P7 is for whoever can run on. Raises Broken."""
    for how in p6_nothing_is_forgotten(state, settings, unfinished):
        raise Broken("P6", how)


# P1


def p1_nothing_wanted_is_ever_buried(write: Write) -> str | None:
    """A tombstone is never written for an identity that the current synthesis, or another composition of the same
    lineage, wants. An existing desired manifest is never changed into a tombstone. What is in doubt is not buried."""
    if write.call.resource is not RESOURCE_SLICES or write.call.verb == "delete":
        return None
    after = write.after.slices.get(write.call.key) or _created(write.call)
    before = write.before.slices.get(write.call.key)
    if after is None or (before is not None and before.metadata.deletion_timestamp):
        return None
    known = len(before.resources) if before else 0
    if before is not None and (after.resources[:known] != before.resources or after.states != before.states):
        return "existing entries or states are changed"
    owner = _owner(after, write.start)
    if after.resources[known:] and owner is None:
        return "tombstones for a composition that is not there"
    for entry in after.resources[known:]:
        identity = parse_head(entry.manifest).id
        if not entry.deleted:
            return f"{identity} is written as desired"
        for at, asked in (("when the task began", write.start), ("now", write.before)):  # noqa: B007
            if owner is None or not (why := _why_not_to_bury(identity, owner, asked)):
                break
        else:
            return f"{identity} is buried although {why} ({at})"
    return None


def _why_not_to_bury(identity: ResourceId, owner: Composition, state: State) -> str | None:
    now = state.compositions.get(f"{owner.namespace}/{owner.name}", owner)
    wanted = _desired(state, now)
    for each in state.siblings(now):
        wanted += _wants(state, each)
    if any(_same(identity, other) for other in wanted):
        return "it is wanted"
    if (identity.group, identity.kind) == ("", "Namespace"):  # noqa: SIM102
        if any((other.namespace or "default") == identity.name and not _cluster_scoped(other) for other in wanted):
            return "something wanted lives in it"
    if identity.kind == "CustomResourceDefinition":  # noqa: SIM102
        if any(other.group == identity.name.partition(".")[2] for other in wanted):
            return "something wanted is of it"
    if identity not in _history(state, now):
        return "no history lists it"
    return None


def _desired(state: State, composition: Composition) -> list[ResourceId]:
    found = []
    for each in state.slices_of(composition, composition.current):
        found += [parse_head(entry.manifest).id for entry in each.resources if not entry.deleted]
    return found


def _wants(state: State, sibling: Composition) -> list[ResourceId]:
    if sibling.current is not None and sibling.current.synthesized is not None:
        return _desired(state, sibling)
    newest = _newest(state, sibling.namespace, sibling.synthesizer, sibling.name)
    return [identity for secret in newest for identity in _entries(secret)]


def _history(state: State, composition: Composition) -> list[ResourceId]:
    """What the snapshot lists that a recovery of the composition may use."""
    where = composition.namespace, composition.synthesizer
    names = {_note(each, "composition-name") for each in state.secrets.values() if _of(each, *where)}
    chosen = composition.name if composition.name in names else next(iter(names), "") if len(names) == 1 else ""
    return [identity for secret in _newest(state, *where, chosen) for identity in _entries(secret)]


# P2


def p2_never_ready_too_early(write: Write) -> str | None:
    """While an opted-in, non-deleting composition has no terminal decision for its current synthesis UUID, Sexton
    never sets `ready` or `reconciled`, also not for an empty synthesis."""
    if write.call.resource is not COMPOSITIONS:
        return None
    before, after = write.before.compositions.get(write.call.key), write.after.compositions.get(write.call.key)
    if after is None or after.current is None:
        return None
    was = before.current if before is not None else None
    now = after.current
    set_now = [
        name
        for name in ("ready", "reconciled")
        if getattr(now, name) and getattr(now, name) != getattr(was, name, None)
    ]
    if set_now and after.opted_in and not after.deleting and not finished(now):
        return f"{' and '.join(set_now)} set while undecided"
    how = [_why_not_ready(set_now, after, state) for state in (write.start, write.before)] if set_now else []
    return how[-1] if how and all(how) else None


def _why_not_ready(set_now: Sequence[str], composition: Composition, state: State) -> str | None:
    now = composition.current
    slices = [] if composition.labels.get(SYMPHONY_DELETING_LABEL) == "true" else state.slices_of(composition, now)
    names = now.slice_names if now and slices else ()
    if "reconciled" in set_now and not all(_reconciled(each, composition) for each in slices):
        return "reconciled set although a slice is not"
    if not composition.deleting and len(slices) < len(names):
        return f"{set_now[0]} set although a slice is missing"
    if "ready" in set_now and not all(len(each.states) >= len(each.resources) for each in slices):
        return "ready set although a resource has no state"
    if "ready" in set_now and any(one.ready is None for each in slices for one in each.states):
        return "ready set although a resource is not"
    return None


def _reconciled(each: ResourceSlice, composition: Composition) -> bool:
    lets_go = not composition.deleting or composition.annotations.get(DELETION_STRATEGY_ANNOTATION) == "orphan"
    whole = len(each.states) >= len(each.resources)
    return whole and all(state.reconciled and (state.deleted or lets_go) for state in each.states)


# P3


def p3_history_is_never_lost(write: Write) -> str | None:
    """After the first complete snapshot of a lineage, some complete, consistent snapshot is readable at every instant,
    through any number of crashes at any write, until it is settled or retired."""
    if write.call.resource is not SECRETS:
        return None
    key = f"kube-system/{write.call.name}"
    gone = write.before.secrets.get(key)
    if write.call.verb != "delete":
        now = write.after.secrets.get(key)
        if gone is not None and now is not None and gone.get("data") != now.get("data"):
            return "a stored chunk is overwritten"
        return None
    if gone is None or not _note(gone, "composition-name"):
        return None
    where = _note(gone, "composition-namespace"), _note(gone, "synthesizer-name"), _note(gone, "composition-name")
    if not _complete(write.before, *where) or _complete(write.after, *where):
        return None
    if write.task is TaskName.GATE:
        how = [_not_settled(write, state, *where) for state in (write.start, write.before)]
        return how[-1] if all(how) else None
    if write.task is TaskName.RETIRE:
        return _not_retired(write, *where)
    return _not_adopted(write, *where)


def _not_settled(write: Write, state: State, namespace: str, synthesizer: str, name: str) -> str | None:
    composition = state.compositions.get(f"{namespace}/{getattr(write.message, 'name', '')}")
    if composition is None or not composition.deleting:
        return "history goes although its composition is not being deleted"
    if composition.labels.get(SYMPHONY_DELETING_LABEL) == "true":
        return "history goes with a symphony"
    if composition.name != name and f"{namespace}/{name}" in state.compositions:
        return f"history of {name} goes although it exists"
    if composition.annotations.get(DELETION_STRATEGY_ANNOTATION) == "orphan":
        return None
    slices = state.slices_of(composition, composition.current)
    if composition.current is None or len(slices) < len(composition.current.slice_names):
        return "history goes although a slice is missing"
    deleted = {
        parse_head(entry.manifest).id
        for each in slices
        for entry, told in zip(each.resources, each.states, strict=False)
        if told.deleted and not parse_head(entry.manifest).is_patch
    }
    listed = {
        identity
        for secret in state.secrets.values()
        if _of(secret, namespace, synthesizer) and _note(secret, "composition-name") == name
        for identity in _entries(secret)
    }
    left = sorted(str(identity) for identity in listed - deleted)
    return f"history goes although {left[0]} is not deleted" if left else None


def _not_retired(write: Write, namespace: str, synthesizer: str, name: str) -> str | None:
    grace = write.settings.retirement_grace
    for secret in write.before.secrets.values():
        if not _of(secret, namespace, synthesizer) or _note(secret, "composition-name") != name:
            continue
        mark = (secret["metadata"].get("annotations") or {}).get(UNCLAIMED_SINCE_ANNOTATION)
        if not grace or mark is None or parse_time(mark) + grace > write.before.now:
            return "history goes before its grace is over"
    claimed = all(_claimed(state, namespace, synthesizer, name) for state in (write.start, write.before))
    return "history goes although it is claimed" if claimed else None


def _claimed(state: State, namespace: str, synthesizer: str, name: str) -> bool:
    for each in state.compositions.values():
        if (each.namespace, each.synthesizer) != (namespace, synthesizer):
            continue
        if each.name == name and (each.opted_in or each.deleting):
            return True
        current = each.current
        if current is None and each.opted_in and not each.deleting:
            return True
        if current is not None and current.recovery_required and not finished(current):
            return True
    return False


def _not_adopted(write: Write, namespace: str, synthesizer: str, name: str) -> str | None:
    own = getattr(write.message, "name", "")
    if own == name or not _complete(write.before, namespace, synthesizer, own):
        return "the last complete snapshot goes"
    if all(f"{namespace}/{name}" in state.compositions for state in (write.start, write.before)):
        return f"the history of {name} goes, which exists"
    note = f"The history of {name} was adopted."
    for state in (write.start, write.before):
        composition = state.compositions.get(f"{namespace}/{own}")
        decision = composition.current.recovery if composition and composition.current else None
        if decision is not None and note in decision.message:
            return None
    return f"the history of {name} goes, which was not adopted"


# P4


def p4_nothing_referenced_is_deleted(write: Write) -> str | None:
    """Slices referenced by current or previous, made for the in-flight synthesis, or protected overflow are kept.
    Every delete carries UID (and resourceVersion where the content matters)."""
    if write.call.verb == "delete":
        if not write.call.uid or not write.call.version:
            return "a delete without UID and resourceVersion"
        if write.call.resource is RESOURCE_SLICES:
            return _needed(write.before.slices[write.call.key], write.before)
        return None
    before = write.before.slices.get(write.call.key) if write.call.resource is RESOURCE_SLICES else None
    after = write.after.slices.get(write.call.key)
    if before is None or write.task is not TaskName.CLEANUP:
        return None
    left = after.metadata.finalizers if after else ()
    if not before.deleting:
        return "a slice is let go of that is not terminating"
    if after is None and len(before.metadata.finalizers) > 1:
        return "finalizers of others are removed"
    if after is not None and [*left] != [each for each in before.metadata.finalizers if each != CLEANUP_FINALIZER]:
        return "finalizers of others are removed"
    owner = write.before.compositions.get(f"{before.namespace}/{before.owner.name}") if before.owner else None
    current = owner.current if owner else None
    if current is not None and before.name in current.slice_names and current.reconciled is None:
        return "a slice is let go of that its deletion still needs"
    return None


def _needed(each: ResourceSlice, state: State) -> str | None:
    """Why a slice must not be deleted."""
    if each.owner is None:
        return "nobody controls it"
    if each.created is None or state.now <= each.created + YOUNG:
        return "it is young"
    named = state.compositions.get(f"{each.namespace}/{each.owner.name}")
    if named is None:
        return None
    for synthesis in (named.current, named.previous):
        if synthesis is not None and each.name in synthesis.slice_names:
            return "it is referenced"
    if named.uid != each.owner.uid:
        return None
    running = named.in_flight
    if running is not None and running.canceled is None:
        if each.synthesis_uuid == running.uuid:
            return "it is stamped for the synthesis in flight"
        if running.initialized is None or each.created >= running.initialized - SKEW:
            return "it may be made by the synthesis in flight"
    current = named.current
    if each.labels.get(OVERFLOW_LABEL) == "true" and current is not None and each.synthesis_uuid == current.uuid:  # noqa: SIM102
        if named.opted_in and not named.deleting and current.recovery_required and not finished(current):
            return "it is overflow that is still to be published"
    return None


# P5


def p5_no_write_from_a_stale_view(write: Write) -> str | None:
    """Every write follows a live read that must still hold the task's own condition, and is itself bound by
    resourceVersion, UID or JSON-Patch `test`."""
    return _unbound(write.call) or _CONDITIONS[write.task](write)


def _unbound(call: Call) -> str | None:
    if call.verb == "delete":
        return None if call.uid and call.version else "not bound to a version"
    if call.verb == "create":
        return None if call.name else "a name that differs with every attempt"
    if call.verb != "patch":
        return "a write that is bound to nothing"
    tests = {each["path"] for each in call.body if each["op"] == "test"}
    first = [each["op"] for each in call.body[: len(tests)]]
    if not {"/metadata/uid", "/metadata/resourceVersion"} <= tests or set(first) != {"test"}:
        return "not bound to uid and resourceVersion"
    return None


def _since_last_write(write: Write) -> list[Call]:
    calls = list(write.earlier)
    for index in range(len(calls) - 1, -1, -1):
        if calls[index].matters:
            return calls[index + 1 :]
    return calls


def _last_read(calls: Sequence[Call], namespace: str, name: str) -> Composition | None:
    """The composition as it was read last; None when it was not, or was not there. What failed read nothing."""
    for call in reversed(calls):
        if call.resource is COMPOSITIONS and call.verb == "get" and (call.namespace, call.name) == (namespace, name):
            if call.error is None:
                return Composition.from_json(call.reply)
            if isinstance(call.error, NotFound):
                return None
    return None


def _stale_composition(write: Write, calls: Sequence[Call], judge: Callable[[Composition], str | None]) -> str | None:
    message = write.message
    namespace, name = message.namespace, getattr(message, "name", "")
    read = _last_read(calls, namespace, name)
    if read is None:
        return "no fresh read of the composition"
    if read.uid != getattr(message, "uid", ""):
        return "the composition that was read has another UID"
    if read.current is None or read.current.uuid != getattr(message, "synthesis_uuid", ""):
        return "the composition that was read has another synthesis"
    return judge(read)


def _recovering(write: Write) -> str | None:
    calls = _since_last_write(write) if write.call.resource is RESOURCE_SLICES else write.earlier
    if write.call.resource is COMPOSITIONS and not write.call.subresource:
        return _stale_composition(write, calls, _resynthesizable)
    return _stale_composition(write, calls, _undecided)


def _undecided(read: Composition) -> str | None:
    if not read.opted_in:
        return "it was not opted in"
    if read.deleting:
        return "it was being deleted"
    if read.current is None or read.current.synthesized is None:
        return "it was not synthesized"
    return "it was decided already" if finished(read.current) else None


def _resynthesizable(read: Composition) -> str | None:
    if read.deleting:
        return "it was being deleted"
    if read.annotations.get(IGNORE_SIDE_EFFECTS_ANNOTATION) == "true":
        return "side effects are ignored"
    if read.in_flight is not None:
        return "a synthesis was in flight"
    latest = read.current.uuid if read.current else ""
    return "it was requested already" if read.annotations.get(FORCE_RESYNTHESIS_ANNOTATION) == latest else None


def _recording(write: Write) -> str | None:
    return _stale_composition(write, _since_last_write(write), _recordable)


def _recordable(read: Composition) -> str | None:
    current = read.current
    if not read.opted_in or read.deleting:
        return "it was opted out or being deleted"
    if current is None or not finished(current):
        return "it was not decided"
    return None if current.ready else "it was not ready"


def _gating(write: Write) -> str | None:
    if write.call.resource is SECRETS:
        settled = _since_last_write(write)
        return _stale_composition(write, settled, lambda read: None if read.deleting else "it was not being deleted")
    if write.call.subresource == "status":
        return _stale_composition(write, write.earlier, lambda _: None) or _gate_order(write)
    return _stale_composition(write, write.earlier, _resynthesizable)


def _gate_order(write: Write) -> str | None:
    """The composition whose version is tested was read before all the slices that were judged."""
    version = next(each["value"] for each in write.call.body if each["path"] == "/metadata/resourceVersion")
    sets = any(
        each["op"] != "test" and each["path"].rpartition("/")[2] in ("ready", "reconciled") and each["op"] != "remove"
        for each in write.call.body
    )
    composition = write.before.compositions.get(write.call.key)
    if not sets or composition is None or composition.labels.get(SYMPHONY_DELETING_LABEL) == "true":
        return None
    unread = {name for name in (composition.current.slice_names if composition.current else ()) if name}
    read = False
    for call in write.earlier:
        reply = call.reply if call.resource is COMPOSITIONS and call.error is None else None
        read = read or (isinstance(reply, dict) and reply["metadata"]["resourceVersion"] == version)
        if read and call.resource is RESOURCE_SLICES:
            unread.discard(call.name)
    if not read:
        return "bound to a version that was not read"
    return "a verdict on slices older than the composition" if unread else None


def _cleaning(write: Write) -> str | None:
    calls = _since_last_write(write)
    gets = [index for index, call in enumerate(calls) if call.verb == "get" and call.key == write.call.key]
    if not gets or calls[gets[-1]].error is not None:
        return "no fresh read of the slice"
    reply = calls[gets[-1]].reply
    version = write.call.version or next(
        (each["value"] for each in write.call.body if each["path"] == "/metadata/resourceVersion"), ""
    )
    if reply["metadata"]["resourceVersion"] != version:
        return "bound to another version than was read"
    owner = ResourceSlice.from_json(reply).owner
    after = calls[gets[-1] + 1 :]
    if owner is not None and not any(call.resource is COMPOSITIONS and call.name == owner.name for call in after):
        return "no read of the composition after the slice"
    return None


def _retiring(write: Write) -> str | None:
    calls = _since_last_write(write) if write.call.verb == "delete" else list(write.earlier)
    listed = any(call.resource is COMPOSITIONS and call.verb == "list" and call.error is None for call in calls)
    return None if listed else "no fresh list of the compositions that may claim it"


_CONDITIONS: dict[TaskName, Callable[[Write], str | None]] = {
    TaskName.RECOVER: _recovering,
    TaskName.RECORD: _recording,
    TaskName.GATE: _gating,
    TaskName.CLEANUP: _cleaning,
    TaskName.RETIRE: _retiring,
}


# P6


def p6_a_decision_leaves_nothing_behind(write: Write) -> str | None:
    """A terminal decision tells the truth: it is bound to its synthesis, and everything owed is buried or held."""
    if write.call.resource is not COMPOSITIONS or write.call.subresource != "status":
        return None
    before, after = write.before.compositions.get(write.call.key), write.after.compositions.get(write.call.key)
    if after is None or after.current is None or after.current.recovery is None:
        return None
    decision = after.current.recovery
    if before is not None and before.current is not None and before.current.recovery == decision:
        return None
    if decision.synthesis_uuid != after.current.uuid or decision.status != (decision.reason in TERMINAL):
        return "a decision that is not bound to its synthesis, or not what its reason says"
    history = set(_history(write.start, after)) & set(_history(write.before, after))
    if decision.reason == "NotNeeded" and after.current.recovery_required:
        return "a required recovery is called unneeded"
    if decision.reason in SKIPPED and write.task is not TaskName.GATE:
        return "a recovery skips itself"
    if decision.reason == "FinishedTombstoneRecovery":
        return _unpaid(write, after, history)
    if decision.reason == "InventoryNotFound":
        own = any(_complete(state, after.namespace, after.synthesizer, after.name) for state in (write.start,))
        return "its history is not found, although it is there" if own and history else None
    return None


def _unpaid(write: Write, composition: Composition, history: set[ResourceId]) -> str | None:
    """What was owed when the task began, and still is although the decision says it is not."""
    there = write.start.slices_of(composition, composition.current)
    if any(f"{each.namespace}/{each.name}" not in write.before.slices for each in there):
        return None  # lost since it was read
    buried = [
        parse_head(entry.manifest).id
        for each in write.after.slices_of(composition, composition.current)
        for entry in each.resources
    ]
    for identity in sorted(history):
        if any(_same(identity, other) for other in buried):
            continue
        if not any(_why_not_to_bury(identity, composition, state) for state in (write.start, write.before)):
            return f"{identity} is owed and not buried"
    if composition.current and len(write.after.slices_of(composition, composition.current)) < len(
        composition.current.slice_names
    ):
        return "decided although a slice is missing"
    return None


def p6_nothing_is_forgotten(state: State, settings: Settings, unfinished: frozenset[str]) -> Iterator[str]:
    """Whatever is unfinished comes back, because it is derived again from the API servers."""
    scope = settings.scope
    for key, each in state.compositions.items():
        current = each.current
        if each.namespace != scope.composition_namespace or not _selected(each, scope.label_selector):
            continue
        if current is None or current.synthesized is None or each.deleting or not each.opted_in:
            continue
        if not finished(current):
            if each.name not in unfinished:
                yield f"{key} is undecided"
            if current.ready or current.reconciled:
                yield f"{key} is undecided, and ready or reconciled"
            continue
        slices = state.slices_of(each, current)
        if all(_reconciled(one, each) for one in slices) and len(slices) == len(current.slice_names):  # noqa: SIM102
            if not (current.ready and current.reconciled):
                yield f"{key} is not called ready and reconciled although it is"
        recovered = scope.recovery_enabled and current.recovery and current.recovery.reason not in SKIPPED
        if current.ready and recovered and not _recorded(state, each):
            yield f"{key} is ready and not recorded"
    for key, one in state.slices.items():
        if one.namespace == scope.composition_namespace and (why := _left_over(one, state, scope.label_selector)):
            yield f"slice {key} {why}"
    if scope.recovery_enabled:
        yield from _unmarked(state, settings)


def _left_over(each: ResourceSlice, state: State, selector: str) -> str | None:
    owner = state.compositions.get(f"{each.namespace}/{each.owner.name}") if each.owner else None
    if each.owner is None or (owner is None and selector) or (owner is not None and not _selected(owner, selector)):
        return None
    if each.deleting:
        current = owner.current if owner else None
        needed = current is not None and each.name in current.slice_names and current.reconciled is None
        held = CLEANUP_FINALIZER in each.metadata.finalizers
        return None if needed or not held else "is terminating and held for nothing"
    return None if _needed(each, state) else "is needed by nobody"


def _unmarked(state: State, settings: Settings) -> Iterator[str]:
    for key, secret in state.secrets.items():
        notes = secret["metadata"].get("annotations") or {}
        namespace, synthesizer = notes.get(f"{NOTES}composition-namespace", ""), notes.get(f"{NOTES}synthesizer-name")
        if synthesizer is None or namespace != settings.scope.recovery_namespace or not _ours(secret):
            continue
        claimed = _claimed(state, namespace, synthesizer, notes.get(f"{NOTES}composition-name", ""))
        marked = UNCLAIMED_SINCE_ANNOTATION in notes
        if claimed and marked:
            yield f"{key} is claimed and marked"
        if not claimed and not marked and settings.retirement_grace:
            yield f"{key} is unclaimed and not marked"


def _recorded(state: State, composition: Composition) -> bool:
    """A complete snapshot of the current synthesis, or one that was refused since a later one is there."""
    return _complete(state, composition.namespace, composition.synthesizer, composition.name) and any(
        _note(secret, "synthesis-uuid") == (composition.current.uuid if composition.current else "")
        for secret in state.secrets.values()
    )


# P8


def p8_stay_in_scope(write: Write) -> str | None:
    """Objects outside the namespace, the label selector or the opt-in are left alone. A message, forged or stale, can
    make a worker do no more than the watcher could have asked for."""
    scope, call = write.settings.scope, write.call
    if write.task in (TaskName.RECOVER, TaskName.RECORD, TaskName.RETIRE) and not scope.recovery_enabled:
        return "recovery is disabled"
    if call.resource is SECRETS:
        return _foreign_secret(write)
    if scope.composition_namespace and call.namespace != scope.composition_namespace:
        return "another namespace"
    composition = _about(write)
    if composition is None:
        return "no composition" if call.resource is COMPOSITIONS else _ownerless(write)
    if not _selected(composition, scope.label_selector):
        return "the labels of its composition are out of scope"
    aggregates = scope.aggregation is Aggregation.ALL or (
        scope.aggregation is Aggregation.OPTED_IN and composition.opted_in
    )
    if write.task is TaskName.CLEANUP:
        return None
    if write.task is TaskName.GATE and (aggregates or (composition.opted_in and not composition.deleting)):
        return None
    return None if composition.opted_in else "it is not opted in"


def _foreign_secret(write: Write) -> str | None:
    if write.call.verb == "create":
        return None
    secret = write.before.secrets.get(f"kube-system/{write.call.name}")
    if secret is None or not _ours(secret):
        return "a Secret that is not ours"
    space = write.settings.scope.recovery_namespace
    owner = _note(secret, "composition-namespace")
    return None if owner == space or not owner else "a Secret of another namespace"


def _ownerless(write: Write) -> str | None:
    """What may be done about a slice whose composition is gone, or that never had one."""
    each = write.before.slices.get(write.call.key)
    if each is None:
        return None
    selector = write.settings.scope.label_selector
    if write.call.verb == "delete" and (selector or each.owner is None):
        return "it cannot be told whose it was"
    return None


def _about(write: Write) -> Composition | None:
    if write.call.resource is COMPOSITIONS:
        return write.before.compositions.get(write.call.key)
    each = write.before.slices.get(write.call.key) or _created(write.call)
    name = each.owner.name if each is not None and each.owner is not None else ""
    now = write.before.compositions.get(f"{write.call.namespace}/{name}")
    # An opt-out that slips in between is none yet.
    return write.start.compositions.get(f"{write.call.namespace}/{name}", now) if now else None


def _selected(composition: Composition, selector: str) -> bool:
    wanted = [part.partition("=") for part in selector.split(",") if part]
    return all(composition.labels.get(key) == value for key, _, value in wanted)


# P9


def p9_a_read_error_is_never_absence(write: Write) -> str | None:
    """A failed, partial or interrupted list or get stops the task; it never means that there is nothing."""
    if not _takes_something_away(write):
        return None
    failed: dict[tuple[str, str, str], Call] = {}
    for call in write.earlier:
        if call.writes:
            continue
        where = (call.verb, call.resource.plural, call.name or str(call.namespace))
        absent = isinstance(call.error, NotFound)
        if call.error is not None and not absent:
            failed[where] = call
        elif not (isinstance(call.reply, Page) and call.reply.continue_token):
            failed.pop(where, None)
        else:
            failed[where] = call
    for (verb, plural, name), call in failed.items():
        if _matters_to(write, verb, plural, name):
            return f"{call} had failed"
    return None


def _takes_something_away(write: Write) -> bool:
    """Deletes, tombstones, terminal decisions, readiness: whatever an absence could lead to."""
    call = write.call
    if call.verb == "delete" or call.resource is RESOURCE_SLICES:
        return True
    if call.subresource != "status":
        return False
    after = write.after.compositions.get(call.key)
    before = write.before.compositions.get(call.key)
    if after is None or after.current is None or before is None or before.current is None:
        return False
    return (
        (finished(after.current) and not finished(before.current))
        or (after.current.ready is not None and before.current.ready is None)
        or (after.current.reconciled is not None and before.current.reconciled is None)
    )


def _matters_to(write: Write, verb: str, plural: str, name: str) -> bool:
    if write.task is TaskName.GATE and plural != "resourceslices":
        # The inventory of what is deleted cleanly is let go at best effort: its deletion goes on when that fails.
        return write.call.resource is SECRETS
    if plural == "secrets":
        return True
    if plural == "resourceslices" and write.task is TaskName.CLEANUP:
        return name == write.call.name
    return verb == "list" or plural in ("compositions", "resourceslices")


# What the words mean


def finished(synthesis: Synthesis) -> bool:
    """A terminal decision of its own."""
    decision = synthesis.recovery
    return bool(
        decision is not None and decision.status and synthesis.uuid and decision.synthesis_uuid == synthesis.uuid
    )


_GROUPS = {"extensions": ("networking.k8s.io", "apps", "policy")}
_CLUSTER_SCOPED = ("Namespace", "ClusterRole", "CustomResourceDefinition", "Node", "PersistentVolume")


def _same(one: ResourceId, other: ResourceId) -> bool:
    """Whether they may be the same object; in doubt they are."""
    if (one.kind, one.name) != (other.kind, other.name):
        return False
    groups = one.group == other.group or any(
        b in _GROUPS.get(a, ()) for a, b in ((one.group, other.group), (other.group, one.group))
    )
    spaces = one.namespace == other.namespace or not (one.namespace and other.namespace) or _cluster_scoped(one)
    return groups and spaces


def _cluster_scoped(identity: ResourceId) -> bool:
    return identity.kind in _CLUSTER_SCOPED


def _created(call: Call) -> ResourceSlice | None:
    return ResourceSlice.from_json(call.body) if call.verb == "create" and call.resource is RESOURCE_SLICES else None


def _owner(each: ResourceSlice, state: State) -> Composition | None:
    found = state.compositions.get(f"{each.namespace}/{each.owner.name}") if each.owner else None
    return found if found is not None and each.owner is not None and found.uid == each.owner.uid else None


def _note(secret: Json, name: str) -> str:
    found: str = (secret["metadata"].get("annotations") or {}).get(f"{NOTES}{name}", "")
    return found


def _ours(secret: Json) -> bool:
    """Opaque, and named as inventories of the label's lineage are."""
    lineage_id = (secret["metadata"].get("labels") or {}).get(LINEAGE_KEY, "")
    head, found, tail = secret["metadata"]["name"].rpartition(f"-{lineage_id}-")
    return bool(secret.get("type") == "Opaque" and lineage_id and head and found and tail[:1].isdigit())


def _of(secret: Json, namespace: str, synthesizer: str) -> bool:
    label = (secret["metadata"].get("labels") or {}).get(LINEAGE_KEY)
    return label == lineage(namespace, synthesizer) and _ours(secret)


def _snapshots(state: State, namespace: str, synthesizer: str, name: str) -> list[list[Json]]:
    """The complete snapshots of a name: one chunk per index, all of one count and stamp, none of them terminating."""
    groups: dict[str, list[Json]] = {}
    for secret in state.secrets.values():
        if _of(secret, namespace, synthesizer) and _note(secret, "composition-name") == name:
            groups.setdefault(_note(secret, "synthesis-uuid"), []).append(secret)
    return [sorted(each, key=_index) for each in groups.values() if _is_complete(each)]


def _index(secret: Json) -> int:
    return int(_note(secret, "chunk-index"))


def _is_complete(group: list[Json]) -> bool:
    heads = {(_note(each, "chunk-count"), _note(each, "synthesized")) for each in group}
    going = any("deletionTimestamp" in each["metadata"] for each in group)
    indexes = sorted(_index(each) for each in group)
    return len(heads) == 1 and not going and indexes == list(range(int(next(iter(heads))[0])))


def _complete(state: State, namespace: str, synthesizer: str, name: str) -> bool:
    return bool(_snapshots(state, namespace, synthesizer, name))


def _newest(state: State, namespace: str, synthesizer: str, name: str) -> list[Json]:
    found = _snapshots(state, namespace, synthesizer, name)
    return max(found, key=lambda each: _rank(each[0], state.now)) if found else []


def _rank(secret: Json, now: datetime) -> tuple[bool, datetime]:
    stamp = parse_time(_note(secret, "synthesized"))
    return stamp <= now + FUTURE, stamp


def _entries(secret: Json) -> list[ResourceId]:
    entries = json.loads(base64.b64decode(secret["data"]["inventory.json"]))
    return [ResourceId(each["group"], each["kind"], each["namespace"], each["name"]) for each in entries]
