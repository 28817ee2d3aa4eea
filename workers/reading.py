"""The live reads that rules are fed with: every referenced slice, the lineage, the siblings.

All or nothing: whatever is null, missing, terminating or malformed stops the read with an error, because a
partial answer looks like absence (P9). Only the states are read with their holes, which are a finding there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property

from eno.errors import IncompleteSynthesis, NotFound
from eno.inventory.entries import Entry
from eno.inventory.secrets import INVENTORY_NAMESPACE, LINEAGE_KEY, lineage
from eno.inventory.selection import Lineage, siblings
from eno.objects import Composition, ResourceSlice
from eno.readiness import Hole, skips_slices
from eno.tombstones import Manifests, manifests
from kube.cluster import Cluster, Json, Listing, Query, get_each, list_all
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS

INVENTORY_PAGE = 20
"""Secrets per page where their data is read: each may hold 1 MiB."""


def read_slices(cluster: Cluster, composition: Composition, *, accept_terminating: bool = False) -> list[ResourceSlice]:
    """Every slice of the current synthesis, in reference order, each once.

    Raises IncompleteSynthesis on a null or nameless reference or a terminating slice, ApiError on a failed read.
    """
    names = dict.fromkeys(composition.current.slice_names if composition.current else ())
    named = [name for name in names if name is not None]
    if len(named) < len(names):
        raise IncompleteSynthesis("a slice reference has no name", where=f"composition {composition.title}")
    slices = []
    for obj in get_each(cluster, RESOURCE_SLICES, composition.namespace, named):
        each = ResourceSlice.from_json(obj)
        if each.deleting and not accept_terminating:
            raise IncompleteSynthesis("it is terminating", where=f"resourceslice {each.title}")
        slices.append(each)
    return slices


def read_states(cluster: Cluster, composition: Composition) -> list[ResourceSlice | Hole]:
    """Every slice of the current synthesis whose states count, in reference order, each once, and the holes.

    Only a 404 makes a slice missing. Raises ApiError on any other failed read.
    """
    if composition.current is None or skips_slices(composition):
        return []
    found: list[ResourceSlice | Hole] = []
    for name in dict.fromkeys(composition.current.slice_names):
        if name is None:
            found.append(Hole.NAMELESS)
            continue
        try:
            obj = cluster.get(RESOURCE_SLICES, composition.namespace, name)
        except NotFound:
            found.append(Hole.MISSING)
        else:
            found.append(ResourceSlice.from_json(obj))
    return found


def list_inventory(cluster: Cluster, composition: Composition) -> list[Json]:
    """Every Secret that carries the composition's lineage, from one complete list."""
    selector = f"{LINEAGE_KEY}={lineage(composition.namespace, composition.synthesizer)}"
    query = Query(SECRETS, INVENTORY_NAMESPACE, label_selector=selector)
    return list_all(cluster, query, page_size=INVENTORY_PAGE).items


class Neighbours:
    """The compositions of one namespace, listed when first asked for and then kept for one decision.

    The list ignores selector, opt-in and deletion: whoever shares a lineage may want something of it.
    """

    def __init__(self, cluster: Cluster, composition: Composition) -> None:
        self._cluster = cluster
        self._composition = composition

    @cached_property
    def _listing(self) -> Listing:
        return list_all(self._cluster, Query(COMPOSITIONS, self._composition.namespace))

    @cached_property
    def all(self) -> list[Composition]:
        """Every composition of the namespace."""
        return [Composition.from_json(item) for item in self._listing.items]

    def earliest(self, now: datetime) -> datetime:
        """The earlier of our clock and the API server's: by it nothing is older than it is."""
        return min(now, self._listing.date or now)

    @cached_property
    def siblings(self) -> list[Composition]:
        """Those with the same synthesizer. Of the others, thousands in a large namespace, no view is made."""
        synthesizer = self._composition.synthesizer
        items = (item for item in self._listing.items if not _has_another(item, synthesizer))
        return siblings(self._composition, map(Composition.from_json, items))

    def current_manifests(self) -> list[Manifests]:
        """What each sibling with a synthesized current wants. A terminating slice is still read: in doubt, wanted."""
        return [
            manifests(read_slices(self._cluster, each, accept_terminating=True))
            for each in self.siblings
            if _synthesized(each)
        ]

    def remembered(self, lineage: Lineage, now: datetime) -> Iterable[Entry]:
        """What the newest snapshot of each sibling without a synthesized current lists.

        Raises InvalidInventory when it cannot be told.
        """
        for each in self.siblings:
            if not _synthesized(each):
                snapshot = lineage.newest(each.name, now)
                yield from snapshot.entries() if snapshot else ()


def _has_another(item: Json, synthesizer: str) -> bool:
    """Whether the object certainly names another synthesizer."""
    try:
        found = item["spec"]["synthesizer"]["name"]
    except (KeyError, TypeError):
        return False
    return isinstance(found, str) and found != synthesizer


def _synthesized(composition: Composition) -> bool:
    return composition.current is not None and composition.current.synthesized is not None
