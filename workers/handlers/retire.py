"""retire: let inventories go that no composition claims any more, after a grace.

Mark → wait → ask once more → delete. The mark is on the Secret, so the wait survives every restart; a
composition that comes back within the grace finds its history. Specification 05.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from eno.errors import Conflict, Invalid, NotFound, ServerError, StartOver
from eno.inventory.secrets import INVENTORY_NAMESPACE
from eno.objects import Composition, ObjectView
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION, Claims, Group, Holding, Steps, groups, steps
from eno.times import format_time
from kube import guards
from kube.cluster import Json, JsonPatch, Query, list_all
from kube.resources import COMPOSITIONS, SECRETS
from runtime.messages import RetireMessage
from workers.attempts import every, persistently
from workers.context import Context
from workers.inventories import delete_secret, list_metadata
from workers.outcome import Kind, Outcome


def retire(message: RetireMessage, context: Context) -> Outcome:
    """Look at every snapshot of one lineage.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


@dataclass(frozen=True, slots=True)
class _Look:
    """Who claims the lineage by one complete list, and what time it is at the earliest and at the latest.

    Our clock and the API server's need not agree. What is judged by the earlier of them and marked with the
    later goes too late at worst, whichever of them was set ahead or back.
    """

    claims: Claims
    earliest: datetime
    latest: datetime


def _attempt(message: RetireMessage, context: Context) -> Outcome:
    if not context.settings.scope.recovers_in(message.namespace):
        return Outcome(Kind.NOT_IN_SCOPE, "outside the recovery scope")
    secrets = list_metadata(context.downstream, message.lineage)
    readable = [(each, secret) for secret in secrets if (each := Holding.of(secret)) is not None]
    found = groups([each for each, _ in readable], message.namespace)
    if not found:
        return Outcome(Kind.UNCHANGED, "nothing is stored")
    look = _look(message, context)
    planned = [(group, _steps(group, look, context)) for group in found]
    objects = {each.stored.name: secret for each, secret in readable}
    every(partial(_mark, objects[each.stored.name], look.latest, context) for _, plan in planned for each in plan.mark)
    every(partial(_unmark, objects[each.stored.name], context) for _, plan in planned for each in plan.unmark)
    every(partial(_delete_all, group, plan, message, context) for group, plan in planned)
    return _summary([plan for _, plan in planned])


def _look(message: RetireMessage, context: Context) -> _Look:
    listing = list_all(context.upstream, Query(COMPOSITIONS, message.namespace))
    compositions = [Composition.from_json(item) for item in listing.items]
    claims = Claims.of(message.lineage, compositions, infer=context.settings.infer_required)
    clocks = [context.clock(), *([listing.date] if listing.date else [])]
    return _Look(claims, min(clocks), max(clocks))


def _steps(group: Group, look: _Look, context: Context) -> Steps:
    return steps(group, look.claims.of_group(group), look.earliest, context.settings.retirement_grace)


def _mark(secret: Json, now: datetime, context: Context) -> None:
    _patch(secret, guards.set_annotation(secret, UNCLAIMED_SINCE_ANNOTATION, format_time(now)), context)


def _unmark(secret: Json, context: Context) -> None:
    path: guards.Path = ("metadata", "annotations", UNCLAIMED_SINCE_ANNOTATION)
    _patch(secret, guards.guarded(secret, [guards.remove(path)]), context)


def _patch(secret: Json, operations: JsonPatch, context: Context) -> None:
    """Patch a Secret as it was listed; one that is gone needs no mark. Raises StartOver when it has changed since."""
    name = secret["metadata"]["name"]
    try:
        context.downstream.json_patch(SECRETS, INVENTORY_NAMESPACE, name, operations)
    except NotFound:
        return
    except (Conflict, Invalid, ServerError) as error:
        if _unchanged(secret, context):
            raise
        raise StartOver("it has changed since it was listed", where=f"Secret {name}") from error


def _unchanged(secret: Json, context: Context) -> bool:
    """A failed `test` looks like a refusal by the schema (422), on older servers like a fault (500)."""
    then = ObjectView.from_json(secret)
    try:
        obj = context.downstream.get(SECRETS, INVENTORY_NAMESPACE, then.name, metadata_only=True)
    except NotFound:
        return False
    now = ObjectView.from_json(obj)
    return (now.uid, now.resource_version) == (then.uid, then.resource_version)


def _delete_all(group: Group, plan: Steps, message: RetireMessage, context: Context) -> None:
    """In order, and no further than the first that stays: what goes last is what recovery would choose."""
    for holding in plan.delete:
        _delete(holding, group, message, context)


def _delete(holding: Holding, group: Group, message: RetireMessage, context: Context) -> None:
    """Delete one Secret after one more complete look for somebody who claims it."""
    again = _steps(group, _look(message, context), context)
    if not again.delete:
        raise StartOver(again.reason, where=group.title)
    delete_secret(holding.stored, context)


def _summary(plans: list[Steps]) -> Outcome:
    counts = Counter(plan.reason for plan in plans)
    reason = "; ".join(f"{count} × {text}" for text, count in sorted(counts.items()))
    waits = [plan.until for plan in plans if plan.until is not None]
    if waits:
        return Outcome(Kind.WAITING, reason, min(waits))
    acted = any(plan.unmark or plan.delete for plan in plans)
    return Outcome(Kind.DONE if acted else Kind.UNCHANGED, reason)
