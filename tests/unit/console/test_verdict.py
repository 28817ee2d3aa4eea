"""The demo's judge: whatever is not as it had to be is an objection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from console.audit import ApiCalls, AuditTrail
from console.plan import Preview, SliceWrite
from console.story import Manifest, Story
from console.verdict import (
    Burial,
    Ended,
    Sequel,
    call_objections,
    inventory_objections,
    minimum_calls,
    objections,
)
from devcluster.audit import AuditLog, Entry
from eno.identity import ResourceId, parse_head
from eno.inventory.entries import build
from eno.inventory.replacement import Inventory
from eno.inventory.selection import Snapshot
from eno.objects import ResourceSlice
from tests.support.factories import NOW, decided, inventory, manifest, resource_slice

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


FEWEST = {
    "get": {"compositions": 2, "resourceslices": 1},
    "list": {"compositions": 1, "secrets": 1},
    "patch": {"compositions/status": 1, "resourceslices": 1},
}


@pytest.mark.parametrize(
    ("writes", "slices", "calls"),
    [
        pytest.param(
            [],
            3,
            {
                "get": {"compositions": 1, "resourceslices": 3},
                "list": {"compositions": 1, "secrets": 1},
                "patch": {"compositions/status": 1},
            },
            id="everything is held",
        ),
        pytest.param([SliceWrite("append", "one", (GRAVE,))], 1, FEWEST, id="one append"),
        pytest.param(
            [SliceWrite("append", "one", ()), SliceWrite("create", "x", ()), SliceWrite("create", "y", ())],
            2,
            {
                "get": {"compositions": 4, "resourceslices": 2},
                "list": {"compositions": 1, "secrets": 1},
                "patch": {"compositions/status": 1, "resourceslices": 1},
                "create": {"resourceslices": 2},
            },
            id="an append and two overflow slices",
        ),
    ],
)
def test_a_recovery_reads_each_slice_once_and_the_composition_before_each_write(
    writes: Sequence[SliceWrite], slices: int, calls: ApiCalls
) -> None:
    assert minimum_calls(writes, slices) == calls


def test_the_fewest_calls_raise_no_objection_and_events_do_not_count() -> None:
    during = {**FEWEST, "create": {"events": 1}}

    assert call_objections(FEWEST, during, {"create": {"events": 2}, "get": {"compositions": 1}}) == []


@pytest.mark.parametrize(
    ("during", "afterwards"),
    [
        pytest.param({**FEWEST, "get": {"compositions": 3, "resourceslices": 1}}, {}, id="a read too many"),
        pytest.param({**FEWEST, "list": {"secrets": 1}}, {}, id="a read too few"),
        pytest.param({**FEWEST, "create": {"resourceslices": 1}}, {}, id="a write that was not planned"),
        pytest.param(FEWEST, {"patch": {"compositions/status": 1}}, id="decided twice"),
        pytest.param(FEWEST, {"delete": {"resourceslices": 1}}, id="a delete after the decision"),
    ],
)
def test_other_calls_are_objected_to(during: ApiCalls, afterwards: ApiCalls) -> None:
    assert len(call_objections(FEWEST, during, afterwards)) == 1


def stored(*texts: str) -> Snapshot:
    """The inventory of a synthesis with these manifests, as read back."""
    secrets = inventory(build((parse_head(text), False) for text in texts))
    (found,) = Inventory.of(secrets).snapshots("shop")
    return found


def test_an_inventory_lists_what_is_owned_and_nothing_else() -> None:
    snapshot = stored(KEPT, GONE)
    kept, gone, more = (parse_head(text).id for text in (KEPT, GONE, MORE))

    assert inventory_objections({kept, gone}, snapshot) == []
    assert inventory_objections({kept}, snapshot) == ["recorded although it is not owned: ConfigMap shop/gone"]
    assert inventory_objections({kept, gone, more}, snapshot) == ["not recorded: ConfigMap shop/more"]


def test_the_document_has_exactly_what_machines_are_promised() -> None:
    burial = Burial((GRAVE,), (), 1, DECISION, {"get": {"compositions": 2}})
    snapshot = stored(KEPT)

    ended = Ended(burial, Sequel(NOW, snapshot, ("app-0",), ("one", "two")), 1.234)

    assert ended.to_json() == {
        "buried": [{"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "gone"}],
        "kept": 1,
        "decision": DECISION,
        "api_calls": {"get": {"compositions": 2}},
        "then": {
            "ready": "2026-03-01T12:00:00Z",
            "recorded": {"resources": 1, "secrets": [snapshot.chunks[0].name], "replaced": ["app-0"]},
            "cleaned_up": ["one", "two"],
            "deleted": True,
        },
        "seconds": 1.23,
    }


@dataclass
class Server:
    """An API server's audit log."""

    path: Path

    def __post_init__(self) -> None:
        self._log = AuditLog(self.path)

    def request(self, verb: str, resource: str, subresource: str = "", agent: str = "sexton-worker/1") -> None:
        self._log(Entry("", agent, verb, "", resource, subresource, "", "", 200))

    def close(self) -> None:
        self._log.close()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path / "upstream")) as server:
        yield server


@pytest.fixture
def downstream(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path / "downstream")) as server:
        yield server


def test_calls_are_counted_from_then_on_by_verb_and_resource_for_one_agent(upstream: Server) -> None:
    upstream.request("get", "compositions")
    trail = AuditTrail.since_now(upstream.path)
    upstream.request("get", "compositions")
    upstream.request("get", "compositions")
    upstream.request("get", "compositions", agent="sexton-watcher/1")
    upstream.request("patch", "compositions", "status")

    assert trail.calls("sexton-worker/") == {"get": {"compositions": 2}, "patch": {"compositions/status": 1}}


def test_a_trail_is_split_after_the_first_such_request(upstream: Server, downstream: Server) -> None:
    upstream.request("patch", "compositions", "status")
    trail = AuditTrail.since_now(upstream.path, downstream.path)
    upstream.request("get", "compositions")
    downstream.request("list", "secrets")
    upstream.request("patch", "compositions", "status")
    upstream.request("create", "events")
    upstream.request("patch", "compositions", "status")

    before, after = trail.split("patch", "compositions/status")

    assert before.calls("sexton") == {
        "get": {"compositions": 1},
        "list": {"secrets": 1},
        "patch": {"compositions/status": 1},
    }
    assert after.calls("sexton") == {"create": {"events": 1}, "patch": {"compositions/status": 1}}


def test_a_trail_without_such_a_request_is_not_split(upstream: Server) -> None:
    trail = AuditTrail.since_now(upstream.path)
    upstream.request("get", "compositions")

    before, after = trail.split("patch", "compositions/status")

    assert before.calls("sexton") == {"get": {"compositions": 1}}
    assert after.calls("sexton") == {}
