"""The demo's judge: whatever is not as it had to be is an objection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console.audit import AuditTrail
from console.plan import Preview, SliceWrite
from console.story import Manifest, Story
from console.verdict import Burial, objections
from devcluster.audit import AuditLog, Entry
from eno.identity import ResourceId, parse_head
from eno.objects import ResourceSlice
from tests.support.factories import decided, manifest, resource_slice

KEPT, GONE, MORE = manifest(name="kept"), manifest(name="gone"), manifest(name="more")
GRAVE = ResourceId("", "ConfigMap", "shop", "gone")
DECISION = decided()


def told(*texts: str) -> tuple[Manifest, ...]:
    return tuple(Manifest(text, parse_head(text)) for text in texts)


STORY = Story(told(KEPT, GONE), told(KEPT))
BEFORE = [resource_slice("one", [KEPT])]
AFTER = [resource_slice("one", [KEPT, (GONE, True)])]
PREVIEW = Preview("demo/app", "u", "s", decision=DECISION, writes=(SliceWrite("append", "one", (GRAVE,)),))


def test_what_went_as_planned_raises_no_objection() -> None:
    assert objections(STORY, PREVIEW, BEFORE, AFTER, DECISION) == []


def test_an_overflow_slice_that_was_planned_raises_no_objection() -> None:
    planned = replace(PREVIEW, writes=(SliceWrite("create", "two", (GRAVE,)),))
    after = [*BEFORE, resource_slice("two", [(GONE, True)])]

    assert objections(STORY, planned, BEFORE, after, DECISION) == []


def test_what_is_held_need_not_be_buried() -> None:
    planned = replace(PREVIEW, writes=(), held=(GRAVE,))

    assert objections(STORY, planned, BEFORE, BEFORE, DECISION) == []


@pytest.mark.parametrize(
    ("after", "objection"),
    [
        pytest.param(BEFORE, "not buried: ConfigMap shop/gone", id="nothing was buried"),
        pytest.param(
            [resource_slice("one", [KEPT, (GONE, True), (MORE, True)])],
            "buried although it is wanted or was never owned: ConfigMap shop/more",
            id="too much was buried",
        ),
        pytest.param(
            [resource_slice("one", [KEPT, (GONE, True), (GONE, True)])],
            "something was buried twice",
            id="something was buried twice",
        ),
        pytest.param(
            [resource_slice("one", [(KEPT, True), (GONE, True)])],
            "wanted manifests changed",
            id="a wanted manifest became a tombstone",
        ),
        pytest.param([resource_slice("one", [(GONE, True), KEPT])], "existing entries changed", id="an index moved"),
        pytest.param([], "existing entries changed", id="a slice is no longer referenced"),
        pytest.param(
            [*BEFORE, resource_slice("two", [(GONE, True)])],
            "what was written is not what was planned",
            id="it was written elsewhere",
        ),
    ],
)
def test_a_deviation_is_objected_to(after: Sequence[ResourceSlice], objection: str) -> None:
    assert objection in objections(STORY, PREVIEW, BEFORE, after, DECISION)


def test_another_decision_is_objected_to() -> None:
    found = objections(STORY, PREVIEW, BEFORE, AFTER, decided("InventoryNotFound"))

    assert found == ["the decision is InventoryNotFound", "the decision is not the planned one"]


def test_the_document_has_exactly_what_machines_are_promised() -> None:
    burial = Burial((GRAVE,), (), 1, DECISION, {"get": {"compositions": 2}}, 1.234)

    assert burial.to_json() == {
        "buried": [{"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "gone"}],
        "kept": 1,
        "decision": DECISION,
        "api_calls": {"get": {"compositions": 2}},
        "seconds": 1.23,
    }


def test_calls_are_counted_from_then_on_by_verb_and_resource_for_one_agent(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(path)

    def request(verb: str, resource: str, subresource: str = "", agent: str = "sexton-worker/1") -> None:
        log(Entry("", agent, verb, "", resource, subresource, "", "", 200))

    request("get", "compositions")
    trail = AuditTrail.since_now(path)
    request("get", "compositions")
    request("get", "compositions")
    request("get", "compositions", agent="sexton-watcher/1")
    request("patch", "compositions", "status")
    log.close()

    assert trail.calls("sexton-worker/") == {"get": {"compositions": 2}, "patch": {"compositions/status": 1}}
