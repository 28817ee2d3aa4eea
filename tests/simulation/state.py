"""Both clusters at one instant, as the promises look at them, and what a run has come to, without its accidents.

Views are made once per stored version and shared by all runs: a few hundred versions make up many thousand runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from devcluster.objects import Stored, decode
from devcluster.store import Store
from eno.identity import ResourceId
from eno.inventory.secrets import INVENTORY_NAMESPACE
from eno.objects import FORCE_RESYNTHESIS_ANNOTATION, Composition, ResourceSlice, Synthesis
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.cluster import Json
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS, Resource

T = TypeVar("T")

_SHARED = 200_000
_VERSION = re.compile(rb'"resourceVersion":"\d+"')
_NOTES = "eno.azure.io/inventory-"


@dataclass(frozen=True, slots=True)
class State:
    """Everything that promises are about, by `namespace/name`, and what time it is."""

    compositions: Mapping[str, Composition]
    slices: Mapping[str, ResourceSlice]
    secrets: Mapping[str, Json]
    now: datetime

    @classmethod
    def of(cls, up: Store, down: Store, now: datetime) -> State:
        """What the two stores hold."""
        return cls(
            {key: _view(each, Composition.from_json) for key, each in items(up, COMPOSITIONS)},
            slice_views(up),
            {key: _view(each, _itself) for key, each in items(down, SECRETS)},
            now,
        )

    def siblings(self, composition: Composition) -> Iterator[Composition]:
        """The other compositions of its namespace with its synthesizer."""
        for each in self.compositions.values():
            same = (each.namespace, each.synthesizer) == (composition.namespace, composition.synthesizer)
            if same and each.name != composition.name:
                yield each

    def slices_of(self, composition: Composition, synthesis: Synthesis | None) -> list[ResourceSlice]:
        """The slices that a synthesis names, those of them that exist."""
        names = synthesis.slice_names if synthesis else ()
        keys = (f"{composition.namespace}/{name}" for name in names)
        return [self.slices[key] for key in keys if key in self.slices]


def items(store: Store, resource: Resource) -> list[tuple[str, Stored]]:
    """The objects of a resource in key order. System namespaces hold inventories only."""
    kind = store.kind(resource.group, resource.plural)
    if kind is None:
        raise AssertionError(f"{resource.plural} are not served")
    return store.table(kind).select(f"{INVENTORY_NAMESPACE}/" if resource is SECRETS else "")


_views: dict[bytes, Any] = {}


def forget() -> None:
    """Read everything anew: the rules are other ones now."""
    _views.clear()


def _view(each: Stored, make: Callable[[Json], T]) -> T:
    found: T | None = _views.get(each.rest)
    if found is None:
        if len(_views) > _SHARED:
            _views.clear()
        found = _views[each.rest] = make(decode(b"{" + each.rest))
    return found


def _itself(obj: Json) -> Json:
    return obj


def composition_views(store: Store) -> list[tuple[Composition, Json]]:
    """Every composition, with the JSON that nobody may change."""
    found = items(store, COMPOSITIONS)
    return [(_view(each, Composition.from_json), _raw(each)) for _, each in found]


def slice_views(store: Store) -> dict[str, ResourceSlice]:
    """Every slice by `namespace/name`."""
    return {key: _view(each, ResourceSlice.from_json) for key, each in items(store, RESOURCE_SLICES)}


_raws: dict[bytes, Json] = {}


def _raw(each: Stored) -> Json:
    found = _raws.get(each.rest)
    if found is None:
        if len(_raws) > _SHARED:
            _raws.clear()
        found = _raws[each.rest] = decode(b"{" + each.rest)
    return found


_numbers: dict[bytes, int] = {}
_numbered: dict[bytes, int] = {}


def fingerprint(store: Store, *resources: Resource) -> Hashable:
    """Equal for stores that hold the same objects, whatever their resourceVersions."""
    return tuple(_number(each) for resource in resources for _, each in items(store, resource))


def _number(each: Stored) -> int:
    found = _numbered.get(each.rest)
    if found is None:
        if len(_numbered) > _SHARED:
            _numbered.clear()
        found = _numbered[each.rest] = _numbers.setdefault(_VERSION.sub(b"", each.rest), len(_numbers))
    return found


def summary(state: State, resources: Iterable[ResourceId]) -> tuple[str, ...]:
    """What a run has come to, one line per object, and what exists downstream.

    Times become whether they are set, resourceVersions are dropped; uids, UUIDs and generated names become the role
    that they play. Tombstones that were carried out are dropped, and the syntheses before the current one with their
    slices: whether Eno passed them on depends on when it looked. What they did is told by what exists downstream, and
    that nothing is left over by P6. Everything else is compared as it is.
    """
    roles: dict[str, str] = {}
    for key, each in state.compositions.items():
        named = (("in-flight", each.in_flight), ("current", each.current))
        roles |= {synthesis.uuid: f"{role} of {key}" for role, synthesis in named if synthesis and synthesis.uuid}
        roles[each.uid] = key
    lines = [_composition(key, each, roles, state) for key, each in state.compositions.items()]
    lines += [_secret(each, roles) for each in state.secrets.values()]
    return tuple(sorted([*lines, *(f"exists: {each}" for each in resources)]))


def _contents(each: ResourceSlice, roles: Mapping[str, str]) -> list[str]:
    owner = roles.get(each.owner.uid, "gone") if each.owner else "nobody"
    lines = []
    for index, entry in enumerate(each.resources):
        state = each.states[index] if index < len(each.states) else None
        told = (state.reconciled, state.ready is not None, state.deleted) if state else "no state"
        if not (entry.deleted and state is not None and state.reconciled):
            lines.append(f"{'-' if entry.deleted else '+'} {entry.manifest} of {owner}: {told} {_going(each.deleting)}")
    return lines


def _composition(key: str, each: Composition, roles: Mapping[str, str], state: State) -> str:
    notes = {name: value for name, value in each.annotations.items() if not name.endswith("/touched")}
    if FORCE_RESYNTHESIS_ANNOTATION in notes:
        notes[FORCE_RESYNTHESIS_ANNOTATION] = roles.get(notes[FORCE_RESYNTHESIS_ANNOTATION], "an older one")
    head = f"composition {key} {notes} {each.labels} {each.metadata.finalizers} {_going(each.deleting)}"
    syntheses = [
        f"{role}: {_synthesis(each, found, roles, state)}"
        for role, found in (("in-flight", each.in_flight), ("current", each.current))
        if found is not None
    ]
    return "\n    ".join([head, *syntheses])


def _synthesis(of: Composition, each: Synthesis, roles: Mapping[str, str], state: State) -> str:
    decision = each.recovery
    told = (
        (decision.status, decision.reason, decision.message, roles.get(decision.synthesis_uuid)) if decision else None
    )
    times = [field for field in ("synthesized", "reconciled", "ready", "canceled") if getattr(each, field)]
    holes = len(each.slice_names) - len(state.slices_of(of, each))
    contents = sorted(line for one in state.slices_of(of, each) for line in _contents(one, roles))
    head = f"{times} required={each.recovery_required} {told} {holes} slices missing"
    return "\n        ".join([head, *contents])


def _secret(each: Json, roles: Mapping[str, str]) -> str:
    notes = each["metadata"].get("annotations") or {}
    uuid = notes.get(f"{_NOTES}synthesis-uuid", "")
    kept = [notes.get(f"{_NOTES}{name}") for name in ("composition-name", "chunk-index", "chunk-count")]
    marked = UNCLAIMED_SINCE_ANNOTATION in notes
    return f"secret {kept} {roles.get(uuid, uuid)} {each.get('data')} marked={marked}"


def _going(deleting: bool) -> str:
    return "deleting" if deleting else "staying"
