"""A cleanly deleted composition leaves no inventory; every condition on both sides, through the gate that asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from eno.errors import ServerError, StartOver
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from tests.support.factories import (
    NAMESPACE,
    UUID,
    Json,
    decided,
    entry,
    manifest,
    patch_manifest,
    resource_slice,
    synthesis,
)
from tests.support.tap import fail, once
from tests.support.world import World, gate_message, recover_message
from workers.handlers.gate import gate
from workers.handlers.recover import recover
from workers.settlement import deleted_identities

GONE: Json = {"reconciled": True, "deleted": True}
LEFT: Json = {"reconciled": True}
ORPHAN = {"eno.azure.io/deletion-strategy": "orphan"}
KUBE_SYSTEM = "kube-system"


@dataclass(frozen=True)
class Ending:
    """A composition that is being deleted; `states` are those of its manifests `a`, `b`, ... in one slice."""

    states: Sequence[Json] = (GONE, GONE)
    annotations: Any = None
    labels: Any = None
    names: tuple[str | None, ...] = ("slice-0",)
    manifests: tuple[str | tuple[str, bool], ...] = (manifest(name="a"), manifest(name="b"))
    settings: Any = None

    def world(self) -> World:
        """With what it owned when it was last recorded."""
        world = World(settings=self.settings or {})
        world.add_composition(
            current=synthesis(
                resourceSlices=[{"name": name} if name else {} for name in self.names],
                tombstoneRecoveryStatus=decided(),
            ),
            annotations=self.annotations,
            metadata={"labels": self.labels, "finalizers": ["eno.azure.io/cleanup"]},
        )
        if self.names:
            world.add_slice("slice-0", self.manifests, states=self.states)
        world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
        return world


def remembered(*names: str) -> list[Any]:
    return [entry(name=name) for name in names]


def run(world: World) -> None:
    gate(gate_message(world.composition()), world.context)


def is_reconciled(world: World) -> bool:
    current = world.composition().current
    return current is not None and current.reconciled is not None


def test_a_cleanly_deleted_composition_leaves_no_inventory() -> None:
    world = Ending().world()
    world.remember(remembered("a", "b"))
    world.remember(remembered("a"), uuid="synthesis-0", synthesized="2026-01-01T00:00:00Z")
    run(world)
    assert world.secrets() == []
    assert is_reconciled(world)


def test_the_newest_snapshot_goes_last() -> None:
    world = Ending().world()
    days = {"u1": "03", "u2": "01", "u3": "02"}
    for number, (uuid, day) in enumerate(days.items()):
        world.remember(remembered("a"), uuid=uuid, synthesized=f"2026-01-{day}T0{number}:00:00Z")
    key = "eno.azure.io/inventory-synthesis-uuid"
    left: list[list[str]] = []
    world.downstream.after = lambda call: (
        left.append(sorted(each["metadata"]["annotations"][key] for each in world.secrets()))
        if call.verb == "delete"
        else None
    )
    run(world)
    assert left == [["u1", "u3"], ["u1"], []]


def test_the_inventory_goes_before_reconciled_is_written() -> None:
    world = Ending().world()
    world.remember(remembered("a", "b"))
    seen: list[int] = []
    world.upstream.before = once(lambda: seen.append(len(world.secrets())), on="patch compositions/status")
    run(world)
    assert seen == [0]


KEPT = [
    pytest.param(Ending(manifests=(manifest(name="a"),), states=[GONE]), id="an identity without a slice"),
    pytest.param(Ending(names=()), id="no slice at all"),
    pytest.param(Ending(labels={"eno.azure.io/symphony-deleting": "true"}), id="symphony-deleting"),
    pytest.param(Ending(names=("slice-0", None)), id="a reference without a name was skipped"),
    pytest.param(Ending(names=("slice-0", "nowhere")), id="a missing slice was skipped"),
    pytest.param(
        Ending(manifests=(manifest(name="a"), patch_manifest("ConfigMap", "b"))),
        id="an identity only as a Patch target",
    ),
    pytest.param(
        Ending(manifests=(manifest(name="a"), manifest(name="b", namespace="other"))), id="the same name elsewhere"
    ),
]


@pytest.mark.parametrize("ending", KEPT)
def test_what_is_not_known_to_be_gone_stays_recorded_and_never_blocks_the_deletion(ending: Ending) -> None:
    world = ending.world()
    world.remember(remembered("a", "b"))
    run(world)
    assert len(world.secrets()) == 1
    assert is_reconciled(world)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending(labels={"eno.azure.io/symphony-deleting": "true"}, annotations=ORPHAN), id="symphony"),
        pytest.param(Ending(names=("slice-0", None), annotations=ORPHAN), id="nameless"),
        pytest.param(Ending(names=("slice-0", "nowhere"), annotations=ORPHAN), id="missing"),
    ],
)
def test_orphan_does_not_make_up_for_what_was_skipped(ending: Ending) -> None:
    world = ending.world()
    world.remember(remembered("a", "b"))
    run(world)
    assert len(world.secrets()) == 1


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending(annotations=ORPHAN, states=(LEFT, LEFT)), id="nothing was deleted"),
        pytest.param(Ending(annotations=ORPHAN, manifests=(), states=()), id="nothing is in the slices"),
    ],
)
def test_under_orphan_everything_was_let_go_on_purpose(ending: Ending) -> None:
    world = ending.world()
    world.remember(remembered("a", "b", "c"))
    run(world)
    assert world.secrets() == []
    assert is_reconciled(world)


def test_an_identity_may_be_gone_as_a_tombstone() -> None:
    world = Ending(manifests=(manifest(name="a"), (manifest(name="b"), True))).world()
    world.remember(remembered("a", "b"))
    run(world)
    assert world.secrets() == []


def test_an_empty_inventory_owes_nothing() -> None:
    world = Ending(names=()).world()
    world.remember([])
    run(world)
    assert world.secrets() == []


@pytest.mark.parametrize("states", [(LEFT, LEFT), (GONE, {}), (GONE,)], ids=["left", "unreconciled", "unknown"])
def test_nothing_is_settled_before_the_deletion_is_reconciled(states: Sequence[Json]) -> None:
    world = Ending(states=states).world()
    world.remember(remembered("a"))
    run(world)
    assert not is_reconciled(world)
    assert len(world.secrets()) == 1
    assert world.downstream.calls == []


def test_a_composition_that_is_not_deleting_settles_nothing() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=decided()), annotations=ORPHAN)
    world.add_slice("slice-0", [manifest(name="a")], states=[{**GONE, "ready": "2026-03-01T11:00:00Z"}])
    world.remember(remembered("a"))
    run(world)
    assert is_reconciled(world)
    assert len(world.secrets()) == 1
    assert world.downstream.calls == []


def test_what_is_settled_once_is_not_looked_at_again() -> None:
    world = Ending().world()
    run(world)
    world.downstream.calls.clear()
    run(world)
    assert world.downstream.calls == []


def test_only_the_snapshots_of_its_own_name_go() -> None:
    world = Ending().world()
    world.remember(remembered("a"))
    world.remember(remembered("a"), name="twin", uuid="twin-1")
    world.remember(remembered("a"), name="shop-2", uuid="shop-2-1")
    run(world)
    notes = [each["metadata"]["annotations"]["eno.azure.io/inventory-composition-name"] for each in world.secrets()]
    assert sorted(notes) == ["shop-2", "twin"]


@pytest.mark.parametrize(
    "settings",
    [{"enable_tombstone_recovery": False}, {"pod_namespace": "other", "all_namespaces": True}],
    ids=["disabled", "another namespace"],
)
def test_outside_the_recovery_scope_no_inventory_is_touched(settings: Any) -> None:
    world = Ending(settings=settings).world()
    world.remember(remembered("a"))
    run(world)
    assert is_reconciled(world)
    assert world.downstream.calls == []


def test_only_a_state_that_says_deleted_tells_that_a_resource_is_gone() -> None:
    names = ("gone", "left", "unknown")
    states = [GONE, LEFT]
    slices = [resource_slice("slice-0", [manifest(name=name) for name in names], states=states)]
    assert [identity.name for identity in deleted_identities(slices)] == ["gone"]


# What goes wrong


def break_metadata(world: World) -> None:
    for each in world.secrets():
        note = {"metadata": {"annotations": {"eno.azure.io/inventory-synthesized": "yesterday"}}}
        world.down.merge_patch(SECRETS, KUBE_SYSTEM, each["metadata"]["name"], note)


def test_an_inventory_that_cannot_be_read_is_kept_and_told_of() -> None:
    world = Ending().world()
    world.remember(remembered("a"))
    break_metadata(world)
    run(world)
    assert is_reconciled(world)
    assert len(world.secrets()) == 1
    assert [(kind, reason) for kind, reason, _ in world.events()] == [("Warning", "InventoryNotSettled")]


def test_under_orphan_it_need_not_be_readable() -> None:
    world = Ending(annotations=ORPHAN).world()
    world.remember(remembered("a"))
    break_metadata(world)
    run(world)
    assert world.secrets() == []


def test_under_orphan_what_is_unusable_of_another_name_stays() -> None:
    world = Ending(annotations=ORPHAN).world()
    world.remember(remembered("a"), name="other")
    break_metadata(world)
    run(world)
    assert len(world.secrets()) == 1


@pytest.mark.parametrize("call", ["list secrets", "delete secrets"])
def test_a_failing_downstream_never_blocks_a_deletion(call: str) -> None:
    world = Ending().world()
    world.remember(remembered("a"))
    world.downstream.before = fail(ServerError(call, status=503), on=call)
    run(world)
    assert is_reconciled(world)
    assert len(world.secrets()) == 1
    assert [reason for _, reason, _ in world.events()] == ["InventoryNotSettled"]


@pytest.mark.parametrize("call", ["list secrets", "delete secrets"])
def test_under_orphan_a_failing_downstream_is_retried_before_reconciled_is_written(call: str) -> None:
    world = Ending(annotations=ORPHAN, states=(LEFT, LEFT)).world()
    world.remember(remembered("a"))
    world.downstream.before = fail(ServerError(call, status=503), on=call)
    with pytest.raises(ServerError):
        run(world)
    assert not is_reconciled(world)
    run(world)
    assert is_reconciled(world)
    assert world.secrets() == []


def edit(world: World) -> None:
    for each in world.secrets():
        world.down.merge_patch(SECRETS, KUBE_SYSTEM, each["metadata"]["name"], {"metadata": {"labels": {"x": "y"}}})


def test_a_secret_that_changes_before_its_delete_is_looked_at_again_under_orphan() -> None:
    world = Ending(annotations=ORPHAN).world()
    world.remember(remembered("a"))
    world.downstream.before = once(partial(edit, world), on="delete secrets")
    run(world)
    assert world.secrets() == []


def _let_go(world: World) -> None:
    world.patch_composition(metadata={"finalizers": None})


def _recreate(world: World) -> None:
    _let_go(world)
    world.add_composition(current=synthesis(tombstoneRecoveryStatus=decided()))


def _supersede(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": {"uuid": "newer"}})


def _change_strategy(world: World) -> None:
    world.patch_composition(metadata={"annotations": {"eno.azure.io/deletion-strategy": None}})


def _delete_symphony(world: World) -> None:
    world.patch_composition(metadata={"labels": {"eno.azure.io/symphony-deleting": "true"}})


@pytest.mark.parametrize(
    "change",
    [_let_go, _recreate, _supersede, _change_strategy, _delete_symphony],
    ids=lambda change: change.__name__.strip("_").replace("_", " "),
)
def test_a_settlement_that_is_overtaken_deletes_nothing(change: Callable[[World], None]) -> None:
    world = Ending(annotations=ORPHAN, states=(LEFT, LEFT)).world()
    world.remember(remembered("a"))
    message = gate_message(world.composition())
    world.downstream.after = once(lambda: change(world), on="list secrets")
    gate(message, world.context)
    assert "delete secrets" not in world.writes


def test_a_composition_that_changes_all_the_time_is_left_to_a_later_task() -> None:
    world = Ending(annotations=ORPHAN).world()
    world.remember(remembered("a"))
    ticks = iter(range(99))
    world.downstream.after = lambda call: (
        world.patch_composition(metadata={"labels": {"tick": str(next(ticks))}}) if call.verb == "list" else None
    )
    with pytest.raises(StartOver):
        run(world)
    world.downstream.after = None
    run(world)
    assert world.secrets() == []


# What recovery makes of it


def _recreated(world: World, name: str = "shop") -> None:
    """The composition comes back, with nothing in its first synthesis."""
    for each in world.all(RESOURCE_SLICES):
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, each["metadata"]["name"], {"metadata": {"finalizers": None}})
        world.up.delete(RESOURCE_SLICES, NAMESPACE, each["metadata"]["name"])
    world.add_composition(name, current=synthesis("again", slices=["again"]))
    world.add_slice("again", [], owner=name)
    world.clock.advance(minutes=2)
    recover(recover_message(world.composition(name), "again"), world.context)


@pytest.mark.parametrize("name", ["shop", "renamed"])
@pytest.mark.parametrize("annotations", [None, ORPHAN], ids=["deleted", "orphaned"])
def test_after_a_clean_deletion_a_recreation_buries_nothing(name: str, annotations: Any) -> None:
    world = Ending(annotations=annotations).world()
    world.remember(remembered("a", "b"))
    run(world)
    _let_go(world)
    _recreated(world, name)
    assert world.tombstones(name) == []
    decision = world.decision(name)
    assert decision is not None
    assert decision["reason"] == "InventoryNotFound"


@pytest.mark.parametrize("name", ["shop", "renamed"])
def test_after_its_finalizer_was_stripped_a_recreation_is_recovered(name: str) -> None:
    world = Ending(states=(GONE, {})).world()
    world.remember(remembered("a", "b"))
    run(world)
    _let_go(world)
    _recreated(world, name)
    assert world.tombstones(name) == ["a", "b"]
    assert UUID not in str(world.decision(name))


def _adopter() -> World:
    """A composition that took over the history of another name, and is deleted under `orphan` before it records."""
    world = Ending(annotations=ORPHAN, states=(LEFT, LEFT)).world()
    adoption = decided(message="The history of other was adopted.")
    world.patch_composition(subresource="status", status={"currentSynthesis": {"tombstoneRecoveryStatus": adoption}})
    world.remember(remembered("let-go"), name="other")
    return world


def test_history_that_was_adopted_and_not_replaced_yet_is_let_go_as_well() -> None:
    world = _adopter()
    run(world)
    assert world.secrets() == []


def test_the_newest_of_adopted_history_goes_last() -> None:
    world = _adopter()
    (older,) = world.remember(remembered("let-go"), name="other", uuid="older", synthesized="2026-01-01T00:00:00Z")
    gone: list[str] = []
    world.downstream.before = lambda call: gone.append(call.name) if call.verb == "delete" else None
    run(world)
    assert gone[0] == older["metadata"]["name"]
    assert len(gone) == 2


def test_adopted_history_stays_where_somebody_has_that_name_again() -> None:
    world = _adopter()
    world.add_composition("other", current={})
    run(world)
    assert len(world.secrets()) == 1


def test_adopted_history_that_is_not_known_to_be_gone_does_not_keep_the_own_one() -> None:
    world = Ending().world()
    adoption = decided(message="The history of other was adopted.")
    world.patch_composition(subresource="status", status={"currentSynthesis": {"tombstoneRecoveryStatus": adoption}})
    world.remember(remembered("elsewhere"), name="other")
    world.remember(remembered("a", "b"))
    run(world)
    (left,) = world.secrets()
    assert left["metadata"]["name"].startswith("other-")
