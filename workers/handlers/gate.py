"""gate: hold readiness until recovery has decided, aggregate slice states, ask for a resynthesis when one is due.

The composition is read before the first slice and its resourceVersion is tested by every patch, so a verdict on
older slices is never published beside a newer decision. Specification 03.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from eno.decision import Decision, Reason, skipped_decision
from eno.errors import MalformedObject, Retryable, SextonError
from eno.objects import Composition, ResourceSlice
from eno.readiness import (
    Hole,
    Verdict,
    correction_pause,
    held,
    obstacles,
    orphans,
    resynthesis,
    verdict,
)
from runtime.messages import GateMessage
from runtime.metrics import DECISIONS
from workers.attempts import persistently
from workers.context import Context
from workers.events import EventType, announce
from workers.freshness import Live, read_named
from workers.outcome import Kind, Outcome
from workers.publishing import publish, publish_readiness, request_resynthesis
from workers.reading import read_states
from workers.settlement import settle

log = logging.getLogger(__name__)


def gate(message: GateMessage, context: Context) -> Outcome:
    """Run one pass of the gate.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: GateMessage, context: Context) -> Outcome:
    live = read_named(context.upstream, message)
    if isinstance(live, Outcome):
        return live
    composition, scope = live.composition, context.settings.scope
    outside = scope.outside_watch(composition)
    if outside:
        return Outcome(Kind.NOT_IN_SCOPE, outside)
    skipped = skipped_decision(composition, enabled=scope.recovery_enabled, recovery_namespace=scope.recovery_namespace)
    if skipped is not None:
        return _skip(live, skipped, context)
    if held(composition) and composition.current is not None:
        # Before any slice is read: what is wrong about it has nothing to do with them.
        held_back = publish_readiness(context.upstream, live, Verdict(None, None))
    else:
        held_back = live
    published, outcome = _aggregate(held_back, context)
    if _took_back(composition, published.composition):
        return _contest(live, outcome, message, context)
    return outcome


def _skip(live: Live, reason: Reason, context: Context) -> Outcome:
    composition = live.composition
    if composition.current is None or not composition.current.uuid:
        # No decision can be bound to it, so nothing will ever release its gate.
        publish_readiness(context.upstream, live, Verdict(None, None))
        raise MalformedObject("status.currentSynthesis.uuid is empty", where=f"composition {composition.title}")
    published = publish(context.upstream, live, Decision(reason))
    context.meter.record(DECISIONS, 1, reason)
    _announce(published, EventType.NORMAL, reason, "Readiness does not wait for tombstone recovery.", context)
    return Outcome(Kind.DONE, reason)


def _aggregate(live: Live, context: Context) -> tuple[Live, Outcome]:
    """Publish the verdict and ask for a resynthesis, as far as either is due. Returns the composition after it."""
    composition, scope, now = live.composition, context.settings.scope, context.clock()
    if composition.current is None or composition.current.synthesized is None:
        return live, Outcome(Kind.UNCHANGED, "not synthesized")
    aggregates = scope.aggregates(opted_in=composition.opted_in)
    if not aggregates and not held(composition):
        return live, Outcome(Kind.UNCHANGED, "aggregated by somebody else")
    slices = read_states(context.upstream, composition)
    published = _publish(live, slices, context) if aggregates else live
    recovers = scope.outside_recovery(composition) is None
    wanted = resynthesis(published.composition, slices, now, recovers=recovers)
    if wanted is not None and wanted.at is not None:
        return published, Outcome(Kind.WAITING, wanted.why, wanted.at)
    if wanted is not None:
        request_resynthesis(context.upstream, published)
        _announce(published, EventType.NORMAL, "ResynthesisRequested", f"Resynthesis requested: {wanted.why}.", context)
        return published, Outcome(Kind.DONE, f"resynthesis requested: {wanted.why}")
    why = "; ".join(obstacles(published.composition, slices)[:3])
    return published, Outcome(Kind.UNCHANGED if published is live else Kind.DONE, why or "nothing holds readiness back")


def _took_back(before: Composition, after: Composition) -> bool:
    """Whether `ready` or `reconciled` was set, though not by us, and had to be cleared."""
    if before.current is None or after.current is None:
        return False
    pairs = (
        (before.current.ready, after.current.ready),
        (before.current.reconciled, after.current.reconciled),
    )
    return any(was is not None and now is None for was, now in pairs)


def _contest(live: Live, outcome: Outcome, message: GateMessage, context: Context) -> Outcome:
    """Do not fight at full speed over what was just cleared.

    Raises Retryable from the third time on, which keeps the key back for a growing pause: unlike a wait, that
    pause is not cut short when the object changes, as it does whenever the other side sets it again.
    """
    pause = correction_pause(context.corrections.note(message.key))
    if pause is None:
        return outcome if outcome.kind is not Kind.UNCHANGED else Outcome(Kind.DONE, "cleared a foreign readiness")
    text = "Something else keeps setting ready or reconciled before it is due."
    log.warning(text, extra={"action": "readiness-contested", **message.log_context()})
    _announce(live, EventType.WARNING, "ReadinessContested", text, context)
    raise Retryable(
        "something else keeps setting ready or reconciled",
        where=f"composition {live.composition.title}",
        hint="let only one aggregator run; the admission policy in deploy/ refuses the other",
        retry_after=pause.total_seconds(),
    )


def _publish(live: Live, slices: Sequence[ResourceSlice | Hole], context: Context) -> Live:
    """Publish the verdict, if there is one, and return the composition as it is then."""
    found = verdict(live.composition, slices, context.clock())
    if found is None:
        return live
    current = live.composition.current
    if found.reconciled is not None and current is not None and current.reconciled is None:
        _settle(live, slices, context)
    return publish_readiness(context.upstream, live, found)


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


def _announce(live: Live, kind: EventType, reason: str, text: str, context: Context) -> None:
    announce(context.upstream, live.composition, kind, reason, text, context.clock())
