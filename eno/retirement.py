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
from eno.inventory.secrets import StoredChunk, UnusableChunk, lineage, read
from eno.objects import GROUP, Composition, ObjectView
from eno.times import parse_time

UNCLAIMED_SINCE_ANNOTATION = f"{GROUP}/inventory-unclaimed-since"
"""RFC 3339 time at which nobody was found to claim the Secret. Not part of its source metadata."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A Secret of ours, and since when nobody claims it (None: not marked, or not with a time)."""

    secret: Mapping[str, Any]
    stored: Stored
    since: datetime | None

    @property
    def marked(self) -> bool:
        """Whether the annotation is there at all, readable or not."""
        return UNCLAIMED_SINCE_ANNOTATION in ObjectView.from_json(self.secret).annotations

    @property
    def composition(self) -> str:
        """The source composition's name; empty when the metadata does not tell."""
        return self.stored.source.composition if isinstance(self.stored, StoredChunk) else self.stored.composition


@dataclass(frozen=True, slots=True)
class Group:
    """The chunks of one snapshot, or one Secret whose metadata is unusable."""

    holdings: tuple[Holding, ...]

    @property
    def title(self) -> str:
        """Names the group for people."""
        first = self.holdings[0]
        return f"inventory of {first.composition or first.stored.name}"


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do with the Secrets of a group. `until` is when to look again, None when an event will say."""

    reason: str
    mark: tuple[Holding, ...] = ()
    unmark: tuple[Holding, ...] = ()
    delete: tuple[Holding, ...] = ()
    until: datetime | None = None


def groups(secrets: Iterable[Mapping[str, Any]], namespace: str) -> list[Group]:
    """The Secrets of ours in one lineage by snapshot; those of compositions in other namespaces are left out.

    A Secret with unusable metadata counts only where a sound one proves whose the lineage is.
    """
    holdings = [each for secret in secrets if (each := _holding(secret)) is not None]
    sound: dict[tuple[str, str], list[Holding]] = {}
    for each in holdings:
        if isinstance(each.stored, StoredChunk) and each.stored.source.namespace == namespace:
            sound.setdefault((each.composition, each.stored.source.synthesis_uuid), []).append(each)
    unusable = [Group((each,)) for each in holdings if isinstance(each.stored, UnusableChunk)]
    return [Group(tuple(group)) for group in sound.values()] + (unusable if sound else [])


def claimed(group: Group, lineage_id: str, namespace: Sequence[Composition], *, infer: bool) -> str | None:
    """Who claims the group, by one complete list of the namespace; None when nobody does."""
    for each in namespace:
        if lineage(each.namespace, each.synthesizer) != lineage_id:
            continue
        if recovery_required(each, infer=infer) and each.current is not None and not finished(each.current):
            return f"{each.title} is still to be recovered"
        if group.holdings[0].composition in ("", each.name) and (each.opted_in or each.deleting):
            return f"{each.title} exists"
    return None


def steps(group: Group, claim: str | None, now: datetime, grace: timedelta) -> Steps:
    """What the group calls for. A grace of 0 keeps everything for ever."""
    if claim is not None:
        marked = tuple(each for each in group.holdings if each.marked)
        return Steps(f"claimed: {claim}", unmark=marked)
    if not grace:
        return Steps("unclaimed, and kept for ever")
    unmarked = tuple(each for each in group.holdings if each.since is None)
    if unmarked:
        return Steps("unclaimed since now", mark=unmarked, until=now + grace)
    due = max(each.since for each in group.holdings if each.since is not None) + grace
    if now < due:
        return Steps("unclaimed, within the grace", until=due)
    return Steps("unclaimed for longer than the grace", delete=group.holdings)


def _holding(secret: Mapping[str, Any]) -> Holding | None:
    stored = read(secret)
    if stored is None:
        return None
    text = ObjectView.from_json(secret).annotations.get(UNCLAIMED_SINCE_ANNOTATION, "")
    try:
        since = parse_time(text)
    except ValueError:
        since = None
    return Holding(secret, stored, since)
