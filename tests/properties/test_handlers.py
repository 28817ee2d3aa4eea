"""Every handler on a world in which one object has anything at all in one place of it.

The server of these tests stores what its schemas allow; the junk is what it answers with, to every read and to
every patch, as one with other definitions would.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import ApiError, MalformedObject, SextonError, StartOver
from eno.inventory.selection import Lineage
from eno.objects import Composition, ObjectView, ResourceSlice
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.cluster import PAGE_SIZE, Cluster, Json, JsonPatch, Page, Query, WatchEvent
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS, Resource
from tests.properties.strategies import JSON, Path, places, repeatable, tried, with_value
from tests.support.factories import NOW, STAMP, decided, entry, manifest, synthesis
from tests.support.world import (
    World,
    cleanup_message,
    gate_message,
    record_message,
    recover_message,
    retire_message,
)
from workers.context import Context
from workers.handlers.cleanup import cleanup
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.recover import recover
from workers.handlers.retire import retire
from workers.outcome import Kind, Outcome

READY: dict[str, Any] = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided("NotNeeded")}
STATE: Json = {"reconciled": True, "ready": STAMP}


@dataclass(frozen=True)
class Distortion:
    """What is answered instead of one value of one object."""

    resource: Resource
    name: str
    path: Path
    value: Any

    def of(self, resource: Resource, obj: Json) -> Json:
        """The object as it is answered."""
        if resource is not self.resource or obj["metadata"]["name"] != self.name:
            return obj
        try:
            return with_value(obj, self.path, self.value)
        except (KeyError, IndexError, TypeError):  # what was there is gone by now
            return obj


@dataclass
class Distorting:
    """A `Cluster` around another one, in whose answers one object is distorted."""

    inner: Cluster
    distortion: Distortion

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        return self.distortion.of(resource, self.inner.get(resource, namespace, name, metadata_only=metadata_only))

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        page = self.inner.list_page(query, limit=limit, continue_token=continue_token)
        return replace(page, items=[self.distortion.of(query.resource, each) for each in page.items])

    def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: JsonPatch,
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Json:
        reply = self.inner.json_patch(resource, namespace, name, operations, subresource=subresource, strict=strict)
        return self.distortion.of(resource, reply)

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        return self.distortion.of(
            resource, self.inner.merge_patch(resource, namespace, name, patch, subresource=subresource)
        )

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        return self.distortion.of(resource, self.inner.create(resource, namespace, body))

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        return self.distortion.of(resource, self.inner.update(resource, namespace, name, body, subresource=subresource))

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        self.inner.delete(resource, namespace, name, uid=uid, resource_version=resource_version)

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        return self.inner.watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)


@cache
def recoverable() -> World:
    world = World()
    world.add_composition(current=synthesis(slices=["s"]), metadata={"labels": {"a": "b"}})
    world.add_slice("s", [manifest(name="kept"), manifest(name="other")], states=[STATE, STATE], stamp="u")
    world.add_composition("sibling", current=synthesis(slices=["t"]))
    world.add_slice("t", [manifest(name="theirs")], owner="sibling")
    world.remember([entry(name=each) for each in ("kept", "other", "lost", "theirs")])
    return world


@cache
def gated() -> World:
    world = World()
    world.add_composition(current=synthesis(slices=["s"], tombstoneRecoveryStatus=decided("NotNeeded")))
    world.add_slice("s", [manifest(name="a"), manifest(name="b")], states=[STATE, STATE])
    return world


@cache
def recordable() -> World:
    world = World()
    world.add_composition(current=synthesis(slices=["s"], **READY))
    world.add_slice("s", [manifest(name="a"), manifest(name="b")], states=[STATE, STATE])
    world.remember([entry(name="old")])
    return world


@cache
def littered() -> World:
    world = World()
    world.clock.now = NOW - timedelta(minutes=30)
    world.add_composition(current=synthesis(slices=["needed"], **READY))
    for name in ("needed", "s"):
        world.add_slice(name, [manifest()])
    world.clock.now = NOW
    return world


@cache
def unclaimed() -> World:
    world = World()
    world.add_composition("other", current=synthesis(**READY))
    for secret in world.remember([entry(name="lost")], name="gone"):
        note = {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: "2026-01-01T00:00:00Z"}}}
        world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], note)
    return world


@dataclass(frozen=True)
class Case:
    """A handler on a world, what it may write there, and what it still may write about an object that is malformed."""

    world: Callable[[], World]
    run: Callable[[World, Context], Outcome]
    writes: frozenset[str]
    malformed: frozenset[str] = frozenset()


VIEWS: dict[Resource, type[ObjectView]] = {
    COMPOSITIONS: Composition,
    RESOURCE_SLICES: ResourceSlice,
    SECRETS: ObjectView,
}
PUBLISH = "patch compositions/status"
CASES = {
    "recover": Case(
        recoverable,
        lambda world, context: recover(recover_message(world.composition()), context),
        frozenset({"patch resourceslices", "create resourceslices", PUBLISH, "patch compositions"}),
        frozenset({PUBLISH}),
    ),
    "gate": Case(
        gated,
        lambda world, context: gate(gate_message(world.composition()), context),
        frozenset({PUBLISH, "patch compositions"}),
    ),
    "record": Case(
        recordable,
        lambda world, context: record(record_message(world.composition()), context),
        frozenset({"create secrets", "delete secrets"}),
    ),
    "cleanup": Case(
        littered,
        lambda world, context: cleanup(cleanup_message("s", "needed", uid=world.composition().uid), context),
        frozenset({"delete resourceslices", "patch resourceslices"}),
        frozenset({"delete resourceslices"}),
    ),
    "retire": Case(
        unclaimed,
        lambda _, context: retire(retire_message(), context),
        frozenset({"patch secrets", "delete secrets"}),
    ),
}


def objects(world: World) -> list[tuple[Resource, Json]]:
    """Everything a handler may read there."""
    upstream = [(resource, each) for resource in (COMPOSITIONS, RESOURCE_SLICES) for each in world.all(resource)]
    return [*upstream, *((SECRETS, each) for each in world.secrets())]


@st.composite
def distortions(draw: st.DrawFn, world: World) -> Distortion:
    resource, obj = draw(st.sampled_from(objects(world)))
    paths = [each for each in places(obj) if each[0] in ("metadata", "spec", "status", "data")]
    return Distortion(resource, obj["metadata"]["name"], draw(st.sampled_from(paths)), draw(JSON))


def malformed(world: World, distortion: Distortion) -> bool:
    """Whether the distorted object can no longer be read."""
    (obj,) = (
        distortion.of(resource, each)
        for resource, each in objects(world)
        if resource is distortion.resource and each["metadata"]["name"] == distortion.name
    )
    try:
        VIEWS[distortion.resource].from_json(obj)
    except MalformedObject:
        return True
    return False


def ended(case: Case, world: World, distortion: Distortion) -> Outcome | SextonError:
    """What the handler comes to. Any other error than one of ours ends the test."""
    world.upstream.inner = Distorting(world.up, distortion)
    world.downstream.inner = Distorting(world.down, distortion)
    return tried(lambda: case.run(world, world.context), SextonError)


@pytest.mark.parametrize("name", CASES)
def test_without_junk_the_handler_does_its_work(name: str) -> None:
    world = CASES[name].world().fork()
    assert CASES[name].run(world, world.context).kind is Kind.DONE
    assert world.writes


@pytest.mark.parametrize("name", CASES)
@repeatable(120)
@given(data=st.data())
def test_whatever_an_object_holds_there_is_an_outcome_or_an_error_and_no_other_write(
    name: str, data: st.DataObject
) -> None:
    case = CASES[name]
    world = case.world().fork()
    distortion = data.draw(distortions(world))
    end = ended(case, world, distortion)
    assert set(world.writes) <= case.writes
    if isinstance(end, SextonError) and not isinstance(end, ApiError | StartOver):
        assert set(world.writes) <= case.malformed, "an error is published, nothing else"


@pytest.mark.parametrize("name", CASES)
@repeatable(120)
@given(data=st.data())
def test_of_an_object_that_cannot_be_read_nothing_is_made(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    world = case.world().fork()
    distortion = data.draw(distortions(world).filter(lambda each: malformed(world, each)))
    ended(case, world, distortion)
    assert set(world.writes) <= case.malformed


@repeatable(120)
@given(data=st.data())
def test_junk_never_buries_what_a_slice_or_a_sibling_still_has(data: st.DataObject) -> None:
    world = recoverable().fork()
    junk = data.draw(
        distortions(world).filter(lambda each: each.resource is not RESOURCE_SLICES or malformed(world, each))
    )
    ended(CASES["recover"], world, junk)
    assert not {"kept", "other"} & set(world.tombstones())


@repeatable(120)
@given(data=st.data())
def test_junk_never_leaves_a_composition_without_a_whole_history(data: st.DataObject) -> None:
    world = recordable().fork()
    ended(CASES["record"], world, data.draw(distortions(world)))
    assert Lineage.read(world.secrets()).newest("shop", NOW) is not None
