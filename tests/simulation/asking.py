"""Every task that a message could ask for about what there is, whether or not it is due."""

from __future__ import annotations

from collections.abc import Iterator

from eno.inventory.secrets import LINEAGE_KEY
from eno.objects import Composition
from eno.scope import Scope
from runtime.messages import Message, TaskName, parse
from tests.simulation.state import State


def all_tasks(state: State, scope: Scope) -> Iterator[Message]:
    """About every composition, slice and lineage."""
    for each in state.compositions.values():
        yield from about(each, state, scope)
    owners = {(each.namespace, each.owner.name, each.owner.uid) for each in state.slices.values() if each.owner}
    for namespace, name, uid in sorted(owners):
        yield cleanup(state, namespace, name, uid, scope)
    for secret in state.secrets.values():
        lineage = (secret["metadata"].get("labels") or {}).get(LINEAGE_KEY, "")
        if lineage:
            yield parse(TaskName.RETIRE, {"namespace": scope.recovery_namespace, "lineage": lineage, "scope": scope})


def about(composition: Composition, state: State, scope: Scope) -> Iterator[Message]:
    """About one composition and its current synthesis."""
    payload = {
        "namespace": composition.namespace,
        "name": composition.name,
        "uid": composition.uid,
        "synthesis_uuid": composition.current.uuid if composition.current else "",
        "scope": scope,
    }
    for task in (TaskName.RECOVER, TaskName.GATE, TaskName.RECORD):
        yield parse(task, payload)
    del state


def cleanup(state: State, namespace: str, name: str, uid: str, scope: Scope) -> Message:
    """About every slice of an owner."""
    current = state.compositions.get(f"{namespace}/{name}")
    slices = [each.name for each in state.slices.values() if each.owner and each.owner.uid == uid]
    return parse(
        TaskName.CLEANUP,
        {
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "synthesis_uuid": current.current.uuid if current and current.current else "",
            "slices": slices,
            "scope": scope,
        },
    )
