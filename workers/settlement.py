"""Letting go of the inventory of a composition that was deleted cleanly: it owes nothing any more.

Specification 05, *Settled*. A composition that vanishes without this keeps its inventory, which is the history
that recovery exists for.
"""

from __future__ import annotations

from collections.abc import Sequence

from eno.decision import adopted_source
from eno.errors import StartOver
from eno.identity import ResourceId, parse_head
from eno.inventory.replacement import Inventory, Stored
from eno.inventory.secrets import StoredChunk, UnusableChunk
from eno.inventory.selection import decode
from eno.objects import Composition, ResourceSlice
from eno.readiness import Hole, orphans, skips_slices
from workers.context import Context
from workers.freshness import Live, read
from workers.inventories import delete_secret
from workers.reading import list_inventory


def settle(live: Live, slices: Sequence[ResourceSlice | Hole], context: Context) -> None:
    """Remove the snapshots of the composition's name, if nothing in them is left in the downstream cluster.

    The same for history that it adopted from another name and has not replaced yet.

    `slices` are those of the current synthesis, holes included. Raises ApiError or InvalidInventory when it
    cannot be told or done, StartOver when the composition has changed meanwhile.
    """
    composition = live.composition
    if context.settings.scope.outside_recovery(composition) is not None or skips_slices(composition):
        return
    whole = [each for each in slices if isinstance(each, ResourceSlice)]
    if len(whole) < len(slices):
        return
    inventory = Inventory.of(list_inventory(context.downstream, composition))
    for stored in (_adopted(inventory, composition, context), _own(inventory, composition)):
        if orphans(composition) or _recorded(stored) <= deleted_identities(whole):
            _let_go(stored, live, context)


def _let_go(stored: Sequence[Stored], live: Live, context: Context) -> None:
    """Delete each after a fresh look. Raises StartOver when the composition or the Secret has changed since."""
    composition = live.composition
    for each in stored:
        fresh = read(context.upstream, composition.namespace, composition.name)
        if fresh is None or _state(fresh) != _state(live):
            raise StartOver("it has changed since it was read", where=f"composition {composition.title}")
        delete_secret(each, context)


def deleted_identities(slices: Sequence[ResourceSlice]) -> frozenset[ResourceId]:
    """What the states of these slices say is gone from the downstream cluster. Raises MalformedManifest.

    A Patch that was undone says nothing of its target, which belongs to somebody else.
    """
    heads = (
        parse_head(entry.manifest)
        for each in slices
        for entry, state in zip(each.resources, each.states, strict=False)
        if state.deleted
    )
    return frozenset(head.id for head in heads if not head.is_patch)


def _own(inventory: Inventory, composition: Composition) -> list[Stored]:
    """The Secrets of the composition's name, oldest first: what goes last is what recovery would choose."""
    unusable = [
        each for each in inventory.stored if isinstance(each, UnusableChunk) and each.may_belong_to(composition.name)
    ]
    sound = [each for each in inventory.sound if each.source.composition == composition.name]
    return [*unusable, *sorted(sound, key=lambda each: each.source.synthesized)]


def _adopted(inventory: Inventory, composition: Composition, context: Context) -> list[Stored]:
    """History that was taken over from another name and not replaced yet, unless somebody has that name again."""
    name = adopted_source(composition.current) if composition.current else ""
    found = sorted(
        (each for each in inventory.sound if each.source.composition == name), key=lambda each: each.source.synthesized
    )
    return [] if not found or read(context.upstream, composition.namespace, name) is not None else list(found)


def _recorded(own: Sequence[Stored]) -> set[ResourceId]:
    """Every identity in these Secrets. Raises InvalidInventory when one cannot be read: in doubt it is kept."""
    identities: set[ResourceId] = set()
    for each in own:
        if not isinstance(each, StoredChunk):
            raise each.error()
        identities.update(entry.id for entry in decode(each))
    return identities


def _state(live: Live) -> tuple[str, str]:
    """Everything that was decided from: the gate's own write is bound to it as well."""
    return live.composition.uid, live.composition.resource_version
