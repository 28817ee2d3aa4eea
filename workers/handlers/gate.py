"""gate: hold readiness until recovery has decided, aggregate slice states, ask for a resynthesis when one is due.

The composition is read before the first slice and its resourceVersion is tested by the patch, so a verdict on
older slices is never published beside a newer decision. Specification 03.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from eno.decision import Decision, Reason, skipped_decision
from eno.errors import NotFound, SextonError
from eno.objects import Composition, ResourceSlice
from eno.readiness import Hole, Verdict, held, orphans, resynthesis, skips_slices, verdict
from kube.resources import RESOURCE_SLICES
from runtime.messages import GateMessage
from runtime.settings import Aggregation
from workers.attempts import persistently
from workers.context import Context
from workers.events import EventType, announce
from workers.freshness import Live, identity_stop, read
from workers.outcome import Kind, Outcome
from workers.publishing import publish, publish_readiness, request_resynthesis
from workers.settlement import settle

TOLERATED_CORRECTIONS = 2
"""How often within a minute a foreign `ready` is cleared at once; from then on with growing pauses."""


def gate(message: GateMessage, context: Context) -> Outcome:
    """Run one pass of the gate.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: GateMessage, context: Context) -> Outcome:
    live = read(context.upstream, message.namespace, message.name)
    stop = identity_stop(live, message)
    if live is None or stop is not None:
        return stop or Outcome(Kind.SUPERSEDED, "gone")
    composition, scope = live.composition, context.settings.scope
    outside = scope.outside_watch(composition)
    if outside:
        return Outcome(Kind.NOT_IN_SCOPE, outside)
    skipped = skipped_decision(composition, enabled=scope.recovery_enabled, recovery_namespace=scope.recovery_namespace)
    if skipped is not None:
        return _skip(live, skipped, context)
    if not _aggregated(composition, context.settings.aggregation):
        return Outcome(Kind.UNCHANGED, "aggregated by somebody else")
    current = composition.current
    if current is None or current.synthesized is None:
        return Outcome(Kind.UNCHANGED, "not synthesized")
    if held(composition) and (current.ready is not None or current.reconciled is not None):
        return _correct(live, message, context)
    return _aggregate(live, message, context)


def _aggregated(composition: Composition, setting: Aggregation) -> bool:
    """Whether Sexton takes the place of Eno's slice status controller for this composition."""
    return setting is Aggregation.ALL or (setting is Aggregation.OPTED_IN and composition.opted_in)


def _skip(live: Live, reason: Reason, context: Context) -> Outcome:
    published = publish(context.upstream, live, Decision(reason))
    _announce(published, EventType.NORMAL, reason, "Readiness does not wait for tombstone recovery.", context)
    return Outcome(Kind.DONE, reason)


def _correct(live: Live, message: GateMessage, context: Context) -> Outcome:
    """Clear what somebody else set on an undecided composition (P2), and do not fight over it at full speed."""
    publish_readiness(context.upstream, live, Verdict(None, None))
    times = context.corrections.note(message.key)
    if times <= TOLERATED_CORRECTIONS:
        return Outcome(Kind.DONE, "cleared a foreign readiness")
    text = "Something else keeps setting ready or reconciled before tombstone recovery has decided."
    _announce(live, EventType.WARNING, "ReadinessContested", text, context)
    pause = timedelta(seconds=min(2.0 ** (times - TOLERATED_CORRECTIONS), 60.0))
    return Outcome(Kind.WAITING, "a foreign readiness keeps coming back", context.clock() + pause)


def _aggregate(live: Live, message: GateMessage, context: Context) -> Outcome:
    composition, now = live.composition, context.clock()
    slices = _read_states(composition, context)
    found = verdict(composition, slices, now)
    published = live
    if found is not None:
        if found.reconciled is not None and composition.current and composition.current.reconciled is None:
            _settle(live, slices, context)
        published = publish_readiness(context.upstream, live, found)
    recovers = context.settings.scope.outside_recovery(composition) is None
    wanted = resynthesis(composition, slices, now, recovers=recovers)
    if wanted is not None and wanted.at is not None:
        return Outcome(Kind.WAITING, wanted.why, wanted.at)
    if wanted is not None:
        return _resynthesize(message, slices, recovers, context)
    return Outcome(Kind.UNCHANGED if published is live else Kind.DONE, "aggregated")


def _read_states(composition: Composition, context: Context) -> list[ResourceSlice | Hole]:
    """Every slice of the current synthesis, in order; only a live 404 counts as missing (P9)."""
    if composition.current is None or skips_slices(composition):
        return []
    found: list[ResourceSlice | Hole] = []
    for name in dict.fromkeys(composition.current.slice_names):
        if name is None:
            found.append(Hole.NAMELESS)
            continue
        try:
            obj = context.upstream.get(RESOURCE_SLICES, composition.namespace, name)
        except NotFound:
            found.append(Hole.MISSING)
        else:
            found.append(ResourceSlice.from_json(obj))
    return found


def _settle(live: Live, slices: Sequence[ResourceSlice | Hole], context: Context) -> None:
    """Let the inventory of a cleanly deleted composition go before its deletion is let on.

    Best effort, except under `orphan`, where it is retried: what was let go on purpose must not be buried later.
    """
    if not live.composition.deleting:
        return
    try:
        settle(live, slices, context)
    except SextonError as error:
        if orphans(live.composition):
            raise
        _announce(live, EventType.WARNING, "InventoryNotSettled", error.summary, context)


def _resynthesize(
    message: GateMessage, slices: Sequence[ResourceSlice | Hole], recovers: bool, context: Context
) -> Outcome:
    """Ask once, after a fresh look that the composition still calls for it."""
    fresh = read(context.upstream, message.namespace, message.name)
    if fresh is None or identity_stop(fresh, message) is not None:
        return Outcome(Kind.SUPERSEDED, "gone or replaced before a resynthesis was requested")
    wanted = resynthesis(fresh.composition, slices, context.clock(), recovers=recovers)
    if wanted is None:
        return Outcome(Kind.SUPERSEDED, "a resynthesis is not called for any more")
    request_resynthesis(context.upstream, fresh)
    _announce(fresh, EventType.NORMAL, "ResynthesisRequested", f"Resynthesis requested: {wanted.why}.", context)
    return Outcome(Kind.DONE, f"resynthesis requested: {wanted.why}")


def _announce(live: Live, kind: EventType, reason: str, text: str, context: Context) -> None:
    announce(context.upstream, live.composition, kind, reason, text, context.clock())
