"""A composition that goes from synthesis to synthesis, each with an inventory of its own, cut into small chunks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from eno.errors import SextonError
from eno.inventory.secrets import snapshot
from eno.inventory.selection import Lineage, Snapshot, select
from eno.times import format_time
from kube.cluster import Cluster
from kube.resources import COMPOSITIONS, SECRETS
from runtime.messages import RecordMessage
from tests.support.factories import NAMESPACE, NOW, Json, decided, manifest, synthesis
from tests.support.interleave import Actor
from tests.support.world import World, record_message
from workers.context import Context
from workers.handlers import record as module
from workers.handlers.record import record
from workers.outcome import Kind

LIMIT = 150
"""Bytes of a chunk here: one entry of this module, never two."""


def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recordings cut chunks of LIMIT bytes."""
    monkeypatch.setattr(module, "snapshot", partial(snapshot, limit=LIMIT))


def uuid(number: int) -> str:
    """The UUID of a synthesis."""
    return f"synthesis-{number}"


def owned(number: int, chunks: int) -> list[str]:
    """The names of what a synthesis owns, one a chunk, none if that is to be a chunk with nothing in it."""
    return [f"owned-by-{number}-{index}" for index in range(chunks)]


class Rotation:
    """Composition `shop` and its syntheses, of as many chunks each as `sizes` say. None is current yet."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.world = World()
        self.sizes = sizes
        self.world.add_composition(current={})
        for number, chunks in enumerate(sizes):
            self.world.add_slice(f"slice-{number}", [manifest(name=name) for name in owned(number, chunks)])
        self.composition = self.world.composition()

    def publish(self, number: int, cluster: Cluster | None = None) -> None:
        """Make a synthesis current, ready and decided."""
        instant = format_time(NOW - timedelta(hours=1) + timedelta(seconds=number))
        current = synthesis(
            uuid(number),
            slices=[f"slice-{number}"],
            synthesized=instant,
            ready=instant,
            reconciled=instant,
            tombstoneRecoveryStatus=decided("NotNeeded", uuid(number)),
        )
        cluster = cluster or self.world.up
        body: Json = {"status": {"currentSynthesis": current}}
        cluster.merge_patch(COMPOSITIONS, NAMESPACE, "shop", body, subresource="status")

    def message(self, number: int) -> RecordMessage:
        """What the watcher sent while that synthesis was current."""
        return record_message(self.composition, uuid(number))

    def publishing(self, number: int) -> Actor:
        """Eno, as an actor."""
        return Actor(lambda context: self.publish(number, context.upstream), frozenset({COMPOSITIONS}), mortal=False)

    def recording(self, *numbers: int) -> Actor:
        """A worker that takes the messages of these syntheses one after the other, whatever becomes of them."""

        def work(context: Context) -> None:
            for number in numbers:
                try:
                    record(self.message(number), context)
                except SextonError:
                    continue

        return Actor(work, frozenset({SECRETS}))


def selected(world: World) -> Snapshot:
    """What a recovery would choose."""
    found = select(Lineage.read(world.secrets()), "shop", world.clock())
    assert isinstance(found, Snapshot), found
    return found


def history_is_whole(rotation: Rotation, world: World) -> None:
    """P3: a complete snapshot that was once Ready can be selected, and lists what its synthesis owned."""
    found = selected(world)
    number = int(found.source.synthesis_uuid.rpartition("-")[2])
    assert [entry.id.name for entry in found.entries()] == owned(number, rotation.sizes[number])


def only_the_current_is_left(rotation: Rotation, world: World) -> None:
    """Tasks that are derived until there is none leave the current synthesis' snapshot and nothing else."""
    current = world.composition().current
    assert current is not None
    number = int(current.uuid.rpartition("-")[2])
    for _ in range(3):
        if record(rotation.message(number), world.context).kind is Kind.UNCHANGED:
            break
    before = len(world.writes)
    assert record(rotation.message(number), world.context).kind is Kind.UNCHANGED
    assert len(world.writes) == before, "quiet when done"
    assert selected(world).source.synthesis_uuid == current.uuid
    assert len(world.secrets()) == max(1, rotation.sizes[number])
