"""What a complete, verified snapshot makes superfluous. Nothing of it goes before the verification (P3).

Rules: specification 04, *Writing never overwrites*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from eno.inventory.secrets import Source, StoredChunk, UnusableChunk, read
from eno.inventory.selection import FUTURE_TOLERANCE, Lineage, Snapshot

Stored: TypeAlias = StoredChunk | UnusableChunk


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every Secret of ours in one lineage, sound or not, as one complete LIST showed them."""

    stored: tuple[Stored, ...]

    @classmethod
    def of(cls, secrets: Iterable[Mapping[str, Any]]) -> Inventory:
        """From one complete LIST of the lineage; foreign Secrets are left out."""
        return cls(tuple(each for secret in secrets if (each := read(secret)) is not None))

    def snapshots(self, name: str) -> list[Snapshot]:
        """The complete snapshots of a source name."""
        return Lineage(tuple(each for each in self.stored if isinstance(each, StoredChunk))).snapshots(name)

    def complete(self, source: Source) -> Snapshot | None:
        """The complete snapshot of exactly this source, or None."""
        found = (each for each in self.snapshots(source.composition) if each.source == source)
        return next(found, None)

    def later(self, source: Source, now: datetime) -> Snapshot | None:
        """A complete snapshot of the same name that was made later, and not in the future: ours is stale."""
        for each in self.snapshots(source.composition):
            if source.synthesized < each.source.synthesized <= now + FUTURE_TOLERANCE:
                return each
        return None


def replaced(
    inventory: Inventory, source: Source, names: Iterable[str], adopted: str, now: datetime
) -> Sequence[Stored]:
    """The Secrets that the snapshot of `source`, stored under `names`, replaces.

    First those that share its UUID under other names: they keep it from being complete. `adopted` is the source
    name whose history this synthesis took over, or empty.
    """
    own = frozenset(names)
    others = [each for each in inventory.stored if each.name not in own]
    going = [each for each in others if _superfluous(each, source, now) or _adopted(each, source, adopted)]
    return sorted(going, key=lambda each: (not _same_synthesis(each, source), each.name))


def _superfluous(each: Stored, source: Source, now: datetime) -> bool:
    if isinstance(each, UnusableChunk):
        return each.may_belong_to(source.composition)
    if each.source.composition != source.composition:
        return False
    stamp = each.source.synthesized
    return stamp <= source.synthesized or stamp > now + FUTURE_TOLERANCE


def _adopted(each: Stored, source: Source, adopted: str) -> bool:
    return (
        isinstance(each, StoredChunk)
        and bool(adopted)
        and each.source.composition == adopted
        and each.source.synthesized <= source.synthesized
    )


def _same_synthesis(each: Stored, source: Source) -> bool:
    return isinstance(each, StoredChunk) and each.source.synthesis_uuid == source.synthesis_uuid
