"""cleanup: delete slices that nothing needs any more, and let go of those that are terminating.

The watcher names the slices; what happens to each follows from the slice and the composition as they are now.
Specification 05.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from eno.decision import superseded
from eno.errors import Conflict, Invalid, NotFound, ServerError, StartOver
from eno.objects import CLEANUP_FINALIZER, Composition, ResourceSlice
from eno.retention import Case, Delete, Fate, Keep, Release, slice_fate
from kube import guards
from kube.cluster import Json
from kube.resources import RESOURCE_SLICES
from runtime.messages import CleanupMessage
from workers.attempts import persistently
from workers.context import Context
from workers.freshness import read
from workers.outcome import Kind, Outcome


def cleanup(message: CleanupMessage, context: Context) -> Outcome:
    """Look at every slice the message names.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: CleanupMessage, context: Context) -> Outcome:
    scope = context.settings.scope
    if scope.composition_namespace not in ("", message.namespace):
        return Outcome(Kind.NOT_IN_SCOPE, f"namespace {message.namespace} is outside {scope.composition_namespace}")
    fates = [fate for name in message.slices if (fate := _look(name, message, context)) is not None]
    return _summary(fates)


def _look(name: str, message: CleanupMessage, context: Context) -> Fate | None:
    """Decide about one slice and carry it out. None when it is gone, which is what was wanted."""
    try:
        obj = context.upstream.get(RESOURCE_SLICES, message.namespace, name)
    except NotFound:
        return None
    each = ResourceSlice.from_json(obj)
    fate = _fate(each, message, context)
    if isinstance(fate, Release):
        _release(obj, each, context)
    elif isinstance(fate, Delete):
        _delete(each, context)
    return fate


def _fate(each: ResourceSlice, message: CleanupMessage, context: Context) -> Fate:
    """The live view decides; where it differs from what the watcher saw, the slice is kept."""
    owner = each.owner
    if (owner.uid if owner else "") != message.uid:
        return Keep("it has another owner than the watcher saw")
    composition = _composition(owner.name, message, context) if owner else None
    scope = context.settings.scope
    if composition is not None:
        outside = scope.outside_watch(composition)
        if outside:
            return Keep(f"out of scope: {outside}")
        if composition.uid == message.uid and superseded(composition, message.uid, message.synthesis_uuid):
            return Keep("the watcher saw another synthesis")
    return slice_fate(
        Case(
            slice=each,
            composition=composition,
            now=context.clock(),
            infer_required=context.settings.infer_required,
            scope_is_proven=composition is not None or not scope.label_selector,
        )
    )


def _composition(name: str, message: CleanupMessage, context: Context) -> Composition | None:
    live = read(context.upstream, message.namespace, name)
    return live.composition if live else None


def _release(obj: Json, each: ResourceSlice, context: Context) -> None:
    """Remove our finalizer at its index, other finalizers stay. Raises StartOver when the slice has changed."""
    operations = guards.remove_finalizer(obj, CLEANUP_FINALIZER)
    if operations is None:
        return
    try:
        context.upstream.json_patch(RESOURCE_SLICES, each.namespace, each.name, operations)
    except NotFound:
        return
    except (Invalid, ServerError, Conflict) as error:
        raise _changed(each, error, context) from error


def _delete(each: ResourceSlice, context: Context) -> None:
    try:
        context.upstream.delete(
            RESOURCE_SLICES, each.namespace, each.name, uid=each.uid, resource_version=each.resource_version
        )
    except NotFound:
        return
    except Conflict as error:
        raise StartOver("it has changed since it was read", where=f"resourceslice {each.title}") from error


def _changed(
    each: ResourceSlice, error: Invalid | ServerError | Conflict, context: Context
) -> StartOver | Invalid | ServerError | Conflict:
    """A refused patch is a lost race when the slice has changed, else a refusal that stays."""
    try:
        now = ResourceSlice.from_json(context.upstream.get(RESOURCE_SLICES, each.namespace, each.name))
    except NotFound:
        return StartOver("it is gone", where=f"resourceslice {each.title}")
    if (now.uid, now.resource_version) == (each.uid, each.resource_version):
        return error
    return StartOver("it has changed since it was read", where=f"resourceslice {each.title}")


def _summary(fates: list[Fate]) -> Outcome:
    counts = Counter(f"{type(fate).__name__.lower()}: {fate.reason}" for fate in fates)
    reason = "; ".join(f"{count} × {text}" for text, count in sorted(counts.items()))
    waits: list[datetime] = [fate.until for fate in fates if isinstance(fate, Keep) and fate.until is not None]
    if waits:
        return Outcome(Kind.WAITING, reason, min(waits))
    acted = any(not isinstance(fate, Keep) for fate in fates)
    return Outcome(Kind.DONE if acted else Kind.UNCHANGED, reason or "nothing is left")
