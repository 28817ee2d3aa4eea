"""cleanup: delete slices that nothing needs any more, and let go of those that are terminating.

The watcher names the slices; what happens to each follows from the slice and the composition as they are now.
Specification 05.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

from eno.errors import Conflict, Invalid, MalformedObject, NotFound, ServerError, StartOver
from eno.objects import CLEANUP_FINALIZER, ResourceSlice
from eno.retention import Asked, Case, Delete, Fate, Keep, Release, slice_fate
from kube import guards
from kube.cluster import Json
from kube.resources import RESOURCE_SLICES
from runtime.messages import CleanupMessage
from workers.attempts import every, persistently
from workers.context import Context
from workers.freshness import read
from workers.outcome import Kind, Outcome

log = logging.getLogger(__name__)


def cleanup(message: CleanupMessage, context: Context) -> Outcome:
    """Look at every slice the message names.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: CleanupMessage, context: Context) -> Outcome:
    namespace = context.settings.scope.composition_namespace
    if namespace not in ("", message.namespace):
        return Outcome(Kind.NOT_IN_SCOPE, f"namespace {message.namespace} is outside {namespace}")
    fates = every(partial(_look, name, message, context) for name in message.slices)
    return _summary([fate for fate in fates if fate is not None])


def _look(name: str, message: CleanupMessage, context: Context) -> Fate | None:
    """Decide about one slice and carry it out. None when it is gone, which is what was wanted."""
    try:
        obj = context.upstream.get(RESOURCE_SLICES, message.namespace, name)
    except NotFound:
        return None
    try:
        each = ResourceSlice.from_json(obj)
        fate = slice_fate(_case(each, message, context))
    except MalformedObject as error:
        # What cannot be read is in doubt, and must not keep the others from being looked at.
        return _told(name, Keep(f"it cannot be judged: {error.what}"), message, logging.WARNING)
    if isinstance(fate, Release):
        _release(obj, each, context)
    elif isinstance(fate, Delete):
        _delete(each, context)
    return _told(name, fate, message, logging.WARNING if each.owner is None else logging.INFO)


def _case(each: ResourceSlice, message: CleanupMessage, context: Context) -> Case:
    """The composition is read after the slice, so it is never older than the slice that it is asked about."""
    live = read(context.upstream, message.namespace, each.owner.name) if each.owner else None
    return Case(
        slice=each,
        composition=live.composition if live else None,
        now=context.clock(),
        scope=context.settings.scope,
        asked=Asked(message.uid, message.synthesis_uuid),
        infer_required=context.settings.infer_required,
    )


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


def _told(name: str, fate: Fate, message: CleanupMessage, level: int) -> Fate:
    verb = type(fate).__name__.lower()
    log.log(level, fate.reason, extra={"action": f"slice-{verb}", "slice": name, **message.log_context()})
    return fate


def _summary(fates: list[Fate]) -> Outcome:
    counts = Counter(f"{type(fate).__name__.lower()}: {fate.reason}" for fate in fates)
    reason = "; ".join(f"{count} × {text}" for text, count in sorted(counts.items()))
    waits = [fate.until for fate in fates if isinstance(fate, Keep) and fate.until is not None]
    if waits:
        return Outcome(Kind.WAITING, reason, min(waits))
    acted = any(not isinstance(fate, Keep) for fate in fates)
    return Outcome(Kind.DONE if acted else Kind.UNCHANGED, reason or "nothing is left")
