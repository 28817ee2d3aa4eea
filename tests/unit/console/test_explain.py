"""What `sexton explain` says: why readiness is held, and what would become of each slice."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO

import pytest

from console import render
from console.explain import Explanation, explain
from eno.errors import InventoryTooLarge, Terminal
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from tests.support.factories import NAMESPACE, STAMP, UUID, Json, decided, manifest, synthesis
from tests.support.hints import Hints
from tests.support.world import World, gate_message, record_message, recover_message


def explained(world: World, hints: Hints | None = None, name: str = "shop") -> Explanation:
    return explain(world.context, (hints or Hints()).dispatcher, NAMESPACE, name)


def printed(found: Explanation, width: int = 120) -> str:
    stream = StringIO()
    console = render.terminal(stream)
    console.width = width
    for part in render.explanation(found):
        console.print(part)
    return stream.getvalue()


def a_shop() -> World:
    """Undecided, with a slice for every fate."""
    world = World()
    world.add_composition(
        current=synthesis(slices=["current", "gone"]), previousSynthesis=synthesis("old", slices=["previous"])
    )
    for name in ("current", "previous", "left-over", "ending"):
        world.add_slice(name, [manifest(name=name)])
    world.add_slice("of-another", [], owner="another")
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "ending")
    world.clock.advance(minutes=1)
    world.add_slice("young", [])
    return world


def test_every_slice_is_shown_with_its_fate_and_the_reason() -> None:
    found = explained(a_shop())
    assert {each.name: (each.verb, each.why) for each in found.slices} == {
        "current": ("keep", "the current synthesis references it"),
        "gone": ("missing", "Eno has to synthesize again"),
        "previous": ("keep", "the previous synthesis references it"),
        "left-over": ("delete", "nothing needs it"),
        "ending": ("release", "it is terminating and nothing waits for it"),
        "young": ("keep", "it is young"),
    }


def test_what_is_in_the_way_of_readiness_is_shown() -> None:
    found = explained(a_shop())
    assert found.obstacles == (
        "tombstone recovery has not decided yet",
        "slice current: 1 of 1 resource has no state yet",
        "slice gone is missing: Eno has to synthesize again",
    )
    assert found.resynthesis == "a slice is missing"


@pytest.mark.parametrize(
    "current", [pytest.param(None, id="no synthesis"), pytest.param(synthesis(synthesized=None), id="not finished")]
)
def test_what_is_not_synthesized_yet_waits_for_eno(current: Json | None) -> None:
    world = World()
    world.add_composition(current=current)
    assert explained(world).obstacles == ("Eno has not synthesized it yet",)


def test_why_it_is_undecided_is_the_reason_of_the_last_attempt() -> None:
    world = World()
    failed = {**decided("InventoryGetError", message="list secrets kube-system: 503"), "status": False}
    world.add_composition(current=synthesis(tombstoneRecoveryStatus=failed))
    assert explained(world).facts["decision"] == "InventoryGetError, retrying: list secrets kube-system: 503"


def test_what_is_settled_has_nothing_in_the_way() -> None:
    world = World()
    world.add_composition(current=synthesis(tombstoneRecoveryStatus=decided(), ready=STAMP, reconciled=STAMP))
    found = explained(world)
    assert (found.obstacles, found.resynthesis) == ((), "")
    text = printed(found)
    assert "in the way" not in text
    assert STAMP in text


def test_the_keys_that_redis_knows_are_shown() -> None:
    world, hints = a_shop(), Hints()
    composition = world.composition()
    hints.dispatcher.enqueue(gate_message(composition))
    hints.begin(recover_message(composition)).park(InventoryTooLarge("one entry is too large"))
    found = explained(world, hints)
    assert {each.task.short: each.text for each in found.tasks} == {
        "recover": "parked: one entry is too large",
        "gate": "pending",
        "record": "",
        "cleanup": "",
    }


def test_what_keeps_failing_is_shown_between_two_attempts() -> None:
    world, hints = a_shop(), Hints()
    for _ in range(6):
        hints.begin(record_message(world.composition())).fail(retry_after=60)
    (text,) = (each.text for each in explained(world, hints).tasks if each.text)
    assert re.fullmatch(r"failed 6 times, next at 2026-01-02T03:05:0\dZ; the workers' log says why", text)
    assert "task record" in printed(explained(world, hints))


def test_an_attempt_at_what_keeps_failing_says_so() -> None:
    world, hints = a_shop(), Hints()
    gate = gate_message(world.composition())
    hints.begin(gate).fail(retry_after=60)
    hints.expire(hints.keys.not_before(gate.key))
    hints.dispatcher.enqueue(gate)
    assert [each.text for each in explained(world, hints).tasks if each.text] == [
        "pending, failed 1 time; the workers' log says why"
    ]


def test_what_waits_says_until_when() -> None:
    world, hints = a_shop(), Hints()
    hints.begin(gate_message(world.composition())).wait(hints.now + timedelta(minutes=1))
    (text,) = (each.text for each in explained(world, hints).tasks if each.text)
    assert re.fullmatch(r"waiting, next at 2026-01-02T03:05:0\dZ", text)


@pytest.mark.parametrize("current", [None, synthesis(tombstoneRecoveryStatus=None)], ids=["unsynthesized", "undecided"])
def test_what_is_not_opted_in_is_said_with_the_line_that_does_it(current: Json | None) -> None:
    world = World()
    world.add_composition(current=current, opted_in=False)
    found = explained(world)
    assert found.facts["opted in"].startswith(
        "no; kubectl annotate compositions.eno.azure.io -n apps shop eno.azure.io"
    )
    assert found.to_json()["opted_in"] is False
    assert found.obstacles == (() if current else ("Eno has not synthesized it yet",))


def test_where_no_watcher_leads_it_is_said() -> None:
    text = printed(explained(a_shop()), 200)
    assert "watcher" in text
    assert (
        "No watcher leads (there is no Lease apps/sexton-watcher: no watcher has ever led); see sexton doctor" in text
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"current": synthesis(slices=["gone"])}, "Eno has to synthesize again", id="current"),
        pytest.param(
            {"previousSynthesis": synthesis("old", slices=["gone"])}, "nothing reads it any more", id="previous"
        ),
        pytest.param({"inFlightSynthesis": synthesis("new", slices=["gone"])}, "not written yet", id="in flight"),
    ],
)
def test_a_missing_slice_says_what_has_to_happen(fields: Json, why: str) -> None:
    world = World()
    world.add_composition(**fields)
    assert [(each.name, each.why) for each in explained(world).slices] == [("gone", why)]


def test_an_unreachable_redis_is_part_of_the_explanation() -> None:
    hints = Hints()
    hints.disconnect()
    found = explained(a_shop(), hints)
    assert found.unavailable is not None
    assert found.slices
    assert found.to_json()["queues"] == {"reachable": False}


def test_slices_that_a_composition_left_behind_are_explained_without_it() -> None:
    world = a_shop()
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    found = explained(world)
    assert {each.name: each.verb for each in found.slices} == {
        "current": "delete",
        "previous": "delete",
        "left-over": "delete",
        "ending": "release",
        "young": "keep",
    }
    assert found.to_json()["exists"] is False
    assert "apps/shop does not exist" in printed(found)


def test_what_does_not_exist_is_one_line() -> None:
    with pytest.raises(Terminal, match="composition apps/nowhere: does not exist"):
        explained(World(), name="nowhere")


def test_the_document_is_complete_and_plain_json() -> None:
    world = a_shop()
    document = json.loads(json.dumps(explained(world).to_json()))
    young = world.slice("young").created
    assert young is not None
    assert document == {
        "composition": "apps/shop",
        "exists": True,
        "uid": world.composition().uid,
        "synthesis": UUID,
        "opted_in": True,
        "decision": "undecided",
        "message": None,
        "hint": None,
        "reconciled": None,
        "ready": None,
        "obstacles": list(explained(world).obstacles),
        "resynthesis": "a slice is missing",
        "slices": document["slices"],
        "tasks": document["tasks"],
        "leaderless": explained(world).leaderless,
        "queues": {"reachable": True},
    }
    assert document["slices"][-1] == {
        "name": "young",
        "referenced_by": [],
        "fate": "keep",
        "reason": "it is young",
        "until": (young + timedelta(seconds=5)).isoformat().replace("+00:00", "Z"),
    }
    assert document["tasks"][0] == {
        "task": "recover",
        "pending": False,
        "running": False,
        "not_before": None,
        "attempts": 0,
        "failures": 0,
        "parked": None,
    }


def test_a_decision_made_for_want_of_a_field_carries_a_hint() -> None:
    world = World()
    fields = {"tombstoneRecoveryRequired": None, "tombstoneRecoveryStatus": decided("NotNeeded")}
    world.add_composition(current=synthesis(**fields))
    assert "SEXTON_INFER_REQUIRED=true" in printed(explained(world), 300)
    assert "SEXTON_INFER_REQUIRED=true" in explained(world).to_json()["hint"]


def test_explaining_writes_nothing() -> None:
    world = a_shop()
    explained(world)
    assert world.writes == []


def test_the_table_names_the_essentials() -> None:
    text = printed(explained(a_shop()))
    for expected in ("apps/shop", "undecided", "in the way", "left-over", "nothing needs it", "missing", "current"):
        assert expected in text
    assert max(map(len, text.splitlines())) <= 120
