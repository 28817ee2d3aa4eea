"""Every reason that recover can publish, reached over HTTP: real requests, real status codes, real guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from devcluster.server import Server
from eno.errors import SextonError
from eno.packing import overflow_slice
from eno.tombstones import tombstone
from kube.config import Connection
from kube.http import HttpCluster
from kube.resources import RESOURCE_SLICES, SECRETS
from tests.support.factories import NAMESPACE, UUID, decided, entry, manifest, synthesis
from tests.support.tap import Tap
from tests.support.world import World, recover_message
from workers.handlers.recover import recover
from workers.outcome import Kind


@contextmanager
def world_over_http() -> Iterator[World]:
    """A World whose clusters are servers on loopback, for the handlers and for the test."""
    world = World()
    with ExitStack() as stack:
        for name, direct in (("up", world.up), ("down", world.down)):
            server = stack.enter_context(Server(direct.store).running())
            client = HttpCluster(Connection(server.url, "a test"), user_agent="sexton-test")
            stack.callback(client.close)
            setattr(world, name, client)
        world.upstream, world.downstream = Tap(world.up), Tap(world.down)
        yield world


def _synthesized(world: World, *, required: bool = True) -> None:
    world.add_composition(current=synthesis(slices=["full"], tombstoneRecoveryRequired=required))
    world.add_slice("full", [manifest(name="kept"), manifest(name="x" * 524_100)])


def _with_history(world: World) -> None:
    _synthesized(world)
    world.remember([entry(name="kept"), entry(name="lost")])


def _not_needed(world: World) -> None:
    _synthesized(world, required=False)


def _invalid(world: World) -> None:
    _with_history(world)
    (secret,) = world.secrets()
    note = {"eno.azure.io/inventory-chunk-index": "7"}
    world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], {"metadata": {"annotations": note}})


def _unreachable_inventory(world: World) -> None:
    _with_history(world)
    closed = HttpCluster(Connection("http://127.0.0.1:9", "a test"), user_agent="sexton-test")
    world.downstream = Tap(closed)


def _missing_slice(world: World) -> None:
    _with_history(world)
    world.up.json_patch(RESOURCE_SLICES, NAMESPACE, "full", [{"op": "remove", "path": "/metadata/finalizers"}])
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "full")


def _taken_name(world: World) -> None:
    _with_history(world)
    body = overflow_slice(world.composition(), [tombstone(entry(name="lost"))])
    body["spec"]["resources"] = []
    world.up.create(RESOURCE_SLICES, NAMESPACE, body)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        pytest.param(_not_needed, "NotNeeded", id="NotNeeded"),
        pytest.param(_with_history, "FinishedTombstoneRecovery", id="FinishedTombstoneRecovery"),
        pytest.param(_synthesized, "InventoryNotFound", id="InventoryNotFound"),
        pytest.param(_invalid, "InventoryInvalid", id="InventoryInvalid"),
    ],
)
def test_terminal_reasons(prepare: Callable[[World], None], reason: str) -> None:
    with world_over_http() as world:
        prepare(world)
        outcome = recover(recover_message(world.composition()), world.context)
        assert (outcome.kind, outcome.reason) == (Kind.DONE, reason)
        decision = world.decision()
        assert decision is not None
        assert {key: decision[key] for key in ("status", "reason", "synthesisUUID")} == decided(reason)
        before = list(world.writes)
        assert recover(recover_message(world.composition()), world.context).kind is Kind.UNCHANGED
        assert world.writes == before
        assert world.tombstones() == (["lost"] if reason == "FinishedTombstoneRecovery" else [])


@pytest.mark.parametrize(
    ("prepare", "reason", "message"),
    [
        pytest.param(
            _unreachable_inventory,
            "InventoryGetError",
            "list secrets kube-system: NoConnection",
            id="InventoryGetError",
        ),
        pytest.param(
            _missing_slice,
            "CurrentSynthesisResourceSliceError",
            "get resourceslices.eno.azure.io apps/full: 404 NotFound",
            id="CurrentSynthesisResourceSliceError",
        ),
        pytest.param(_taken_name, "ErrUpdateResourceSlice", "its content differs", id="ErrUpdateResourceSlice"),
    ],
)
def test_retriable_reasons(prepare: Callable[[World], None], reason: str, message: str) -> None:
    with world_over_http() as world:
        prepare(world)
        for _ in range(2):
            with pytest.raises(SextonError):
                recover(recover_message(world.composition()), world.context)
            decision = world.decision()
            assert decision is not None
            assert (decision["status"], decision["reason"], decision["synthesisUUID"]) == (False, reason, UUID)
            assert message in decision["message"]
            assert "127.0.0.1" not in decision["message"], "nothing that varies between attempts"
        assert world.writes.count("patch compositions/status") == 1, "a repeated error is no new write"
