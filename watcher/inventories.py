"""What metadata tells of inventories: whether a synthesis is recorded, and what nobody claims. Pure.

It only decides what a worker is asked to look at. The rules are those of the worker (`eno.inventory`,
`eno.retirement`), asked of records instead of live objects.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from eno.inventory.replacement import Inventory
from eno.inventory.secrets import Source
from eno.retirement import Claims, Steps, groups, steps
from eno.scope import Scope
from watcher.records import CompositionRecord, LineageRecord, Subject


def is_recorded(subject: Subject, now: datetime) -> bool:
    """Whether the snapshot of the composition's synthesis is complete, and nothing is left that it replaces."""
    source = _source(subject.composition)
    inventory = Inventory(tuple(each.holding.stored for each in subject.inventories or ()))
    stored = inventory.complete(source) if source else None
    if subject.composition is None or source is None:
        return False
    history = subject.composition.history
    if stored is None:
        # While its recovery is skipped, older history of its name is not buried under a newer snapshot.
        return history.skipped and any(each.source.composition == source.composition for each in inventory.sound)
    adopted = "" if subject.adopted_in_use else history.adopted
    names = [each.name for each in stored.chunks]
    return history.keeps_evidence or not inventory.replaced(source, names, adopted, now)


def retirement(lineage: LineageRecord, now: datetime, scope: Scope) -> list[Steps]:
    """What the snapshots of a lineage call for, one by one."""
    claimants = [each for each in lineage.compositions if each.key.namespace == scope.recovery_namespace]
    claims = Claims(
        next((each.key.name for each in claimants if each.history.unrecovered), ""),
        frozenset(each.key.name for each in claimants if each.history.claims),
    )
    grace = timedelta(seconds=scope.retirement_grace)
    found = groups([each.holding for each in lineage.inventories], scope.recovery_namespace)
    return [steps(group, claims.of_group(group), now, grace) for group in found]


def _source(composition: CompositionRecord | None) -> Source | None:
    """What the snapshot of the current synthesis would say of itself (`eno.inventory.secrets.source_of`)."""
    if composition is None or composition.current is None or composition.current.synthesized is None:
        return None
    return Source(
        namespace=composition.key.namespace,
        synthesizer=composition.synthesizer,
        composition=composition.key.name,
        synthesis_uuid=composition.current.uuid,
        synthesized=composition.current.synthesized.replace(microsecond=0),
    )
