"""Which inventories nobody claims any more, and when they may go.

Pure: Secrets and compositions as just listed, and `now`. The grace is counted from an annotation on the Secrets
alone, so no restart forgets it and no clock that jumps ahead skips it. Rules: specification 05, *retire*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from eno.decision import finished, recovery_required
from eno.inventory.replacement import Stored
from eno.inventory.secrets import StoredChunk, UnusableChunk, lineage, read
from eno.objects import GROUP, Composition, ObjectView
from eno.times import parse_time

UNCLAIMED_SINCE_ANNOTATION = f"{GROUP}/inventory-unclaimed-since"
"""RFC 3339 time at which nobody was found to claim the Secret. Not part of its source metadata."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A Secret of ours. `marked` says that the annotation is there; `since` what it says, None if it is no time."""

    stored: Stored
    marked: bool
    since: datetime | None

    @classmethod
    def of(cls, secret: Mapping[str, Any]) -> Holding | None:
        """From a Secret with its type, or its metadata alone; None when it is not ours. Raises MalformedObject."""
        stored = read(secret)
        if stored is None:
            return None
        text = ObjectView.from_json(secret).annotations.get(UNCLAIMED_SINCE_ANNOTATION)
        try:
            since = parse_time(text or "")
        except ValueError:
            since = None
        return cls(stored, text is not None, since)

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
    """All snapshots of one source name, or one Secret whose metadata is unusable. Its Secrets share one fate.

    A claim that was taken back while its marks were being removed has left old ones on some of them. The others
    tell that the grace has begun anew.
    """

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


def groups(holdings: Sequence[Holding], namespace: str) -> list[Group]:
    """The Secrets of ours in one lineage by source name, oldest first: what goes last is what recovery would choose.

    None at all when no Secret proves that the lineage is one of this namespace: a lineage has but one, and it
    may be somebody else's. What is terminating goes by itself.
    """
    if not any(each.namespace == namespace for each in holdings):
        return []
    staying = [each for each in holdings if not each.stored.terminating]
    sound = [(each.stored.source, each.stored.index, each) for each in staying if isinstance(each.stored, StoredChunk)]
    sound.sort(key=lambda item: (item[0].composition, item[0].synthesized, item[0].synthesis_uuid, item[1]))
    named = groupby(sound, key=lambda item: item[0].composition)
    unusable = [Group((each,)) for each in staying if isinstance(each.stored, UnusableChunk)]
    return [*(Group(tuple(each for *_, each in items)) for _, items in named), *unusable]


@dataclass(frozen=True, slots=True)
class Claims:
    """Who claims the snapshots of one lineage: one claimant all of them, or each the one of its name."""

    everything: str = ""
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, lineage_id: str, namespace: Iterable[Composition], *, infer: bool) -> Claims:
        """By one complete list of the namespace, which has no selector."""
        own = [each for each in namespace if lineage(each.namespace, each.synthesizer) == lineage_id]
        unrecovered = (each.name for each in own if is_unrecovered(each, infer=infer))
        return cls(next(unrecovered, ""), frozenset(each.name for each in own if claims_its_own(each)))

    def of_group(self, group: Group) -> str | None:
        """Why the group is claimed, or None when nobody does. One of unknown name may be anybody's."""
        if self.everything:
            return f"{self.everything} is still to be recovered"
        if group.composition in self.names or (self.names and not group.composition):
            return f"{group.composition or min(self.names)} exists"
        return None


def claims_its_own(composition: Composition) -> bool:
    """Whether the snapshots of its name are still needed."""
    return composition.opted_in or composition.deleting


def is_unrecovered(composition: Composition, *, infer: bool) -> bool:
    """Whether it lacks history and has no decision yet. Without a synthesis it is going to lack it."""
    if composition.current is None:
        return composition.opted_in and not composition.deleting
    return recovery_required(composition, infer=infer) and not finished(composition.current)


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
