"""History over HTTP: a rotation with crashes, a grace, a settlement, on the in-memory and on a real API server.

What a precondition, a selector on metadata or an immutable Secret is worth depends on the server, so both are asked.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from eno.inventory.entries import CHUNK_LIMIT
from eno.inventory.secrets import snapshot
from eno.inventory.selection import Lineage, Snapshot, select
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.times import format_time
from kube.resources import COMPOSITIONS, SECRETS
from runtime.messages import RecordMessage
from tests.support.factories import NAMESPACE, Json, decided, entry, manifest, synthesis
from tests.support.rotation import LIMIT, owned, uuid
from tests.support.tap import Call, once
from tests.support.world import World, gate_message, record_message, retire_message
from workers.handlers import record as module
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.retire import retire
from workers.outcome import Kind

KUBE_SYSTEM = "kube-system"
SIZES = (3, 1, 2)


class Crash(BaseException):
    """The end of the process: nothing handles it."""


def inventories(world: World) -> list[Json]:
    """Every Secret of ours; a real server has others."""
    return [each for each in world.secrets() if "eno.azure.io/inventory-lineage" in each["metadata"].get("labels", {})]


def publish(world: World, number: int) -> RecordMessage:
    """Make a synthesis with its slice current, ready and decided."""
    instant = format_time(world.clock() - timedelta(hours=1) + timedelta(seconds=number))
    world.add_slice(f"slice-{number}", [manifest(name=name) for name in owned(number, SIZES[number])])
    current = synthesis(
        uuid(number),
        slices=[f"slice-{number}"],
        synthesized=instant,
        ready=instant,
        reconciled=instant,
        tombstoneRecoveryStatus=decided("NotNeeded", uuid(number)),
    )
    world.patch_composition(subresource="status", status={"currentSynthesis": current})
    return record_message(world.composition(), uuid(number))


def history_is_whole(world: World) -> None:
    found = select(Lineage.read(inventories(world)), "shop", world.clock())
    assert isinstance(found, Snapshot)
    number = int(found.source.synthesis_uuid.rpartition("-")[2])
    assert [each.id.name for each in found.entries()] == owned(number, SIZES[number])


def test_a_rotation_with_a_crash_after_every_write_never_loses_history(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "snapshot", partial(snapshot, limit=LIMIT))
    world.add_composition(current={})
    record(publish(world, 0), world.context)
    assert len(inventories(world)) == SIZES[0]

    def crash(call: Call) -> None:
        if call.writes:
            history_is_whole(world)
            raise Crash

    for number in (1, 2):
        message = publish(world, number)
        crashes = 0
        world.downstream.after = crash
        for _ in range(20):
            try:
                outcome = record(message, world.context)
            except Crash:
                crashes += 1
            else:
                break
        world.downstream.after = None
        assert crashes >= SIZES[number - 1], "each delete, and the creates"
        assert outcome.kind is Kind.UNCHANGED
        assert len(inventories(world)) == SIZES[number]
    before = len(world.writes)
    assert record(message, world.context).kind is Kind.UNCHANGED
    assert len(world.writes) == before


def test_a_secret_that_was_edited_since_it_was_listed_survives_its_delete(world: World) -> None:
    world.add_composition(current={})
    (old,) = world.remember([entry(name="old")])
    name = old["metadata"]["name"]
    loosened: Json = {"metadata": {"labels": {"eno.azure.io/inventory-lineage": None}}}
    world.downstream.before = once(
        lambda: world.down.merge_patch(SECRETS, KUBE_SYSTEM, name, loosened), on="delete secrets"
    )
    message = publish(world, 0)
    assert record(message, world.context).kind in (Kind.DONE, Kind.UNCHANGED)
    assert world.down.get(SECRETS, KUBE_SYSTEM, name)["metadata"]["uid"] == old["metadata"]["uid"]
    world.down.delete(SECRETS, KUBE_SYSTEM, name)


def test_an_unclaimed_inventory_is_marked_unmarked_marked_and_deleted(world: World) -> None:
    world.remember([entry()])

    def mark() -> str | None:
        (secret,) = inventories(world)
        found: str | None = secret["metadata"]["annotations"].get(UNCLAIMED_SINCE_ANNOTATION)
        return found

    assert retire(retire_message(), world.context).kind is Kind.WAITING
    assert mark() is not None
    world.add_composition(current=synthesis(tombstoneRecoveryStatus=decided()))
    assert retire(retire_message(), world.context).kind is Kind.DONE
    assert mark() is None
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    retire(retire_message(), world.context)
    # Only our clock says that the grace is over: the server's Date does not.
    world.clock.now = datetime.now(UTC) + timedelta(days=8)
    assert retire(retire_message(), world.context).kind is Kind.WAITING
    (secret,) = inventories(world)
    past = {UNCLAIMED_SINCE_ANNOTATION: "2020-01-01T00:00:00Z"}
    world.down.merge_patch(SECRETS, KUBE_SYSTEM, secret["metadata"]["name"], {"metadata": {"annotations": past}})
    assert retire(retire_message(), world.context).kind is Kind.DONE
    assert inventories(world) == []


def test_a_cleanly_deleted_composition_leaves_no_inventory(world: World) -> None:
    world.add_composition(
        current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=decided()),
        metadata={"finalizers": ["eno.azure.io/cleanup"]},
    )
    world.add_slice("slice-0", [manifest(name="a")], states=[{"reconciled": True, "deleted": True}])
    world.remember([entry(name="a")])
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    gate(gate_message(world.composition()), world.context)
    assert inventories(world) == []
    current = world.composition().current
    assert current is not None
    assert current.reconciled is not None


def test_a_chunk_of_exactly_the_limit_is_accepted_and_may_be_marked(world: World) -> None:
    empty = len(entry(labels={"k": "ü"}).encode())
    full = entry(labels={"k": "ü" + "x" * (CHUNK_LIMIT - 2 - empty)})
    (secret,) = world.remember([full])
    assert len(base64.b64decode(secret["data"]["inventory.json"])) == CHUNK_LIMIT
    retire(retire_message(), world.context)
    (marked,) = inventories(world)
    assert UNCLAIMED_SINCE_ANNOTATION in marked["metadata"]["annotations"]
    assert marked["data"] == secret["data"]
