"""Everything that Sexton does to compositions and inventories, played on two clusters with its own processes.

The acts make each task take each of its ways, the rare ones too: what is not seen here would be missing from the
roles, and what the roles grant beyond it would be too much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from console.clusters import utc_now
from console.play import Play, tombstones
from console.stage import Child, Stage
from console.story import Manifest
from devcluster.eno import Eno
from eno.decision import Reason
from eno.errors import SextonError
from eno.identity import parse_head
from eno.inventory.secrets import INVENTORY_NAMESPACE, lineage, secret_name
from eno.objects import FORCE_RESYNTHESIS_ANNOTATION
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import EVENTS, RESOURCE_SLICES
from tests.deploy.admission import NAMESPACE
from tests.support.factories import manifest

T = TypeVar("T")

GRACE = "4"
"""Seconds for which an unclaimed inventory is kept: longer than it takes to recreate a composition."""

DEADLINE = 120.0
"""Seconds for each thing that is waited for, on a busy machine."""

WATCHER, WORKER = "sexton-watcher", "sexton-worker"


@dataclass(frozen=True)
class Command:
    """How a process of Sexton is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Lifetime:
    """`upstream` and `downstream` are asked as Eno; `squat` creates a Secret downstream, past every policy."""

    stage: Stage
    upstream: Cluster
    downstream: Cluster
    squat: Callable[[Json], object]
    commands: Mapping[str, Command]

    def unfold(self) -> None:
        """From the first synthesis to the last inventory.

        Raises SextonError, with the last words of every process, when something is not done in time.
        """
        try:
            self._unfold()
        except SextonError as error:
            for child in self.stage.children:
                error.add_note(f"--- last lines of {child.name}\n{child.tail()}")
            raise

    def _unfold(self) -> None:
        appended, loaded, squatted = (
            Play(self.upstream, self.downstream, NAMESPACE, name, f"{name}-synthesizer")
            for name in ("appended", "loaded", "squatted")
        )
        self._start(WORKER)
        watcher = self._start(WATCHER)
        for play in (appended, loaded):
            self._record(play)
        self.stage.stop([watcher])
        for play in (appended, loaded):
            play.lose()
            play.create(manifests(play, "kept"))
        Eno(self.upstream, utc_now).reconcile(NAMESPACE, loaded.name, waits=False)
        self._start(WATCHER)
        self._recover(appended, loaded)
        self._collect(loaded)
        self._conflict(squatted)
        self._settle(appended)
        self._retire(loaded)

    def _start(self, name: str) -> Child:
        command = self.commands[name]
        (child,) = self.stage.start({name: command.arguments}, command.environment)
        return child

    def _wait(self, what: str, look: Callable[[], T | None]) -> T:
        return self.stage.wait_for(what, look, deadline=time.monotonic() + DEADLINE)

    def _record(self, play: Play) -> None:
        """A first life: nothing is owed, and what it owns is recorded. One watcher leads meanwhile."""
        play.create(manifests(play, "kept", "gone"))
        assert self._wait("decision", play.decision)["reason"] == Reason.INVENTORY_NOT_FOUND
        self._wait("readiness", partial(ready, play))
        self._wait("inventory", play.inventory)

    def _recover(self, appended: Play, loaded: Play) -> None:
        """What was lost is appended; behind slices that were loaded, it gets a slice of its own and a resynthesis."""
        for play in (appended, loaded):
            assert self._wait("decision", play.decision)["reason"] == Reason.FINISHED
            assert [identity.name for identity in tombstones(play.slices())] == [f"{play.name}-gone"]
        self._wait("request for a resynthesis", partial(requested, loaded))
        self._wait("readiness", partial(ready, appended))
        self._wait("inventory in place of the old one", appended.inventory)

    def _collect(self, play: Play) -> None:
        """Two more syntheses leave slices behind, one of them terminating already."""
        left = play.referenced()
        for _ in range(2):
            play.resynthesize(manifests(play, "kept"))
            self._wait("decision", play.decision)
        play.upstream.delete(RESOURCE_SLICES, NAMESPACE, min(left))
        self._wait("end of the slices that nothing needs", lambda: None if left & play.slice_names() else True)

    def _conflict(self, play: Play) -> None:
        """Somebody else has the name of a chunk."""
        play.create(manifests(play, "kept"))
        name = secret_name(play.name, lineage(NAMESPACE, play.synthesizer), 0, play.read().latest_uuid)
        self.squat({"metadata": {"name": name, "namespace": INVENTORY_NAMESPACE}, "type": "Opaque"})
        self._wait("decision", play.decision)
        self._wait("readiness", partial(ready, play))
        self._wait("word of the conflict", partial(told, play, "InventoryConflict"))

    def _settle(self, play: Play) -> None:
        """A composition that is deleted in good order takes its inventory along."""
        play.delete()
        self._wait("end of the composition", lambda: play.go_on_deleting() or None)
        assert play.inventory_names() == ()

    def _retire(self, play: Play) -> None:
        """An inventory that nobody claims goes after a grace."""
        assert play.inventory_names()
        play.lose()
        self._wait("end of the inventory", lambda: None if play.inventory_names() else True)


def manifests(play: Play, *names: str) -> list[Manifest]:
    """ConfigMaps that nobody but the composition has."""
    texts = [manifest(name=f"{play.name}-{name}") for name in names]
    return [Manifest(text, parse_head(text)) for text in texts]


def ready(play: Play) -> bool | None:
    """Whether gate has said so, after one more pass of Eno."""
    play.reconcile()
    current = play.read().current
    return True if current is not None and current.ready is not None else None


def requested(play: Play) -> bool | None:
    """Whether a resynthesis of what is current is asked for."""
    composition = play.read()
    return composition.annotations.get(FORCE_RESYNTHESIS_ANNOTATION) == composition.latest_uuid or None


def told(play: Play, reason: str) -> bool | None:
    """Whether there is an Event of this reason about the composition."""
    events = list_all(play.upstream, Query(EVENTS, play.namespace)).items
    about = {(event["involvedObject"]["name"], event["reason"]) for event in events}
    return True if (play.name, reason) in about else None
