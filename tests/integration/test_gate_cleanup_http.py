"""The main paths of gate and cleanup over HTTP: on the in-memory API server, and on a real kube-apiserver.

What a guard is worth depends on how a server answers when it does not hold, so both are asked.
"""

from __future__ import annotations

from devcluster.eno import Eno
from eno.times import format_time
from kube.resources import (
    COMPOSITIONS,
    RESOURCE_SLICES,
)
from tests.support.factories import NAMESPACE, UUID, Json, decided, entry, manifest, synthesis
from tests.support.tap import once
from tests.support.world import World, cleanup_message, gate_message, recover_message
from workers.handlers.cleanup import cleanup
from workers.handlers.gate import gate
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome

OURS, THEIRS = "eno.azure.io/cleanup", "example.org/hold"
DECIDED: Json = {"tombstoneRecoveryStatus": decided()}


def run_gate(world: World, uuid: str = UUID) -> Outcome:
    return gate(gate_message(world.composition(), uuid), world.context)


def run_cleanup(world: World, *names: str) -> Outcome:
    world.clock.advance(minutes=1)
    return cleanup(cleanup_message(*names, uid=world.composition().uid), world.context)


def readiness(world: World) -> tuple[str | None, str | None]:
    current = world.up.get(COMPOSITIONS, NAMESPACE, "shop")["status"]["currentSynthesis"]
    return current.get("reconciled"), current.get("ready")


def test_a_composition_is_held_decided_and_then_ready_with_its_tombstones(world: World) -> None:
    world.add_composition(current=synthesis(slices=["a"], ready=format_time(world.clock())))
    world.add_slice("a", [manifest(name="kept")])
    world.remember([entry(name="kept"), entry(name="lost")])
    assert run_gate(world) == Outcome(Kind.DONE, "cleared a foreign readiness")
    assert readiness(world) == (None, None)
    assert run_gate(world).kind is Kind.UNCHANGED, "held"
    assert recover(recover_message(world.composition()), world.context).kind is Kind.DONE
    assert run_gate(world) == Outcome(Kind.UNCHANGED, "slice a: 2 of 2 resources have no state yet")
    Eno(world.up, world.clock).reconcile(NAMESPACE, "shop")
    assert run_gate(world).kind is Kind.DONE
    assert readiness(world) == (format_time(world.clock()), format_time(world.clock()))
    before = len(world.writes)
    assert run_gate(world).kind is Kind.UNCHANGED
    assert len(world.writes) == before


def test_a_verdict_that_is_overtaken_is_refused_and_made_anew(world: World) -> None:
    world.add_composition(current=synthesis(slices=["a"], **DECIDED))
    states = [{"reconciled": True, "ready": format_time(world.clock())}]
    world.add_slice("a", [manifest()], states=states)
    world.upstream.before = once(
        lambda: world.patch_composition(subresource="status", status={"currentSynthesis": {"uuid": "next"}}),
        on="patch compositions/status",
    )
    assert run_gate(world) == Outcome(Kind.SUPERSEDED, "another synthesis is current")
    assert readiness(world) == (None, None)


def test_a_resynthesis_is_requested_once_for_a_slice_that_is_gone(world: World) -> None:
    world.add_composition(current=synthesis(slices=["gone"], **DECIDED))
    for _ in range(3):
        run_gate(world)
    assert world.composition().annotations["eno.azure.io/force-resynthesis"] == UUID
    assert world.writes == ["patch compositions"]


def test_a_slice_that_nothing_needs_goes_and_what_is_referenced_stays(world: World) -> None:
    world.add_composition(current=synthesis(slices=["a"]))
    world.add_slice("a", [manifest()])
    world.add_slice("b", [manifest(name="other")])
    for kind in (Kind.DONE, Kind.DONE, Kind.UNCHANGED):
        assert run_cleanup(world, "a", "b").kind is kind
    assert [each["metadata"]["name"] for each in world.all(RESOURCE_SLICES, NAMESPACE)] == ["a"]


def test_a_delete_of_a_slice_that_changed_is_refused_and_judged_anew(world: World) -> None:
    world.add_composition()
    world.add_slice("a", [manifest()])

    def take_up() -> None:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"labels": {"touched": "true"}}})
        world.patch_composition(subresource="status", status={"previousSynthesis": {"resourceSlices": [{"name": "a"}]}})

    world.upstream.before = once(take_up, on="delete resourceslices")
    assert run_cleanup(world, "a").reason == "1 × keep: the previous synthesis references it"
    assert not world.slice("a").deleting


def test_finalizers_of_others_survive_also_when_they_change_meanwhile(world: World) -> None:
    world.add_composition()
    world.add_slice("a", [manifest()], finalizers=[THEIRS, OURS, "example.org/other"])
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "a")

    def let_go() -> None:
        after = {"metadata": {"finalizers": [OURS, "example.org/other"]}}
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", after)

    world.upstream.before = once(let_go, on="patch resourceslices")
    assert run_cleanup(world, "a").kind is Kind.DONE
    assert world.slice("a").metadata.finalizers == ("example.org/other",)
