"""What recover would bury, and where: read and decided by the worker's own code, and never written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ValidationError

from eno.decision import Reason, nothing_to_decide
from eno.errors import InvalidInventory, SextonError, Terminal, UsageError
from eno.identity import ResourceId, parse_head
from eno.objects import Composition
from eno.packing import Append, overflow_slice
from kube.cluster import Json
from runtime.messages import Name, Namespace
from workers.context import Context
from workers.freshness import Live, read
from workers.outcome import Outcome
from workers.recovery import Prepared, prepare


@dataclass(frozen=True, slots=True)
class SliceWrite:
    """Tombstones that are appended to an existing slice, or make up a new overflow slice."""

    operation: Literal["append", "create"]
    slice: str
    tombstones: tuple[ResourceId, ...]

    def to_json(self) -> Json:
        """For machines."""
        tombstones = [identity._asdict() for identity in self.tombstones]
        return {"operation": self.operation, "slice": self.slice, "tombstones": tombstones}


@dataclass(frozen=True, slots=True)
class Preview:
    """A recovery as it would go now.

    `decision` is the status object that would be published, or None when there is nothing to do: then
    `note` says why. `note` also holds what people should hear of before it is carried out. `cause` is the error
    that keeps the recovery from being decided.
    """

    composition: str
    uid: str
    synthesis_uuid: str
    decision: Json | None = None
    writes: tuple[SliceWrite, ...] = ()
    held: tuple[ResourceId, ...] = ()
    inventory_size: int = 0
    note: str = ""
    cause: SextonError | None = None

    def to_json(self) -> Json:
        """For machines."""
        return {
            "composition": self.composition,
            "uid": self.uid,
            "synthesis": self.synthesis_uuid,
            "decision": self.decision,
            "writes": [write.to_json() for write in self.writes],
            "held": [identity._asdict() for identity in self.held],
            "inventory": self.inventory_size,
            "note": self.note,
        }


class Target(BaseModel):
    """A composition as a person names it."""

    namespace: Namespace
    name: Name


def parse_target(text: str) -> Target:
    """The composition named by `namespace/name`. Raises UsageError."""
    namespace, _, name = text.partition("/")
    try:
        return Target(namespace=namespace, name=name)
    except ValidationError as error:
        raise UsageError(f"{text!r} is not a composition", hint="write namespace/name") from error


def preview(context: Context, namespace: str, name: str) -> Preview:
    """The plan for a composition, from live reads alone.

    Scope is left out of it: what a worker would do that looks after this composition. Raises ApiError and
    MalformedObject when the composition cannot be read, Terminal when it does not exist.
    """
    live = read(context.upstream, namespace, name)
    if live is None:
        raise Terminal(
            "does not exist", where=f"composition {namespace}/{name}", hint="check the namespace and the name"
        )
    return preview_of(live, context)


def preview_of(live: Live, context: Context) -> Preview:
    """The plan for a composition that was just read."""
    why = settled(live.composition)
    if why:
        return _undecided(live.composition, f"nothing to do: {why}")
    found = prepare(live, context)
    if isinstance(found, Outcome):
        until = f" until {found.until:%Y-%m-%dT%H:%M:%SZ}" if found.until else ""
        return _undecided(live.composition, f"{found.kind}{until}: {found.reason}")
    return _decided(live.composition, found, waits=context.settings.acknowledge_mass_burial)


def settled(composition: Composition) -> str:
    """Why recover has nothing to do here, with the decision where that is why; empty when it has."""
    why = nothing_to_decide(composition)
    decision = composition.current.recovery if composition.current else None
    return f"{why} ({decision.reason})" if why == "decided" and decision else why or ""


def slice_writes(prepared: Prepared) -> tuple[SliceWrite, ...]:
    """The writes in the order in which recover makes them."""
    writes = []
    for step in prepared.plan.steps:
        if isinstance(step, Append):
            writes.append(SliceWrite("append", step.slice.name, _identities(step.tombstones)))
        else:
            name = overflow_slice(prepared.live.composition, step)["metadata"]["name"]
            writes.append(SliceWrite("create", name, _identities(step)))
    return tuple(writes)


def _decided(composition: Composition, prepared: Prepared, *, waits: bool) -> Preview:
    notes = [prepared.warning]
    if prepared.mass_burial:
        notes.append("More than half of the inventory would be buried.")
        notes += ["It waits for the acknowledging annotation."] if waits else []
    cause = prepared.cause
    if cause is None and prepared.decision.reason is Reason.INVENTORY_INVALID:
        cause = InvalidInventory(prepared.decision.message, hint="restore or delete it; nothing is buried until then")
    return replace(
        _undecided(composition),
        decision=prepared.decision.to_status(_uuid(composition)),
        writes=slice_writes(prepared),
        held=prepared.debt.held,
        inventory_size=prepared.inventory_size,
        note=" ".join(note for note in notes if note),
        cause=cause,
    )


def _undecided(composition: Composition, note: str = "") -> Preview:
    return Preview(composition.title, composition.uid, _uuid(composition), note=note)


def _uuid(composition: Composition) -> str:
    return composition.current.uuid if composition.current else ""


def _identities(manifests: Iterable[str]) -> tuple[ResourceId, ...]:
    return tuple(parse_head(manifest).id for manifest in manifests)
