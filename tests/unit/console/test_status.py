"""What `sexton status` says of a composition and of the queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from types import MappingProxyType
from typing import Any

import pytest

from console import render
from console.status import Queues, Report, collect, decision, rows, scope_title, standing
from eno.errors import BrokerUnavailable, Forbidden, Unreachable
from eno.objects import Composition
from eno.scope import Scope
from kube.resources import LEASES
from runtime.dispatch import KeyState, ParkedKey
from runtime.messages import TaskName
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, NOW, STAMP, composition, decided, synthesis
from tests.support.tap import fail
from tests.support.world import World

RETRYING = {"status": False, "reason": "InventoryGetError", "synthesisUUID": "synthesis-2"}


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        pytest.param(composition(), "undecided", id="undecided"),
        pytest.param(
            composition(current=synthesis(tombstoneRecoveryStatus=decided())),
            "FinishedTombstoneRecovery",
            id="a terminal decision is shown by its reason",
        ),
        pytest.param(
            composition(current=synthesis(tombstoneRecoveryStatus=RETRYING)),
            "InventoryGetError, retrying",
            id="a retriable decision says that it goes on",
        ),
        pytest.param(
            composition(current=synthesis(tombstoneRecoveryStatus=decided(uuid="synthesis-1"))),
            "undecided",
            id="a decision for another synthesis is none",
        ),
        pytest.param(composition(opted_in=False), "not opted in", id="not opted in"),
        pytest.param(composition(current=None), "not synthesized", id="no synthesis"),
        pytest.param(composition(current=synthesis(synthesized=None)), "not synthesized", id="still synthesizing"),
    ],
)
def test_a_composition_is_shown_by_its_decision_or_why_there_is_none(subject: Composition, shown: str) -> None:
    assert decision(subject) == shown


def parked(message: str = "409 AlreadyExists") -> ParkedKey:
    return ParkedKey("recover:u:s", "terminal", message, NOW - timedelta(hours=3), None, {"composition": "apps/shop"})


def report(queues: Queues | None = None, tasks: Mapping[TaskName, str] = MappingProxyType({})) -> Report:
    lengths: dict[TaskName, int] = {TaskName.RECOVER: 2, TaskName.GATE: 0}
    return Report(tuple(rows([composition()], {composition().uid: tasks})), queues or Queues(lengths))


def printed(subject: Report, width: int = 80) -> str:
    stream = StringIO()
    console = render.terminal(stream)
    console.width = width
    for part in render.status(subject, NOW):
        console.print(part)
    return stream.getvalue()


def test_the_table_fits_eighty_columns_and_names_the_essentials() -> None:
    text = printed(report(Queues({TaskName.RECOVER: 2}, [parked("Secret x exists with other content")])))

    assert max(map(len, text.splitlines())) <= 80
    for expected in ("apps/shop", "undecided", "true", "60m", "2 recover", "Parked keys: 1", "Secret x exists", "3h"):
        assert expected in text


def test_each_task_of_which_something_is_known_has_a_line() -> None:
    subject = report(tasks={TaskName.GATE: "pending", TaskName.RECORD: "failing"})
    text = printed(subject)
    assert "gate: pending" in text
    assert "record: failing" in text
    assert max(map(len, text.splitlines())) <= 80
    assert subject.to_json(NOW)["compositions"][0]["tasks"] == {"gate": "pending", "record": "failing"}


@pytest.mark.parametrize(
    ("ready", "shown"), [pytest.param({"ready": STAMP}, "true", id="yes"), pytest.param({}, "false", id="no")]
)
def test_whether_it_is_ready_has_a_column(ready: dict[str, str], shown: str) -> None:
    decision_, required = decided(), {"tombstoneRecoveryRequired": None}
    subject = composition(current=synthesis(tombstoneRecoveryStatus=decision_, **ready, **required))
    header, line = (
        each for each in printed(Report(tuple(rows([subject], {})), Queues({}))).splitlines()[:3] if "─" not in each
    )
    assert line[header.index("READY") :].split()[0] == shown


@pytest.mark.parametrize(
    ("known", "word"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"failures": 6}, "failing", id="between two attempts"),
        pytest.param({"failures": 6, "running": True}, "running", id="an attempt"),
        pytest.param({"failures": 6, "pending": True}, "pending", id="before an attempt"),
        pytest.param({"not_before": NOW}, "waiting", id="it waits for an instant"),
        pytest.param({"parked": True, "not_before": NOW}, "parked", id="parked"),
    ],
)
def test_how_a_key_stands_is_one_word(known: dict[str, Any], word: str) -> None:
    nothing = KeyState(pending=False, running=False, not_before=None, parked=False, attempts=0, failures=0)
    assert standing(replace(nothing, **known)) == word


def arrange(world: World, leads: bool | None) -> Settings:
    """A Lease that holds, or is too old; None: there is none."""
    if leads is not None:
        renewed = (world.clock() - timedelta(seconds=3 if leads else 3600)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "watcher-1", "leaseDurationSeconds": 15, "renewTime": renewed}
        world.up.create(LEASES, NAMESPACE, {"metadata": {"name": "sexton-watcher"}, "spec": spec})
    return Settings.load(pod_namespace=NAMESPACE, broker_url="redis://127.0.0.1:1/0")


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        pytest.param(True, "", id="one leads"),
        pytest.param(False, "No watcher leads (watcher-1 renewed the Lease 3600 s ago", id="none any more"),
        pytest.param(None, "No watcher leads (there is no Lease apps/sexton-watcher", id="none ever"),
    ],
)
def test_where_no_watcher_leads_it_is_said(leads: bool | None, said: str) -> None:
    world = World()
    found = collect(world.upstream, arrange(world, leads), world.clock())
    assert found.leaderless.startswith(said)
    assert bool(found.leaderless) is bool(said)
    assert ("see sexton doctor." in printed(found, 200)) is bool(said)


@pytest.mark.parametrize(
    "error", [Forbidden("get leases", status=403), Unreachable("get leases")], ids=["denied", "away"]
)
def test_a_lease_that_cannot_be_read_says_nothing(error: Exception) -> None:
    world = World()
    world.upstream.before = fail(error, on="get leases")
    assert collect(world.upstream, arrange(world, None), world.clock()).leaderless == ""


def test_without_a_place_for_a_lease_nothing_is_said() -> None:
    settings = Settings.load(all_namespaces=True, broker_url="redis://127.0.0.1:1/0")
    assert collect(World().upstream, settings, NOW).leaderless == ""


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        pytest.param(Scope(composition_namespace="nope"), "No compositions in namespace nope.", id="one namespace"),
        pytest.param(Scope(composition_namespace=""), "No compositions in all namespaces.", id="all namespaces"),
        pytest.param(
            Scope(composition_namespace="nope", label_selector="team=a"),
            "No compositions in namespace nope with labels team=a.",
            id="labels",
        ),
    ],
)
def test_without_compositions_it_says_where_it_looked(scope: Scope, said: str) -> None:
    assert said in printed(Report((), Queues({}), scope_title(scope)))


def test_an_unreachable_redis_is_part_of_the_document() -> None:
    error = BrokerUnavailable("not available", where="Redis 127.0.0.1:1/0")

    document = report(Queues({}, unavailable=error)).to_json(NOW)

    assert document["queues"] == {"reachable": False, "error": "Redis 127.0.0.1:1/0: not available"}
    assert document["compositions"][0]["decision"] == "undecided"


def test_the_document_names_what_the_table_shows() -> None:
    document = report(Queues({TaskName.RECOVER: 2}, [parked()])).to_json(NOW)

    assert document["compositions"] == [
        {
            "namespace": "apps",
            "name": "shop",
            "uid": composition().uid,
            "synthesis": "synthesis-2",
            "opted_in": True,
            "required": True,
            "decision": "undecided",
            "finished": False,
            "message": None,
            "hint": None,
            "age_seconds": 3600,
            "ready": False,
            "tasks": {},
        }
    ]
    assert document["queues"]["waiting"] == {"recover": 2}
    assert document["queues"]["parked"][0]["composition"] == "apps/shop"


def test_what_is_not_there_is_null_in_the_document_and_never_empty() -> None:
    subject = composition(current=None)
    document = Report(tuple(rows([subject], {})), Queues({}, [replace(parked(), context={})])).to_json(NOW)
    (row,) = document["compositions"]
    assert document["leaderless"] is None
    assert "" not in [*row.values(), *document["queues"]["parked"][0].values()]
    assert [row[name] for name in ("synthesis", "required", "message", "hint")] == [None] * 4


SILENT = {"tombstoneRecoveryRequired": None, "tombstoneRecoveryStatus": decided("NotNeeded")}


@pytest.mark.parametrize(
    ("subject", "hinted"),
    [
        pytest.param(composition(current=synthesis(**SILENT)), True, id="a first synthesis that does not say"),
        pytest.param(
            composition(current=synthesis(**SILENT), previousSynthesis=synthesis("old")), False, id="a second one"
        ),
        pytest.param(
            composition(current=synthesis(**SILENT | {"tombstoneRecoveryRequired": False})),
            False,
            id="one that says no",
        ),
        pytest.param(composition(current=synthesis(tombstoneRecoveryRequired=None)), False, id="an undecided one"),
    ],
)
def test_a_decision_made_for_want_of_a_field_carries_a_hint(subject: Composition, hinted: bool) -> None:
    found = Report(tuple(rows([subject], {})), Queues({}))
    assert ("SEXTON_INFER_REQUIRED=true" in printed(found, 300)) is hinted
    assert bool(found.to_json(NOW)["compositions"][0]["hint"]) is hinted


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d"), (8e6, "92d")],
)
def test_ages_read_like_those_of_kubectl(seconds: float, text: str) -> None:
    assert render.age(seconds) == text


def test_what_comes_from_a_cluster_is_never_taken_for_markup_or_emoji() -> None:
    stream = StringIO()

    render.terminal(stream).print(render.facts([("name", "[red]:cart:[/red]")]))

    assert "[red]:cart:[/red]" in stream.getvalue()


def test_a_pipe_gets_long_names_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    stream: Any = StringIO()
    name = "x" * 150

    render.terminal(stream).print(render.grid("NAME", rows=[[name]]))

    assert name in stream.getvalue()
    assert stream.getvalue().startswith("NAME")


def test_on_a_terminal_a_table_stands_apart() -> None:
    stream: Any = StringIO()
    stream.isatty = lambda: True
    render.terminal(stream).print(render.grid("NAME", rows=[["x"]]))
    assert stream.getvalue().startswith(" " * 4 + " \n") or stream.getvalue().splitlines()[0].strip() == ""
