"""The table of permissions is what the code calls: nothing is missing from it, and nothing is too much."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from console.permissions import PERMISSIONS, Place, Process, Side, needed
from eno.errors import AlreadyExists, SextonError
from kube.election import Timing
from kube.lease import Candidate
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, NOW, entry, manifest, synthesis
from tests.support.tap import Call, Tap, fail
from tests.support.world import World, cleanup_message, gate_message, record_message, recover_message, retire_message
from watcher.process import queries
from workers.handlers.cleanup import cleanup
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.recover import recover
from workers.handlers.retire import retire

READY = {"ready": "2026-03-01T11:30:00Z", "reconciled": "2026-03-01T11:30:00Z"}
DECIDED = {"status": True, "reason": "NotNeeded", "synthesisUUID": "synthesis-2"}


def granted(process: Process, side: Side) -> set[tuple[str, str, str | None]]:
    """Verb, resource and namespace, the recovery namespace being all there is."""
    return {
        (verb, each.plural, each.namespace(Settings.load(pod_namespace=NAMESPACE)))
        for each in needed([process], side, recovery=True)
        for verb in each.verbs
    }


def asked(call: Call) -> tuple[str, str, str | None]:
    verb, plural = str(call).split(" ")
    return verb, plural, call.namespace


def bury(world: World) -> None:
    world.add_slice("slice-0", [manifest(name="a"), manifest(name="pad", annotations={"x": "x" * 524_100})])
    world.add_slice("slice-1", [manifest(name="b")])
    world.add_composition(current=synthesis(slices=["slice-0", "slice-1"]))
    world.remember([entry(name="gone")])
    recover(recover_message(world.composition()), world.context)


def bury_beyond(world: World) -> None:
    text = manifest(name="pad", annotations={"x": "x" * 524_160})
    world.add_slice("slice-0", [text])
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.remember([entry(name=f"gone-{number}") for number in range(3)])
    recover(recover_message(world.composition()), world.context)


def remember(world: World) -> None:
    world.add_slice("slice-0", [manifest(name="a")])
    world.add_composition(current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=DECIDED, **READY))
    world.remember([entry(name="old")])
    record(record_message(world.composition()), world.context)


def remember_what_is_there(world: World) -> None:
    world.add_slice("slice-0", [manifest(name="a")])
    world.add_composition(current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=DECIDED, **READY))
    world.downstream.before = fail(AlreadyExists("create secrets", status=409), on="create secrets")
    record(record_message(world.composition()), world.context)


def let_go(world: World) -> None:
    world.remember([entry(name="old")], name="former")
    retire(retire_message(), world.context)
    world.clock.advance(days=8)
    retire(retire_message(), world.context)


def clean_up(world: World) -> None:
    composition = world.add_composition(current=synthesis(**READY))
    world.add_slice("old")
    world.clock.advance(hours=2)
    message = cleanup_message("old", uid=composition.uid)
    cleanup(message, world.context)
    cleanup(message, world.context)


def ask_for_a_resynthesis(world: World) -> None:
    world.add_composition(current=synthesis(slices=["lost"], tombstoneRecoveryStatus=DECIDED))
    gate(gate_message(world.composition()), world.context)


LIFE: dict[str, Callable[[World], None]] = {
    "tombstones": bury,
    "overflow": bury_beyond,
    "record": remember,
    "record a name that is taken": remember_what_is_there,
    "retire": let_go,
    "cleanup": clean_up,
    "resynthesis": ask_for_a_resynthesis,
}


def calls_of(world: World, act: Callable[[World], None]) -> dict[Side, set[tuple[str, str, str | None]]]:
    with suppress(SextonError):
        act(world)
    taps = {Side.UPSTREAM: world.upstream, Side.DOWNSTREAM: world.downstream}
    return {side: {asked(call) for call in tap.calls} for side, tap in taps.items()}


@pytest.mark.parametrize("act", LIFE.values(), ids=LIFE)
def test_whatever_a_worker_asks_is_in_the_table(act: Callable[[World], None]) -> None:
    for side, calls in calls_of(World(), act).items():
        assert calls <= granted(Process.WORKER, side)


@pytest.mark.parametrize("side", Side)
def test_whatever_the_table_grants_a_worker_is_asked(side: Side) -> None:
    assert set().union(*(calls_of(World(), act)[side] for act in LIFE.values())) == granted(Process.WORKER, side)


def test_the_table_grants_a_watcher_its_streams_and_its_lease() -> None:
    world = World()
    expected = {
        (verb, query.resource.plural, query.namespace)
        for query in queries(world.loaded.scope).values()
        for verb in ("list", "watch")
    }
    lease = Tap(world.up)
    candidate = Candidate(
        lease, NAMESPACE, "sexton-watcher", Timing(), identity="me", clock=lambda: 0.0, wall=lambda: NOW
    )
    candidate.round()
    candidate.round()
    candidate.release()
    expected |= {asked(call) for call in lease.calls}
    assert granted(Process.WATCHER, Side.UPSTREAM) | granted(Process.WATCHER, Side.DOWNSTREAM) == expected


def test_without_recovery_nothing_is_needed_downstream() -> None:
    assert list(needed(Process, Side.DOWNSTREAM, recovery=False)) == []
    assert all(each.recovery for each in PERMISSIONS if each.place in (Place.RECOVERED, Place.INVENTORIES))


def test_a_subresource_is_written_as_kubectl_has_it() -> None:
    status = next(each for each in PERMISSIONS if each.subresource)
    assert (status.plural, status.qualified) == ("compositions/status", "compositions.eno.azure.io/status")


def test_the_lease_of_the_instance_is_needed_and_no_other() -> None:
    blue = Settings.load(instance="blue", pod_namespace=NAMESPACE)
    names = {(verb, each.name(blue)) for each in PERMISSIONS if each.plural == "leases" for verb in each.verbs}
    assert names == {("create", ""), ("get", "blue-watcher"), ("update", "blue-watcher")}
    assert {each.name(blue) for each in PERMISSIONS if each.plural != "leases"} == {""}


def test_all_namespaces_is_where_the_watch_scope_is_and_recovery_stays_in_its_own() -> None:
    settings = Settings.load(all_namespaces=True, pod_namespace="ops", enable_tombstone_recovery=True)
    places = {each.place: each.namespace(settings) for each in PERMISSIONS}
    assert places == {Place.WATCHED: "", Place.OWN: "ops", Place.RECOVERED: "ops", Place.INVENTORIES: "kube-system"}
