"""What a synthesis without history still owes: inventory − wanted → tombstones.

In doubt nothing is buried (P1): comparison errs on the side of "wanted", siblings count as owners, and a
Namespace or CustomResourceDefinition is held while something wanted lives in it. Rules: specification 02, step 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from eno.errors import MalformedManifest
from eno.identity import Head, ResourceId, Wanted, parse_head
from eno.inventory.entries import Entry
from eno.objects import ResourceSlice

MASS_BURIAL_MINIMUM = 20
"""Identities below which no burial counts as a mass burial."""


CONTAINERS = frozenset({"Namespace", "CustomResourceDefinition"})
"""The kinds of resources that others live in: no other can be held."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The heads of a synthesis' manifests, desired and tombstones apart.

    `unreconciled` are the tombstones that Eno has not carried out yet. `loaded` says that some slice has states:
    Eno read the whole synthesis then, and does not read it again.
    """

    desired: tuple[Head, ...] = ()
    tombstones: tuple[Head, ...] = ()
    unreconciled: tuple[Head, ...] = ()
    loaded: bool = False

    def identities(self) -> Iterable[ResourceId]:
        """Every identity a manifest stands for, tombstones and Patch targets included."""
        return (head.id for head in (*self.desired, *self.tombstones))


@dataclass(frozen=True, slots=True)
class Debt:
    """What is owed: `buried` becomes tombstones, `held` must wait because something lives in it."""

    buried: tuple[Entry, ...] = ()
    held: tuple[ResourceId, ...] = ()


class Holds:
    """The namespaces and API groups that wanted resources live in."""

    def __init__(self, wanted: Iterable[ResourceId]) -> None:
        self._namespaces: set[str] = set()
        self._groups: set[str] = set()
        for identity in wanted:
            self._groups.add(identity.group)
            if not identity.cluster_scoped:
                # A namespaced manifest that names none is created in "default".
                self._namespaces.add(identity.namespace or "default")

    def holds(self, identity: ResourceId) -> bool:
        """Whether burying this Namespace or CustomResourceDefinition would take something wanted with it."""
        group, kind, _, name = identity
        if kind == "Namespace" and group == "":
            return name in self._namespaces
        if kind == "CustomResourceDefinition" and group == "apiextensions.k8s.io":
            return name.partition(".")[2] in self._groups
        return False


def manifests(slices: Iterable[ResourceSlice]) -> Manifests:
    """The heads of everything in these slices.

    Raises MalformedManifest, naming slice and index, when one cannot be read: what is unknown may be wanted.
    """
    desired, tombstones, unreconciled = [], [], []
    loaded = False
    for each in slices:
        loaded = loaded or bool(each.states)
        for index, entry in enumerate(each.resources):
            head = _head(each, index)
            if not entry.deleted:
                desired.append(head)
                continue
            tombstones.append(head)
            if index >= len(each.states) or not each.states[index].reconciled:
                unreconciled.append(head)
    return Manifests(tuple(desired), tuple(tombstones), tuple(unreconciled), loaded)


def missing(inventory: Iterable[Entry], current: Manifests) -> list[Entry]:
    """What the inventory lists and no current manifest mentions, in inventory order, each identity once."""
    mentioned = frozenset(current.identities())
    # Most of an inventory is mentioned word for word; only the rest is compared with care.
    absent = {entry.id: entry for entry in inventory if entry.id not in mentioned}
    wanted = Wanted(current.identities() if absent else ())
    return [entry for identity, entry in absent.items() if identity not in wanted]


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
    theirs = [head.id for manifests in sibling_manifests for head in manifests.desired]
    theirs += [entry.id for entry in sibling_inventory]
    wanted = Wanted(theirs)
    owed = [entry for entry in absent if entry.id not in wanted] if theirs else absent
    containers = [entry.id for entry in owed if entry.id.kind in CONTAINERS]
    if not containers:
        return Debt(tuple(owed))
    holds = Holds([*(head.id for head in current.desired), *theirs])
    held = dict.fromkeys(identity for identity in containers if holds.holds(identity))
    return Debt(tuple(entry for entry in owed if entry.id not in held), tuple(held))


def unseen(inventory: Iterable[Entry], current: Manifests, debt: Debt) -> bool:
    """Whether Eno loaded the synthesis without (all of) the tombstones that this recovery owes it.

    An earlier attempt may have written them already; what Eno has reconciled, it has seen.
    """
    if not current.loaded:
        return False
    graves = Wanted(head.id for head in current.unreconciled)
    return bool(debt.buried) or any(entry.id in graves for entry in inventory)


def mass_burial(debt: Debt, inventory_size: int) -> bool:
    """Whether more than half of an inventory of at least MASS_BURIAL_MINIMUM identities would be buried."""
    return inventory_size >= MASS_BURIAL_MINIMUM and 2 * len(debt.buried) > inventory_size


# Fields in the order of their names, as everything that is encoded here.
class _Metadata(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    name: str
    namespace: str = ""


class _Tombstone(msgspec.Struct, rename="camel", gc=False):
    api_version: str
    kind: str
    metadata: _Metadata


_encoder = msgspec.json.Encoder(order="deterministic")


def tombstone(entry: Entry) -> str:
    """The manifest of a tombstone, compact JSON. It carries no readiness expression, which could block it."""
    _, kind, namespace, name = entry.id
    metadata = _Metadata(annotations=entry.annotations, labels=entry.labels, name=name, namespace=namespace)
    return _encoder.encode(_Tombstone(entry.api_version, kind, metadata)).decode()


def _head(each: ResourceSlice, index: int) -> Head:
    try:
        return parse_head(each.resources[index].manifest)
    except MalformedManifest as error:
        raise MalformedManifest(error.what, where=f"resourceslice {each.title} manifest {index}") from error
