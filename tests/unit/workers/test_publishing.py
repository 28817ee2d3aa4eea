"""Guarded writes to a composition, beyond what the handlers' own tests reach."""

from __future__ import annotations

import pytest

from eno.decision import Decision, Reason
from eno.errors import Invalid, ServerError, StartOver
from kube.resources import COMPOSITIONS
from tests.support.factories import NAMESPACE, UUID, decided, synthesis
from tests.support.tap import fail
from tests.support.world import World
from workers.freshness import Live, read
from workers.publishing import publish, request_resynthesis


def live(world: World) -> Live:
    found = read(world.up, NAMESPACE, "shop")
    assert found is not None
    return found


def test_a_new_slice_is_appended_once_and_existing_references_stay() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a"]))
    for _ in range(2):
        publish(world.up, live(world), Decision(Reason.FINISHED), ["b", "a"])
    current = world.composition().current
    assert current is not None
    assert current.slice_names == ("a", "b")
    assert world.decision() == decided()


def test_slices_are_published_where_there_were_none() -> None:
    world = World()
    current = synthesis()
    del current["resourceSlices"]
    world.add_composition(current=current)
    publish(world.up, live(world), Decision(Reason.FINISHED), ["a"])
    stored = world.composition().current
    assert stored is not None
    assert stored.slice_names == ("a",)


def test_what_is_published_already_is_no_request() -> None:
    world = World()
    world.add_composition()
    decision = Decision(Reason.INVENTORY_GET_ERROR, "list secrets: 503")
    publish(world.upstream, live(world), decision)
    before = live(world)
    assert publish(world.upstream, before, decision) is before
    assert world.writes == ["patch compositions/status"]


def test_unknown_fields_of_the_synthesis_survive() -> None:
    world = World()
    world.add_composition(current=synthesis(results=[{"message": "x"}], attempts=3, deferred=True))
    publish(world.up, live(world), Decision(Reason.NOT_NEEDED))
    stored = world.up.get(COMPOSITIONS, NAMESPACE, "shop")["status"]["currentSynthesis"]
    assert (stored["results"], stored["attempts"], stored["deferred"]) == ([{"message": "x"}], 3, True)


def test_a_request_for_a_resynthesis_keeps_other_annotations_and_is_bound_to_what_was_read() -> None:
    world = World()
    world.add_composition(annotations={"a.b/c_d": "d"})
    stale = live(world)
    request_resynthesis(world.up, stale)
    assert world.composition().annotations["eno.azure.io/force-resynthesis"] == UUID
    assert world.composition().annotations["a.b/c_d"] == "d"
    with pytest.raises(StartOver, match="composition apps/shop: it has changed"):
        request_resynthesis(world.up, stale)


@pytest.mark.parametrize(
    "refusal",
    [ServerError("patch", status=500), Invalid("patch", status=422, reason="Invalid")],
    ids=["as a fault, by an older server", "as by the schema"],
)
def test_a_failed_test_operation_is_a_lost_race_however_it_is_answered(refusal: Exception) -> None:
    world = World()
    world.add_composition()
    stale = live(world)
    world.patch_composition(metadata={"labels": {"changed": "since"}})
    world.upstream.before = fail(refusal, on="patch compositions/status")  # type: ignore[arg-type]
    with pytest.raises(StartOver):
        publish(world.upstream, stale, Decision(Reason.NOT_NEEDED))
