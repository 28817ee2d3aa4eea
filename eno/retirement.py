"""Which inventories nobody claims any more, and when they may go.

Pure: Secrets and compositions as just listed, and `now`. The grace is counted from an annotation on the Secrets
alone, so no restart forgets it and no clock that jumps ahead skips it. Rules: specification 05, *retire*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from eno.decision import finished, recovery_required
from eno.inventory.replacement import Stored
from eno.inventory.secrets import StoredChunk, lineage, read
from eno.objects import GROUP, Composition, ObjectView
from eno.times import parse_time

UNCLAIMED_SINCE_ANNOTATION = f"{GROUP}/inventory-unclaimed-since"
"""RFC 3339 time at which nobody was found to claim the Secret. Not part of its source metadata."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A Secret of ours. `marked` says that the annotation is there; `since` what it says, None if it is no time."""

    secret: Mapping[str, Any]
    stored: Stored
    marked: bool
    since: datetime | None

    @property
    def namespace(self) -> str:
        """The namespace of the compositions that may claim it; empty when the metadata does not prove it."""
        return self.stored.source.namespace if isinstance(self.stored, StoredChunk) else self.stored.namespace

    @property
    def composition(self) -> str:
        """The source composition's name; empty when the metadata does not tell."""
        return self.stored.source.composition if isinstance(self.stored, StoredChunk) else self.stored.composition


@dataclass(frozen=True, slots=True)
class Group:
    """The chunks of one snapshot, or one Secret whose metadata is unusable."""

    holdings: tuple[Holding, ...]

    @property
    def composition(self) -> str:
        """The source composition's name; empty when the metadata does not tell."""
        return self.holdings[0].composition

    @property
    def title(self) -> str:
        """Names the group for people."""
        return f"inventory of {self.composition or self.holdings[0].stored.name}"


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do with the Secrets of a group. `until` is when to look again, None when an event will say."""

    reason: str
    mark: tuple[Holding, ...] = ()
    unmark: tuple[Holding, ...] = ()
    delete: tuple[Holding, ...] = ()
    until: datetime | None = None


def groups(secrets: Iterable[Mapping[str, Any]], namespace: str) -> list[Group]:
    """The Secrets of ours in one lineage by snapshot, oldest first: what goes last is what recovery would choose.

    None at all when no Secret proves that the lineage is one of this namespace: a lineage has but one, and it
    may be somebody else's. What is terminating goes by itself.
    """
    holdings = [each for each in map(_holding, secrets) if each is not None]
    if not any(each.namespace == namespace for each in holdings):
        return []
    snapshots: dict[tuple[datetime, str, str], list[Holding]] = {}
    unusable: list[Group] = []
    for each in holdings:
        if each.stored.terminating:
            continue
        if isinstance(each.stored, StoredChunk):
            source = each.stored.source
            snapshots.setdefault((source.synthesized, source.composition, source.synthesis_uuid), []).append(each)
        else:
            unusable.append(Group((each,)))
    return [*(Group(tuple(snapshots[key])) for key in sorted(snapshots)), *unusable]


def claimed(group: Group, lineage_id: str, namespace: Sequence[Composition], *, infer: bool) -> str | None:
    """Who claims the group, by one complete list of the namespace; None when nobody does."""
    for each in namespace:
        if lineage(each.namespace, each.synthesizer) != lineage_id:
            continue
        if _unrecovered(each, infer=infer):
            return f"{each.title} is still to be recovered"
        if group.composition in ("", each.name) and (each.opted_in or each.deleting):
            return f"{each.title} exists"
    return None


def steps(group: Group, claim: str | None, now: datetime, grace: timedelta) -> Steps:
    """What the group calls for. A grace of 0 keeps everything for ever."""
    if claim is not None:
        return Steps(f"claimed: {claim}", unmark=tuple(each for each in group.holdings if each.marked))
    if not grace:
        return Steps("unclaimed, and kept for ever")
    unmarked = tuple(each for each in group.holdings if each.since is None)
    if unmarked:
        return Steps("unclaimed since now", mark=unmarked, until=now + grace)
    due = max(each.since for each in group.holdings if each.since is not None) + grace
    if now < due:
        return Steps("unclaimed, within the grace", until=due)
    return Steps("unclaimed for longer than the grace", delete=group.holdings)


def _unrecovered(composition: Composition, *, infer: bool) -> bool:
    """Whether it lacks history and has no decision yet. Without a synthesis it is going to lack it."""
    if composition.current is None:
        return composition.opted_in and not composition.deleting
    return recovery_required(composition, infer=infer) and not finished(composition.current)


def _holding(secret: Mapping[str, Any]) -> Holding | None:
    stored = read(secret)
    if stored is None:
        return None
    text = ObjectView.from_json(secret).annotations.get(UNCLAIMED_SINCE_ANNOTATION)
    try:
        since = parse_time(text or "")
    except ValueError:
        since = None
    return Holding(secret, stored, text is not None, since)
