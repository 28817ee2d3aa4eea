"""Events: every decision is told on its composition, once, and however often it is tried."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from eno.decision import Reason
from eno.errors import Forbidden, SextonError, Unreachable
from eno.packing import overflow_slice
from eno.tombstones import tombstone
from kube.resources import EVENTS, RESOURCE_SLICES, SECRETS
from tests.support.factories import NAMESPACE, entry, manifest, synthesis
from tests.support.tap import fail
from tests.support.world import World, gate_message, recover_message
from workers.events import MESSAGE_LIMIT, EventType, announce, event
from workers.handlers.gate import gate
from workers.handlers.recover import recover

ATTEMPTS = 4


def _synthesized(*, required: bool = True, **settings: object) -> World:
    world = World(settings=settings)
    world.add_composition(current=synthesis(slices=["full"], tombstoneRecoveryRequired=required))
    world.add_slice("full", [manifest(name="kept"), manifest(name="x" * 524_100)])
    return world


def _with_history() -> World:
    world = _synthesized()
    world.remember([entry(name="kept"), entry(name="lost")])
    return world


def _invalid() -> World:
    world = _with_history()
    (secret,) = world.secrets()
    note = {"eno.azure.io/inventory-chunk-index": "7"}
    world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], {"metadata": {"annotations": note}})
    return world


def _unreachable_inventory() -> World:
    world = _with_history()
    world.downstream.before = fail(Unreachable("list secrets"), on="list secrets", times=ATTEMPTS)
    return world


def _missing_slice() -> World:
    world = _with_history()
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "full", [{"op": "remove", "path": "/metadata/finalizers"}])
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "full")
    return world


def _taken_name() -> World:
    world = _with_history()
    body = overflow_slice(world.composition(), [tombstone(entry(name="lost"))])
    body["spec"]["resources"] = []
    world.up.create(RESOURCE_SLICES, NAMESPACE, body)
    return world


SCENES: dict[Reason, Callable[[], World]] = {
    Reason.NOT_NEEDED: lambda: _synthesized(required=False),
    Reason.FINISHED: _with_history,
    Reason.INVENTORY_NOT_FOUND: _synthesized,
    Reason.INVENTORY_INVALID: _invalid,
    Reason.OPERATOR_NOT_ENABLED: lambda: _synthesized(enable_tombstone_recovery=False),
    Reason.OUTSIDE_NAMESPACE: lambda: _synthesized(pod_namespace="elsewhere", all_namespaces=True),
    Reason.INVENTORY_GET_ERROR: _unreachable_inventory,
    Reason.SLICE_ERROR: _missing_slice,
    Reason.UPDATE_ERROR: _taken_name,
}


def attempt(world: World) -> None:
    """What the watcher would ask for, again and again."""
    with suppress(SextonError):
        recover(recover_message(world.composition()), world.context)
    gate(gate_message(world.composition()), world.context)


def test_there_is_a_scene_for_every_reason() -> None:
    assert set(SCENES) == set(Reason)


@pytest.mark.parametrize("reason", SCENES, ids=str)
def test_a_decision_is_told_once_however_often_it_is_tried(reason: Reason) -> None:
    world = SCENES[reason]()
    attempt(world)
    told = world.events()
    (kind,) = [kind for kind, found, _ in told if found == reason]
    assert kind == ("Normal" if reason.terminal else "Warning")
    for _ in range(ATTEMPTS - 1):
        attempt(world)
    assert world.events() == told
    assert len(told) <= 2


def test_an_event_is_about_the_composition_and_shows_in_its_description() -> None:
    world = _with_history()
    attempt(world)
    composition = world.composition()
    (found,) = [each for each in world.all(EVENTS) if each["reason"] == Reason.FINISHED]
    about = found["involvedObject"]
    assert (about["kind"], about["namespace"], about["name"]) == ("Composition", NAMESPACE, "shop")
    assert about["uid"] == composition.uid
    assert found["message"] == "1 tombstone written."
    assert found["source"] == {"component": "sexton"}


def test_another_synthesis_is_news() -> None:
    world = _with_history()
    composition = world.composition()
    first = event(composition, EventType.NORMAL, "Decided", "Well.", world.clock())
    world.patch_composition(subresource="status", status={"currentSynthesis": {"uuid": "newer"}})
    second = event(world.composition(), EventType.NORMAL, "Decided", "Well.", world.clock())
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_news_is_news_once_although_time_passes_and_the_composition_changes() -> None:
    world = _with_history()

    def tell() -> bool:
        return announce(world.upstream, world.composition(), EventType.NORMAL, "A", "B", world.clock())

    assert tell()
    world.clock.now += timedelta(minutes=5)
    world.patch_composition(metadata={"labels": {"team": "shop"}})
    assert not tell()


def test_a_decision_does_not_fail_because_nobody_may_be_told() -> None:
    world = _with_history()
    world.upstream.before = fail(Forbidden("create events", status=403), on="create events", times=9)
    attempt(world)
    assert world.events() == []
    assert world.decision() is not None


def test_a_message_is_no_longer_than_the_server_takes() -> None:
    body = event(_synthesized().composition(), EventType.WARNING, "Long", "x" * 5000, World().clock())
    assert len(body["message"]) == MESSAGE_LIMIT
