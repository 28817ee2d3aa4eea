"""What is counted: each end of a task once, each decision when published, each tombstone when written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eno.errors import Refused, SextonError, Unreachable
from eno.packing import overflow_slice
from eno.tombstones import tombstone
from kube.resources import EVENTS, RESOURCE_SLICES
from tests.support.factories import NAMESPACE, entry, manifest, synthesis
from tests.support.tally import Tally
from tests.support.tap import fail
from tests.support.world import World, gate_message, recover_message
from tests.unit.workers.test_execution import Bench, message
from workers.handlers.gate import gate
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome


def recovered(world: World) -> Tally:
    tally = Tally()
    recover(recover_message(world.composition()), replace(world.context, meter=tally))
    return tally


def lost(world: World, *names: str, room: bool = True) -> None:
    """History lists `kept` and these names, the current slice holds `kept` alone."""
    world.add_composition(current=synthesis(slices=["full"]))
    world.add_slice("full", [manifest(name="kept"), *([] if room else [manifest(name="x" * 524_100)])])
    world.remember([entry(name=each) for each in ("kept", *names)])


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        pytest.param(Outcome(Kind.DONE), "done", id="an outcome"),
        pytest.param(Unreachable("get"), "retry", id="an error that may pass"),
        pytest.param(Refused("patch", status=400), "parked", id="an error that stays"),
        pytest.param(ZeroDivisionError(), "retry", id="a defect"),
    ],
)
def test_an_execution_is_counted_by_how_it_ended_and_timed(end: Outcome | Exception, outcome: str) -> None:
    bench = Bench(end=end)

    def take_two_seconds() -> None:
        bench.seconds += 2.0

    bench.during = take_two_seconds
    bench.execute()
    assert bench.tally.totals == {
        ("sexton_tasks_total", "recover", outcome): 1,
        ("sexton_task_duration_seconds", "recover"): 2,
    }


def test_messages_that_reach_no_handler_are_counted_as_well() -> None:
    bench = Bench()
    bench.execute({})
    bench.hints.begin(message(), "another")
    bench.execute()
    assert bench.tally.totals["sexton_tasks_total", "recover", "rejected"] == 1
    assert bench.tally.totals["sexton_tasks_total", "recover", "merged"] == 1


def test_a_recovery_counts_its_decision_and_its_tombstones() -> None:
    world = World()
    lost(world, "lost", "gone")
    assert recovered(world).totals == {
        ("sexton_decisions_total", "FinishedTombstoneRecovery"): 1,
        ("sexton_tombstones_written_total",): 2,
        ("sexton_identities_held_total",): 0,
    }
    assert recovered(world).totals == {}, "nothing is left to do"


def test_what_is_held_is_counted() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["full"]))
    world.add_slice("full", [manifest(name="kept", namespace="shop")])
    world.remember([entry(name="kept"), entry("Namespace", "shop", "")])
    assert recovered(world).totals["sexton_identities_held_total",] == 1


def test_an_overflow_slice_of_an_earlier_attempt_is_not_counted_again() -> None:
    world = World()
    lost(world, "lost", room=False)
    body = overflow_slice(world.composition(), [tombstone(entry(name="lost"))])
    world.up.create(RESOURCE_SLICES, NAMESPACE, body)
    assert recovered(world).totals["sexton_tombstones_written_total",] == 0
    assert world.tombstones() == ["lost"]


def test_a_retriable_decision_is_counted_when_it_is_published_and_not_at_every_attempt() -> None:
    world, tally = World(), Tally()
    world.add_composition()
    context = replace(world.context, meter=tally)
    for _ in range(3):
        world.downstream.before = fail(Unreachable("list"), on="list secrets")
        with pytest.raises(SextonError):
            recover(recover_message(world.composition()), context)
    assert tally.totals == {("sexton_decisions_total", "InventoryGetError"): 1}


def test_a_skipped_decision_is_counted() -> None:
    world, tally = World(settings={"enable_tombstone_recovery": False}), Tally()
    world.add_composition()
    gate(gate_message(world.composition()), replace(world.context, meter=tally))
    assert tally.totals == {("sexton_decisions_total", "TombstoneRecoveryOperatorNotEnabled"): 1}


def test_a_mass_burial_is_counted_when_it_is_announced_and_not_while_it_waits() -> None:
    world, tally = World(settings={"acknowledge_mass_burial": True}), Tally()
    lost(world, *(f"n{index:02}" for index in range(20)))
    for _ in range(3):
        outcome = recover(recover_message(world.composition()), replace(world.context, meter=tally))
        assert outcome.kind is Kind.WAITING
    assert tally.totals == {("sexton_mass_burials_total",): 1}
    assert [reason for _, reason, _ in world.events()] == ["MassBurial"]


def test_a_mass_burial_that_cannot_be_told_is_counted_all_the_same() -> None:
    world = World()
    lost(world, *(f"n{index:02}" for index in range(20)))
    world.upstream.before = fail(Unreachable("create"), on=f"create {EVENTS.plural}")
    assert recovered(world).totals["sexton_mass_burials_total",] == 1
