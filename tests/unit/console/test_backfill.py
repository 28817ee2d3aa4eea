"""One task for everything in scope: what is due, and how a second run goes on where the first one stood."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from io import StringIO
from typing import Any

import pytest

from console import render
from console.backfill import Tally, Workload, send, summary, workload
from console.derivation import by_hand
from console.operating import progress
from eno.errors import BrokerUnavailable, Terminal, Unreachable
from kube.resources import RESOURCE_SLICES
from runtime.dispatch import Enqueued, NotBefore, Parked, Pending
from runtime.messages import TaskName
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, decided, entry, manifest, synthesis
from tests.support.hints import NOW, Hints
from tests.support.tap import fail
from tests.support.world import World, record_message
from workers.handlers.record import record

READY = {"ready": "2026-03-01T11:30:00Z", "reconciled": "2026-03-01T11:30:00Z"}


def town(*names: str) -> World:
    """Ready compositions without an inventory, and one that is not ready."""
    world = World()
    for name in names:
        slices = [f"{name}-0"]
        fields = {"synthesizer": name, "current": synthesis(slices=slices, tombstoneRecoveryStatus=decided(), **READY)}
        world.add_composition(name, **fields)
        world.add_slice(slices[0], [manifest(name=name)], owner=name)
    world.add_composition("undecided")
    return world


def due(world: World, task: TaskName = TaskName.RECORD, **settings: Any) -> Workload:
    scope = by_hand(Settings.load(**({"pod_namespace": NAMESPACE} | settings)), task)
    return workload(world.context, task, scope)


def titles(work: Workload) -> list[str]:
    return [each.title for each in work.due]


def filled(
    hints: Hints,
    work: Workload,
    tally: Tally | None = None,
    *,
    stop_after: int | None = None,
    pace: Callable[[], None] = lambda: None,
) -> Tally:
    tally = tally or Tally()
    for answer in send(hints.dispatcher, work.due, pace, nullcontext):
        tally.note(answer)
        if tally.asked == stop_after:
            break
    return tally


def test_what_is_due_is_what_the_state_calls_for() -> None:
    work = due(town("a", "b"))
    assert (titles(work), work.looked_at, work.findings) == (["apps/a", "apps/b"], {"composition": 3}, ())
    assert titles(due(town("a"), TaskName.RECOVER)) == ["apps/undecided"]


def test_reading_is_all_that_a_dry_run_does() -> None:
    world = town("a")
    document = summary(due(world), Tally(), scope="namespace apps", dry_run=True)
    assert world.writes == []
    assert (document["due"], document["enqueued"], document["dry_run"]) == (1, 0, True)
    assert [each["name"] for each in document["messages"]] == ["a"]


def test_what_the_selector_leaves_out_is_left_alone() -> None:
    world = town("a", "b")
    world.patch_composition("a", metadata={"labels": {"team": "x"}})
    assert titles(due(world, composition_label_selector="team=x")) == ["apps/a"]


def test_another_namespace_is_left_alone() -> None:
    assert titles(due(town("a"), composition_namespace="other")) == []


@pytest.mark.parametrize(
    ("task", "namespace", "counted"),
    [
        pytest.param(TaskName.RECORD, "empty", {"composition": 0}, id="no composition"),
        pytest.param(TaskName.RECORD, NAMESPACE, {"composition": 3}, id="compositions and not their inventories"),
        pytest.param(TaskName.RETIRE, "empty", {"lineage": 0}, id="no inventory of the namespace"),
        pytest.param(TaskName.RETIRE, NAMESPACE, {"lineage": 2}, id="a lineage counts once, whatever it stores"),
        pytest.param(TaskName.CLEANUP, NAMESPACE, {"composition": 3, "unowned slice": 1}, id="slices of nobody"),
    ],
)
def test_what_it_was_out_of_is_that_of_the_namespace(task: TaskName, namespace: str, counted: dict[str, int]) -> None:
    world = town("a", "b")
    world.add_slice("lost", owner=None)
    for name in ("a", "b"):
        world.remember([entry(name=name)], name=name, synthesizer=name)
    assert due(world, task, pod_namespace=namespace).looked_at == counted


def test_a_second_run_goes_on_where_the_first_one_stood() -> None:
    world, hints = town("a", "b", "c"), Hints()
    filled(hints, due(world), stop_after=2)
    tally = filled(hints, due(world))
    assert dict(tally.answers) == {"pending": 2, "enqueued": 1}
    assert [each.log_context()["composition"] for each in hints.outbox.sent] == ["apps/a", "apps/b", "apps/c"]


def test_what_a_worker_has_done_meanwhile_is_not_due_any_more() -> None:
    world, hints = town("a", "b"), Hints()
    filled(hints, due(world), stop_after=1)
    record(record_message(world.composition("a")), world.context)
    assert titles(due(world)) == ["apps/b"]


def test_an_emptied_redis_loses_nothing() -> None:
    world, hints = town("a", "b"), Hints()
    filled(hints, due(world))
    hints.redis.flushall()
    assert dict(filled(hints, due(world)).answers) == {"enqueued": 2}


def test_it_stops_where_redis_goes_away_and_counts_what_is_left() -> None:
    world, hints = town("a", "b", "c"), Hints()
    work, tally = due(world), Tally()

    def pace() -> None:
        if tally.asked == 1:
            hints.outbox.broken = True

    with pytest.raises(BrokerUnavailable):
        filled(hints, work, tally, pace=pace)
    assert summary(work, tally, scope="s", dry_run=False)["left"] == 2


def test_keys_that_failed_are_counted_and_make_it_end_with_an_error() -> None:
    world, hints = town("a", "b"), Hints()
    work = due(world)
    hints.begin(work.due[0].message).park(Terminal("x"))
    hints.begin(work.due[1].message).fail()
    tally = filled(hints, work)
    assert dict(tally.answers) == {"parked": 1, "not before": 1}
    assert str(tally.error(TaskName.RECORD)) == "record: 2 keys held back after a failure; sexton status says why"


def test_pending_keys_are_no_error() -> None:
    tally = Tally()
    tally.note(Pending())
    tally.note(Enqueued())
    assert tally.error(TaskName.GATE) is None
    tally.note(NotBefore(NOW))
    tally.note(Parked(NOW))
    assert (tally.asked, tally.held_back) == (4, 2)


def test_a_list_that_fails_is_not_nothing() -> None:
    world = town("a")
    world.downstream.before = fail(Unreachable("list secrets"), on="list secrets")
    with pytest.raises(Unreachable):
        due(world)


def test_cleanup_also_reaches_slices_that_nobody_controls() -> None:
    world = town()
    world.add_slice("lost", owner=None)
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "lost")
    (only,) = due(world, TaskName.CLEANUP).due
    assert only.title == "apps/(no owner)"


def test_an_object_that_cannot_be_read_keeps_nothing_else_back() -> None:
    world = town("a")
    uuid = {"currentSynthesis": {"uuid": "no good:key", "tombstoneRecoveryStatus": {"synthesisUUID": "no good:key"}}}
    world.patch_composition("undecided", subresource="status", status=uuid)
    work = due(world, TaskName.RECOVER)
    assert titles(work) == []
    (finding,) = work.findings
    assert finding.startswith("message of sexton.recover about Composition apps/undecided: synthesis_uuid: ")


def shown(work: Workload, tally: Tally, **fields: Any) -> str:
    stream = StringIO()
    console = render.terminal(stream)
    console.width = 80
    for part in render.backfilled(work, tally, "namespace apps", **fields):
        console.print(part)
    return stream.getvalue()


def test_a_person_sees_what_would_be_enqueued() -> None:
    text = shown(due(town("a", "b")), Tally(), dry_run=True)
    assert "WOULD BE ENQUEUED" in text
    assert "apps/a" in text
    assert "record is due for 2 of 3 compositions in namespace apps." in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_person_sees_what_is_left_after_an_interruption() -> None:
    world, hints = town("a", "b", "c"), Hints()
    work = due(world)
    text = shown(work, filled(hints, work, stop_after=1), dry_run=False)
    assert "1 enqueued." in text
    assert "2 left: the same command goes on with them." in text


def test_nothing_due_is_said_in_one_line() -> None:
    assert shown(due(World()), Tally(), dry_run=False) == "record is due for 0 of 0 compositions in namespace apps.\n"


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("names", "drawn"), [(["a"], True), ([], False)], ids=["something due", "nothing due"])
def test_there_is_a_bar_only_where_something_is_due(
    monkeypatch: pytest.MonkeyPatch, names: list[str], drawn: bool
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with progress(due(town(*names)), quiet=False):
        pass
    assert bool(screen.getvalue()) is drawn
