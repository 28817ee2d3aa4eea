"""What a synthesis without history still owes: inventory − wanted → tombstones.

In doubt nothing is buried (P1): comparison errs on the side of "wanted", siblings count as owners, and a
Namespace or CustomResourceDefinition is held while something wanted lives in it. Rules: specification 02, step 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from eno.identity import Head, ResourceId, Wanted
from eno.inventory.entries import Entry

MASS_BURIAL_MINIMUM = 20
"""Identities below which no burial counts as a mass burial."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The heads of a synthesis' manifests, desired and tombstones apart."""

    desired: tuple[Head, ...] = ()
    tombstones: tuple[Head, ...] = ()

    def identities(self) -> Iterable[ResourceId]:
        """Every identity a manifest stands for, tombstones and Patch targets included."""
        return (head.id for head in (*self.desired, *self.tombstones))


@dataclass(frozen=True, slots=True)
class Debt:
    """What is owed: `buried` becomes tombstones, `held` must wait because something lives in it."""

    buried: tuple[Entry, ...] = ()
    held: tuple[ResourceId, ...] = ()


class Holds:
    """The namespaces and API groups that desired manifests live in."""

    def __init__(self, desired: Iterable[Head]) -> None:
        self._namespaces: set[str] = set()
        self._groups: set[str] = set()
        for head in desired:
            self._groups.add(head.id.group)
            if not head.id.cluster_scoped:
                # A namespaced manifest that names none is created in "default".
                self._namespaces.add(head.id.namespace or "default")

    def holds(self, identity: ResourceId) -> bool:
        """Whether burying this Namespace or CustomResourceDefinition would take something wanted with it."""
        if (identity.group, identity.kind) == ("", "Namespace"):
            return identity.name in self._namespaces
        if (identity.group, identity.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
            return identity.name.partition(".")[2] in self._groups
        return False


def missing(inventory: Iterable[Entry], current: Manifests) -> list[Entry]:
    """What the inventory lists and no current manifest mentions, in inventory order, each identity once."""
    wanted = Wanted(current.identities())
    absent = {entry.id: entry for entry in inventory if entry.id not in wanted}
    return list(absent.values())


def settle(
    absent: Sequence[Entry],
    current: Manifests,
    sibling_manifests: Iterable[Manifests],
    sibling_inventory: Iterable[Entry],
) -> Debt:
    """The debt after siblings and holds had their say.

    `sibling_manifests` are the current ones of every sibling, `sibling_inventory` the newest snapshots of those
    siblings that have no synthesized current.
    """
    siblings = [head for manifests in sibling_manifests for head in manifests.desired]
    remembered = [entry.id for entry in sibling_inventory]
    wanted = Wanted([*(head.id for head in siblings), *remembered])
    holds = Holds([*current.desired, *siblings])
    owed = [entry for entry in absent if entry.id not in wanted]
    return Debt(
        buried=tuple(entry for entry in owed if not holds.holds(entry.id)),
        held=tuple(entry.id for entry in owed if holds.holds(entry.id)),
    )


def already_buried(inventory: Iterable[Entry], current: Manifests) -> bool:
    """Whether a current tombstone stands for something in the inventory, made by Eno or an earlier attempt."""
    graves = Wanted(head.id for head in current.tombstones)
    return any(entry.id in graves for entry in inventory)


def mass_burial(debt: Debt, inventory_size: int) -> bool:
    """Whether more than half of an inventory of at least MASS_BURIAL_MINIMUM identities would be buried."""
    return inventory_size >= MASS_BURIAL_MINIMUM and 2 * len(debt.buried) > inventory_size


def tombstone(entry: Entry) -> str:
    """The manifest of a tombstone, compact JSON. It carries no readiness expression, which could block it."""
    metadata: dict[str, Any] = {"name": entry.id.name}
    if entry.id.namespace:
        metadata["namespace"] = entry.id.namespace
    if entry.labels:
        metadata["labels"] = dict(entry.labels)
    if entry.annotations:
        metadata["annotations"] = dict(entry.annotations)
    body = {"apiVersion": entry.api_version, "kind": entry.id.kind, "metadata": metadata}
    return msgspec.json.encode(body, order="deterministic").decode()
