"""The stand-in for Eno's controllers, one pass at a time, on the in-memory store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from devcluster.direct import DirectCluster
from devcluster.eno import Eno
from devcluster.store import Store
from eno.errors import Conflict, NotFound
from eno.objects import Composition, ResourceSlice
from kube.cluster import Json, Query, list_all
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_SLICES, Resource

NAMESPACE, NAME = "default", "app"
FORCED = "eno.azure.io/force-resynthesis"
OPT_IN = {"eno.azure.io/recovery-enabled": "true"}


def manifest(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}})


def definition(resource: Resource) -> Json:
    """A CRD that takes any field; what the stand-in does with them is the subject here."""
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


class World:
    """One composition, the stand-in, and a clock that is moved by hand."""

    def __init__(self, annotations: dict[str, str] | None = None) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.cluster = DirectCluster(Store(clock=lambda: self.now))
        for resource in (COMPOSITIONS, RESOURCE_SLICES):
            self.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition(resource))
        numbers: Iterator[int] = count(1)
        self.eno = Eno(self.cluster, lambda: self.now, lambda: f"uuid-{next(numbers)}")
        body = {
            "apiVersion": COMPOSITIONS.api_version,
            "kind": COMPOSITIONS.kind,
            "metadata": {"name": NAME, "namespace": NAMESPACE, "annotations": annotations or {}},
            "spec": {"synthesizer": {"name": "s"}},
        }
        self.cluster.create(COMPOSITIONS, NAMESPACE, body)

    @property
    def composition(self) -> Composition:
        return Composition.from_json(self.cluster.get(COMPOSITIONS, NAMESPACE, NAME))

    @property
    def slices(self) -> list[ResourceSlice]:
        """Every slice, oldest first."""
        items = list_all(self.cluster, Query(RESOURCE_SLICES, NAMESPACE)).items
        found = [ResourceSlice.from_json(item) for item in items]
        return sorted(found, key=lambda each: (each.created, each.name))

    @property
    def current_slices(self) -> list[ResourceSlice]:
        assert self.composition.current is not None
        names = [name for name in self.composition.current.slice_names if name]
        return [ResourceSlice.from_json(self.cluster.get(RESOURCE_SLICES, NAMESPACE, name)) for name in names]

    def synthesize(self, *names: str) -> str | None:
        return self.eno.synthesize(NAMESPACE, NAME, [manifest(name) for name in names])

    def request_resynthesis(self) -> None:
        self.annotate({FORCED: self.composition.latest_uuid})

    def annotate(self, annotations: dict[str, str | None]) -> None:
        self.cluster.merge_patch(COMPOSITIONS, NAMESPACE, NAME, {"metadata": {"annotations": annotations}})

    def decide(self, reason: str = "FinishedTombstoneRecovery") -> None:
        assert self.composition.current is not None
        decision = {"status": True, "reason": reason, "synthesisUUID": self.composition.current.uuid}
        patch = {"status": {"currentSynthesis": {"tombstoneRecoveryStatus": decision}}}
        self.cluster.merge_patch(COMPOSITIONS, NAMESPACE, NAME, patch, subresource="status")

    def append(self, body: ResourceSlice, entry: dict[str, Any]) -> None:
        operation = {"op": "add", "path": "/spec/resources/-", "value": entry}
        self.cluster.json_patch(RESOURCE_SLICES, NAMESPACE, body.name, [operation])

    def delete_composition(self) -> None:
        self.cluster.delete(COMPOSITIONS, NAMESPACE, NAME)

    def become_ready(self) -> None:
        self.eno.reconcile(NAMESPACE, NAME)
        while self.eno.aggregate(NAMESPACE, NAME):
            pass


def test_the_first_synthesis_becomes_current_and_may_lack_history() -> None:
    world = World()

    assert world.synthesize("a", "b") == "uuid-1"

    current = world.composition.current
    assert current is not None
    assert (current.uuid, current.recovery_required, current.synthesized) == ("uuid-1", True, world.now)
    assert [each.synthesis_uuid for each in world.slices] == [""]
    assert (world.composition.in_flight, world.composition.previous) == (None, None)
    assert world.slices[0].owner is not None
    assert world.slices[0].owner.uid == world.composition.uid


def test_nothing_is_synthesized_twice_for_one_spec() -> None:
    world = World()
    world.synthesize("a")

    assert world.synthesize("b") is None
    assert len(world.slices) == 1


def test_a_request_starts_a_synthesis_with_tombstones_and_the_stamp_of_the_replaced_one() -> None:
    world = World()
    world.synthesize("a", "b")
    world.request_resynthesis()

    assert world.synthesize("a") == "uuid-2"

    (made,) = world.current_slices
    assert [entry.deleted for entry in made.resources] == [False, True]
    assert made.synthesis_uuid == "uuid-1"
    assert world.composition.previous is not None
    assert world.composition.previous.uuid == "uuid-1"
    assert world.synthesize("a") is None


def test_a_changed_spec_is_synthesized_anew() -> None:
    world = World()
    world.synthesize("a")
    patch = {"spec": {"synthesisEnv": [{"name": "A", "value": "1"}]}}
    world.cluster.merge_patch(COMPOSITIONS, NAMESPACE, NAME, patch)

    assert world.synthesize("a") == "uuid-2"


def test_slices_exist_before_anything_refers_to_them() -> None:
    world = World()
    uuid = world.eno.dispatch(NAMESPACE, NAME)
    assert uuid is not None

    names = world.eno.write_slices(NAMESPACE, NAME, [manifest("a")])

    assert [each.name for each in world.slices] == names
    assert world.composition.current is None
    assert world.eno.publish(NAMESPACE, NAME, uuid, names)
    assert world.composition.current is not None
    assert list(world.composition.current.slice_names) == names


def test_a_canceled_or_replaced_synthesis_is_not_published() -> None:
    world = World()
    uuid = world.eno.dispatch(NAMESPACE, NAME)
    assert uuid is not None
    names = world.eno.write_slices(NAMESPACE, NAME, [manifest("a")])

    assert not world.eno.publish(NAMESPACE, NAME, "another", names)
    assert world.eno.cancel(NAMESPACE, NAME)
    assert not world.eno.cancel(NAMESPACE, NAME)
    assert not world.eno.publish(NAMESPACE, NAME, uuid, names)
    assert world.composition.current is None


def test_a_synthesis_in_flight_is_replaced_only_on_request() -> None:
    world = World()
    world.eno.dispatch(NAMESPACE, NAME)

    assert world.eno.dispatch(NAMESPACE, NAME) is None
    world.request_resynthesis()
    assert world.eno.dispatch(NAMESPACE, NAME) == "uuid-2"


def test_a_lost_slice_loses_its_history_and_the_rest_keeps_it() -> None:
    world = World()
    world.synthesize("a", "b")
    (lost,) = world.slices
    world.cluster.merge_patch(RESOURCE_SLICES, NAMESPACE, lost.name, {"metadata": {"finalizers": None}})
    world.cluster.delete(RESOURCE_SLICES, NAMESPACE, lost.name)
    world.request_resynthesis()

    world.synthesize("a")

    assert [entry.deleted for each in world.current_slices for entry in each.resources] == [False]


def test_an_opted_in_composition_is_not_loaded_before_its_decision() -> None:
    world = World(OPT_IN)
    world.synthesize("a")

    assert world.eno.reconcile(NAMESPACE, NAME) == 0
    assert world.slices[0].states == ()
    world.decide()
    assert world.eno.reconcile(NAMESPACE, NAME) == 1
    assert [state.reconciled for state in world.slices[0].states] == [True]


def test_a_reconciler_that_knows_of_no_decision_waits_for_none() -> None:
    world = World(OPT_IN)
    world.synthesize("a")

    assert world.eno.reconcile(NAMESPACE, NAME, waits=False) == 1


@pytest.mark.parametrize("annotations", [{}, {"eno.azure.io/recovery-enabled": "True"}], ids=["none", "a near miss"])
def test_without_opt_in_nothing_is_waited_for(annotations: dict[str, str]) -> None:
    world = World(annotations)
    world.synthesize("a")

    assert world.eno.reconcile(NAMESPACE, NAME) == 1


def test_a_short_status_array_is_extended_and_what_is_in_it_stays() -> None:
    world = World()
    world.synthesize("a")
    world.eno.reconcile(NAMESPACE, NAME)
    first = world.slices[0].states[0].ready
    world.now += timedelta(minutes=1)
    world.append(world.slices[0], {"manifest": manifest("b"), "deleted": True})

    assert world.eno.reconcile(NAMESPACE, NAME) == 1

    old, new = world.slices[0].states
    assert (old.ready, old.deleted) == (first, False)
    assert (new.ready, new.deleted, new.reconciled) == (world.now, True, True)
    assert world.eno.reconcile(NAMESPACE, NAME) == 0


def test_tombstones_are_carried_out_once_and_passed_on_until_then() -> None:
    world = World()
    world.synthesize("a", "b")
    world.request_resynthesis()
    world.synthesize("a")
    world.request_resynthesis()
    world.synthesize("a")
    assert [entry.deleted for entry in world.current_slices[0].resources] == [False, True]

    world.eno.reconcile(NAMESPACE, NAME)
    world.request_resynthesis()
    world.synthesize("a")

    assert [entry.deleted for entry in world.current_slices[0].resources] == [False]


def test_readiness_follows_the_slices_and_takes_their_latest_time() -> None:
    world = World()
    world.synthesize("a")
    assert not world.eno.aggregate(NAMESPACE, NAME)
    world.eno.reconcile(NAMESPACE, NAME)
    ready = world.now
    world.now += timedelta(minutes=5)

    assert world.eno.aggregate(NAMESPACE, NAME)

    current = world.composition.current
    assert current is not None
    assert (current.reconciled, current.ready) == (world.now, ready)
    assert not world.eno.aggregate(NAMESPACE, NAME)


def test_an_empty_synthesis_is_reconciled_first_and_ready_one_pass_later() -> None:
    world = World(OPT_IN)
    world.synthesize()

    assert world.eno.aggregate(NAMESPACE, NAME)
    assert world.composition.current is not None
    assert (world.composition.current.reconciled, world.composition.current.ready) == (world.now, None)
    assert world.eno.aggregate(NAMESPACE, NAME)
    assert world.composition.current.ready == world.now


def test_a_missing_slice_keeps_a_synthesis_from_being_ready() -> None:
    world = World()
    world.synthesize("a")
    world.eno.reconcile(NAMESPACE, NAME)
    (only,) = world.slices
    world.cluster.merge_patch(RESOURCE_SLICES, NAMESPACE, only.name, {"metadata": {"finalizers": None}})
    world.cluster.delete(RESOURCE_SLICES, NAMESPACE, only.name)

    assert not world.eno.aggregate(NAMESPACE, NAME)


def test_a_deleted_composition_goes_when_its_resources_were_deleted() -> None:
    world = World()
    assert world.eno.adopt(NAMESPACE, NAME)
    assert not world.eno.adopt(NAMESPACE, NAME)
    world.synthesize("a")
    world.become_ready()
    assert not world.eno.finish_deletion(NAMESPACE, NAME)
    world.delete_composition()

    assert world.eno.finish_deletion(NAMESPACE, NAME)
    world.eno.aggregate(NAMESPACE, NAME)
    assert world.composition.current is not None
    assert (world.composition.current.uuid, world.composition.current.reconciled) == ("uuid-2", None)
    assert not world.eno.finish_deletion(NAMESPACE, NAME)
    world.become_ready()
    assert [state.deleted for each in world.slices for state in each.states] == [True]

    assert world.eno.finish_deletion(NAMESPACE, NAME)
    with pytest.raises(NotFound):
        _ = world.composition


def test_an_orphaning_deletion_deletes_nothing() -> None:
    world = World({"eno.azure.io/deletion-strategy": "orphan"})
    world.eno.adopt(NAMESPACE, NAME)
    world.synthesize("a")
    world.delete_composition()
    world.eno.finish_deletion(NAMESPACE, NAME)

    world.become_ready()

    assert [state.deleted for each in world.slices for state in each.states] == [False]
    assert world.eno.finish_deletion(NAMESPACE, NAME)


def test_a_deleting_composition_starts_no_synthesis() -> None:
    world = World()
    world.eno.adopt(NAMESPACE, NAME)
    world.delete_composition()

    assert world.synthesize("a") is None


def test_a_write_on_a_stale_read_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    stale = world.cluster.get(COMPOSITIONS, NAMESPACE, NAME)
    world.annotate({"a": "b"})
    monkeypatch.setattr(DirectCluster, "get", lambda *_arguments, **_options: stale)

    with pytest.raises(Conflict):
        world.eno.dispatch(NAMESPACE, NAME)


def test_two_runs_with_the_same_clock_and_uuids_end_the_same() -> None:
    def run() -> Json:
        world = World()
        world.synthesize("a", "b")
        world.become_ready()
        world.request_resynthesis()
        world.synthesize("a")
        return world.cluster.get(COMPOSITIONS, NAMESPACE, NAME)

    assert run() == run()
