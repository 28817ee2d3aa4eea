"""What a complete, verified snapshot makes superfluous. Nothing of it goes before the verification (P3).

Rules: specification 04, *Writing never overwrites*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from eno.decision import Reason, recovery_skipped
from eno.inventory.secrets import Source, StoredChunk, UnusableChunk, read
from eno.inventory.selection import FUTURE_TOLERANCE, Lineage, Snapshot
from eno.objects import Composition

Stored: TypeAlias = StoredChunk | UnusableChunk


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every Secret of ours in one lineage, sound or not, as one complete LIST showed them."""

    stored: tuple[Stored, ...]

    @classmethod
    def of(cls, secrets: Iterable[Mapping[str, Any]]) -> Inventory:
        """From one complete LIST of the lineage; foreign Secrets are left out."""
        return cls(tuple(each for secret in secrets if (each := read(secret)) is not None))

    @property
    def sound(self) -> tuple[StoredChunk, ...]:
        """Those whose metadata can be trusted."""
        return tuple(each for each in self.stored if isinstance(each, StoredChunk))

    def snapshots(self, name: str) -> list[Snapshot]:
        """The complete snapshots of a source name."""
        return Lineage(self.sound).snapshots(name)

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

    def rivals(self, source: Source, names: Collection[str]) -> list[Stored]:
        """What claims to be of the same synthesis under other names, and so keeps it from being complete."""
        return [
            each
            for each in self.sound
            if each.name not in names
            and each.source.composition == source.composition
            and each.source.synthesis_uuid == source.synthesis_uuid
        ]

    def replaced(self, source: Source, names: Collection[str], adopted: str, now: datetime) -> list[Stored]:
        """The Secrets that the snapshot of `source`, stored under `names`, replaces.

        `adopted` is the source name whose history this synthesis took over, or empty. What is terminating goes
        by itself.
        """
        return [
            each
            for each in self.stored
            if each.name not in names
            and not each.terminating
            and (_superfluous(each, source, now) or _adopted(each, source, adopted))
        ]


def keeps_evidence(composition: Composition) -> bool:
    """Whether nothing may be replaced yet.

    After InventoryInvalid the evidence stays for one synthesis; after a skipped recovery the history stays for the
    synthesis that inherits the debt.
    """
    decision = composition.current.recovery if composition.current else None
    invalid = decision is not None and decision.reason == Reason.INVENTORY_INVALID
    return invalid or recovery_skipped(composition)


def _superfluous(each: Stored, source: Source, now: datetime) -> bool:
    if isinstance(each, UnusableChunk):
        return each.may_belong_to(source.composition)
    if each.source.composition != source.composition:
        return False
    stamp = each.source.synthesized
    return stamp <= source.synthesized or stamp > now + FUTURE_TOLERANCE


def _adopted(each: Stored, source: Source, adopted: str) -> bool:
    """A later stamp is no history that was adopted: somebody has used the name since."""
    return (
        isinstance(each, StoredChunk)
        and bool(adopted)
        and each.source.composition == adopted
        and each.source.synthesized <= source.synthesized
    )
