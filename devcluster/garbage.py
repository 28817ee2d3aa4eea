"""What the controller manager does beside an API server: owner garbage collection and emptying namespaces.

`sweep` is one deterministic pass to the end; the server calls it in the background, the simulator when it
wants to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devcluster.builtin import NAMESPACE_FINALIZER
from devcluster.kinds import Kind
from devcluster.objects import Stored, decode
from devcluster.store import DeleteOptions, Store
from kube.cluster import Json
from kube.resources import NAMESPACES

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class _Item:
    """An object with the part of it that garbage collection looks at."""

    kind: Kind
    stored: Stored
    metadata: Json

    @property
    def owners(self) -> list[Json]:
        return self.metadata.get("ownerReferences") or []

    @property
    def finalizers(self) -> list[str]:
        return self.metadata.get("finalizers") or []

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.metadata


def sweep(store: Store) -> int:
    """Collect until nothing is left to collect; returns how many writes that took."""
    start = store.version
    before = -1
    while before != store.version:
        before = store.version
        items = list(_items(store))
        _settle_owners(store, items)
        _delete_dependents(store, items)
        _empty_namespaces(store, items)
    return store.version - start


def _items(store: Store) -> Iterator[_Item]:
    for kind in list(store.kinds()):
        for _, stored in store.table(kind).select(""):
            yield _Item(kind, stored, decode(stored.metadata))


def _settle_owners(store: Store, items: list[_Item]) -> None:
    """Take the finalizers of propagation away from owners whose dependents are dealt with."""
    for owner in items:
        if not owner.deleting or not {_ORPHAN, _FOREGROUND} & set(owner.finalizers):
            continue
        dependents = [item for item in items if _owned_by(item, owner)]
        if _ORPHAN in owner.finalizers:
            for item in dependents:
                _disown(store, item, owner)
            _release(store, owner, _ORPHAN)
        elif not any(_blocks(item, owner) for item in dependents):
            _release(store, owner, _FOREGROUND)


def _delete_dependents(store: Store, items: list[_Item]) -> None:
    """Delete what no living owner wants any more. An owner of an unknown kind counts as living."""
    living = {item.stored.uid for item in items if not (item.deleting and _FOREGROUND in item.finalizers)}
    served = {(kind.resource.api_version.partition("/")[0], kind.resource.kind) for kind in store.kinds()}
    for item in items:
        if item.deleting or not item.owners:
            continue
        if not any(_living(owner, living, served) for owner in item.owners):
            _delete(store, item)


def _empty_namespaces(store: Store, items: list[_Item]) -> None:
    for home in items:
        if home.kind.resource != NAMESPACES or not home.deleting:
            continue
        content = [item for item in items if item.stored.namespace == home.stored.name]
        for item in content:
            _delete(store, item)
        current = store.table(home.kind).get(home.stored.name)
        if content or current is None:
            continue
        body = current.decoded(home.kind)
        kept = [name for name in body["spec"].get("finalizers", ()) if name != NAMESPACE_FINALIZER]
        body["spec"]["finalizers"] = kept
        store.update(home.kind, None, home.stored.name, body, "finalize")


def _owned_by(item: _Item, owner: _Item) -> bool:
    return any(reference.get("uid") == owner.stored.uid for reference in item.owners)


def _blocks(item: _Item, owner: _Item) -> bool:
    return any(
        reference.get("uid") == owner.stored.uid and reference.get("blockOwnerDeletion") for reference in item.owners
    )


def _living(reference: Json, living: set[str], served: set[tuple[str, str]]) -> bool:
    known = (reference["apiVersion"].partition("/")[0], reference["kind"]) in served
    return not known or reference["uid"] in living


def _disown(store: Store, item: _Item, owner: _Item) -> None:
    kept = [reference for reference in item.owners if reference["uid"] != owner.stored.uid]
    _set_metadata(store, item, "ownerReferences", kept)


def _release(store: Store, item: _Item, finalizer: str) -> None:
    _set_metadata(store, item, "finalizers", [name for name in item.finalizers if name != finalizer])


def _set_metadata(store: Store, item: _Item, member: str, value: list[Json] | list[str]) -> None:
    current = store.table(item.kind).get(_key(item.stored))
    if current is None:
        return
    body = current.decoded(item.kind)
    body["metadata"][member] = value
    store.update(item.kind, item.stored.namespace or None, item.stored.name, body)


def _delete(store: Store, item: _Item) -> None:
    if store.table(item.kind).get(_key(item.stored)) is not None:
        options = DeleteOptions(uid=item.stored.uid)
        store.delete(item.kind, item.stored.namespace or None, item.stored.name, options)


def _key(stored: Stored) -> str:
    return f"{stored.namespace}/{stored.name}" if stored.namespace else stored.name
