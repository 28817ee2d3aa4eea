"""A task asked for by hand: the watcher's own message, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from console.derivation import by_hand, look
from console.enqueue import Answer, Wish, enqueue, messages, require_task
from console.plan import parse_target
from eno.errors import MalformedObject, Retryable, Terminal, Unreachable, UsageError
from eno.inventory.secrets import lineage
from runtime.dispatch import Parked
from runtime.messages import Message, RecoverMessage, TaskName
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, SYNTHESIZER, UUID, decided, entry, manifest, synthesis
from tests.support.hints import Hints
from tests.support.tap import fail
from tests.support.world import World, retire_message
from watcher.cache import Cache
from watcher.derive import derive
from watcher.keys import Key, Kind
from watcher.process import queries
from watcher.records import read
from workers.handlers.retire import retire

READY = {"ready": "2026-03-01T11:30:00Z", "reconciled": "2026-03-01T11:30:00Z"}


def wish(task: TaskName, title: str = "apps/shop", **fields: Any) -> Wish:
    return Wish(task, parse_target(title), **fields)


def undecided() -> World:
    world = World()
    world.add_slice("slice-0", [manifest(name="a")])
    world.add_composition(current=synthesis(slices=["slice-0"]))
    return world


def recordable() -> World:
    world = World()
    world.add_slice("slice-0", [manifest(name="a")])
    world.add_composition(current=synthesis(slices=["slice-0"], tombstoneRecoveryStatus=decided(), **READY))
    return world


def littered() -> World:
    world = recordable()
    world.add_slice("left-over")
    world.clock.advance(hours=2)
    return world


def unclaimed() -> World:
    world = World()
    world.remember([entry(name="old")])
    return world


DUE: dict[TaskName, Callable[[], World]] = {
    TaskName.RECOVER: undecided,
    TaskName.GATE: undecided,
    TaskName.RECORD: recordable,
    TaskName.CLEANUP: littered,
    TaskName.RETIRE: unclaimed,
}


def watched(world: World, task: TaskName) -> list[Message]:
    """What a watcher derives from the same clusters, over all keys it would look at."""
    scope, cache, keys = world.loaded.scope, Cache(), set()
    for kind, query in queries(scope).items():
        items = (world.down if kind is Kind.INVENTORY else world.up).list_page(query).items
        keys |= cache.replace(kind, [read(kind, item, scope) for item in items])
    derived = [derive(cache.subject(key), world.clock(), scope) for key in sorted(keys)]
    return [message for each in derived for message in each.tasks if message.task is task]


@pytest.mark.parametrize("task", TaskName)
def test_it_is_the_message_that_the_watcher_derives_without_its_scope(task: TaskName) -> None:
    world = DUE[task]()
    expected = [each.model_copy(update={"scope": None}) for each in watched(world, task)]
    assert expected
    assert messages(world.context, wish(task)) == expected


@pytest.mark.parametrize("task", TaskName)
def test_reading_is_all_that_it_does(task: TaskName) -> None:
    world = DUE[task]()
    messages(world.context, wish(task))
    assert world.writes == []


def test_a_person_without_the_workers_settings_gets_the_same_message() -> None:
    world = undecided()
    bare = replace(world.context, settings=Settings.load())
    assert messages(bare, wish(TaskName.RECOVER)) == messages(world.context, wish(TaskName.RECOVER))


def settled() -> World:
    world = recordable()
    world.remember([entry(name="a")], uuid=UUID, synthesized="2026-03-01T11:00:00Z")
    return world


NOT_DUE: list[Any] = [
    pytest.param(TaskName.RECOVER, "nothing calls for it: decided", id="recover"),
    pytest.param(TaskName.GATE, "its readiness is neither held nor unsettled", id="gate"),
    pytest.param(TaskName.RECORD, "nothing calls for it: recorded already", id="record"),
    pytest.param(TaskName.CLEANUP, "no slice may go", id="cleanup"),
    pytest.param(TaskName.RETIRE, "no inventory is to be marked", id="retire"),
]


@pytest.mark.parametrize(("task", "why"), NOT_DUE)
def test_what_the_state_does_not_call_for_is_refused_in_one_line(task: TaskName, why: str) -> None:
    with pytest.raises(Terminal) as raised:
        messages(settled().context, wish(task))
    assert why in str(raised.value)
    assert "--force" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("task", TaskName)
def test_with_force_a_useless_message_names_the_same_object_and_no_more(task: TaskName) -> None:
    (message,) = messages(settled().context, wish(task, force=True))
    due = messages(DUE[task]().context, wish(task))[0]
    assert type(message) is type(due)
    assert (message.scope, message.namespace) == (None, NAMESPACE)
    assert message.log_context().keys() == due.log_context().keys()


def test_force_needs_something_to_name() -> None:
    world = World()
    world.add_composition()
    with pytest.raises(Terminal, match="there is nothing that a message could name"):
        messages(world.context, wish(TaskName.CLEANUP, force=True))


def test_force_does_not_replace_what_is_due() -> None:
    world = littered()
    assert messages(world.context, wish(TaskName.CLEANUP, force=True)) == messages(
        world.context, wish(TaskName.CLEANUP)
    )


def test_a_slice_that_is_still_young_says_when_it_may_go() -> None:
    world = recordable()
    world.clock.advance(hours=2)
    world.add_slice("left-over")
    with pytest.raises(Terminal, match=r"nothing calls for it before 2026-03-01T14:00:\d\dZ: no slice may go"):
        messages(world.context, wish(TaskName.CLEANUP))


def test_the_slices_of_a_composition_that_is_gone_can_be_cleaned_up() -> None:
    world = World()
    world.add_slice("left-over", owner="shop", uid="uid-of-old")
    world.clock.advance(hours=2)
    (message,) = messages(world.context, wish(TaskName.CLEANUP))
    assert (message.log_context()["uid"], getattr(message, "slices", ())) == ("uid-of-old", ("left-over",))


def test_the_inventories_of_a_composition_that_is_gone_are_found_by_its_name() -> None:
    (message,) = messages(unclaimed().context, wish(TaskName.RETIRE))
    assert message.log_context()["lineage"] == lineage(NAMESPACE, SYNTHESIZER)


def test_inventories_of_another_name_are_not_meant() -> None:
    with pytest.raises(Terminal, match="nothing calls for it"):
        messages(unclaimed().context, wish(TaskName.RETIRE, "apps/another"))


def test_while_a_grace_runs_it_says_until_when() -> None:
    world = unclaimed()
    retire(retire_message(), world.context)
    with pytest.raises(Terminal, match="before 2026-03-08T12:00:00Z"):
        messages(world.context, wish(TaskName.RETIRE))


@pytest.mark.parametrize("task", [TaskName.RECOVER, TaskName.GATE, TaskName.RECORD])
@pytest.mark.parametrize("force", [False, True], ids=["", "with force"])
def test_a_composition_that_does_not_exist_has_nothing_to_name(task: TaskName, force: bool) -> None:
    with pytest.raises(Terminal, match="composition apps/nobody: does not exist"):
        messages(World().context, wish(task, "apps/nobody", force=force))


def test_another_synthesis_than_the_current_one_is_refused_also_with_force() -> None:
    world = undecided()
    assert messages(world.context, wish(TaskName.GATE, synthesis=UUID))
    for force in (False, True):
        with pytest.raises(Terminal, match=f"synthesis old is not the current one; that is {UUID}"):
            messages(world.context, wish(TaskName.GATE, synthesis="old", force=force))


def test_retire_takes_no_synthesis() -> None:
    require_task(TaskName.RETIRE, "")
    require_task(TaskName.RECORD, "x")
    with pytest.raises(UsageError):
        require_task(TaskName.RETIRE, "x")


@pytest.mark.parametrize(
    ("settings", "task", "why"),
    [
        pytest.param({"composition_namespace": "b"}, TaskName.GATE, "namespace apps is outside b", id="namespace"),
        pytest.param(
            {"all_namespaces": True, "pod_namespace": "ops"},
            TaskName.RECOVER,
            "outside the recovery namespace ops",
            id="recovery namespace",
        ),
        pytest.param(
            {"pod_namespace": "apps", "composition_label_selector": "team=a"},
            TaskName.GATE,
            "labels do not match team=a",
            id="labels",
        ),
    ],
)
@pytest.mark.parametrize("force", [False, True], ids=["", "with force"])
def test_what_the_settings_leave_out_is_refused(
    settings: dict[str, Any], task: TaskName, why: str, force: bool
) -> None:
    context = replace(undecided().context, settings=Settings.load(**settings))
    with pytest.raises(Terminal, match=why):
        messages(context, wish(task, force=force))


@pytest.mark.parametrize("task", [TaskName.CLEANUP, TaskName.RETIRE])
def test_what_a_composition_left_behind_out_of_scope_is_left_alone(task: TaskName) -> None:
    world = unclaimed()
    world.add_slice("left-over", owner="shop", uid="uid-of-old")
    world.clock.advance(hours=2)
    context = replace(world.context, settings=Settings.load(composition_namespace="b", pod_namespace="apps"))
    with pytest.raises(Terminal, match="namespace apps is outside b"):
        messages(context, wish(task))


def test_all_namespaces_lists_no_more_than_the_one_that_is_asked_about() -> None:
    world = undecided()
    messages(replace(world.context, settings=Settings.load(all_namespaces=True)), wish(TaskName.GATE))
    assert {call.namespace for call in world.upstream.calls} == {NAMESPACE}


def test_a_list_that_fails_is_not_nothing() -> None:
    world = littered()
    world.upstream.before = fail(Unreachable("list resourceslices"), on="list resourceslices")
    with pytest.raises(Unreachable):
        messages(world.context, wish(TaskName.CLEANUP))


def test_a_composition_that_cannot_be_read_is_an_error() -> None:
    world = undecided()
    world.patch_composition(metadata={"labels": {"x": "y"}})
    broken = world.up.get

    def get(*args: Any, **kwargs: Any) -> Any:
        body = broken(*args, **kwargs)
        body["metadata"]["labels"] = 1
        return body

    world.upstream.get = get  # type: ignore[method-assign]
    with pytest.raises(MalformedObject):
        messages(world.context, wish(TaskName.RECOVER))


# What Redis says


def sent(hints: Hints, **fields: Any) -> Answer:
    asked = wish(TaskName.RECOVER, **fields)
    (answer,) = enqueue(hints.dispatcher, asked, messages(undecided().context, asked))
    return answer


def due_message() -> RecoverMessage:
    (message,) = messages(undecided().context, wish(TaskName.RECOVER))
    assert isinstance(message, RecoverMessage)
    return message


def test_enqueued_and_then_pending() -> None:
    hints = Hints()
    first, second = sent(hints), sent(hints)
    assert (first.word, first.error) == ("enqueued", None)
    assert first.line == f"enqueued: recover of apps/shop, synthesis {UUID}"
    assert (second.word, second.error) == ("pending", None)
    assert len(hints.outbox.sent) == 1


def test_a_key_that_is_being_executed_is_looked_at_once_more() -> None:
    hints = Hints()
    hints.begin(due_message())
    assert (sent(hints).word, sent(hints).error) == ("running", None)


def test_a_key_that_failed_is_not_before_its_time_and_force_asks_for_it_now() -> None:
    hints = Hints()
    at = hints.begin(due_message()).fail()
    answer = sent(hints)
    assert (answer.word, answer.until is not None, isinstance(answer.error, Retryable)) == ("not before", True, True)
    assert "--force asks for it now" in str(answer.error)
    assert at > hints.now
    assert sent(hints, force=True).word == "enqueued"


def test_a_parked_key_says_why_and_force_asks_for_it_now() -> None:
    hints = Hints()
    hints.begin(due_message()).park(Terminal("the Secret is somebody else's"))
    answer = sent(hints)
    assert isinstance(answer.dispatched, Parked)
    assert str(answer.error) == (
        "recover of apps/shop: it is parked: the Secret is somebody else's; --force asks for it now"
    )
    assert answer.until is not None
    assert timedelta(minutes=14) < answer.until - hints.now <= timedelta(minutes=15)
    assert sent(hints, force=True).word == "enqueued"
    assert hints.dispatcher.parked() == []


def test_the_document_holds_the_message_as_it_was_sent() -> None:
    hints = Hints()
    document = sent(hints).to_json()
    assert document["message"] == hints.outbox.sent[0].payload()
    assert {key: document[key] for key in ("task", "composition", "answer", "until", "why")} == {
        "task": "recover",
        "composition": "apps/shop",
        "answer": "enqueued",
        "until": None,
        "why": None,
    }


# The scope of a person


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, ("x", "x"), id="no settings: the namespace that was named"),
        pytest.param({"pod_namespace": "apps"}, ("apps", "apps"), id="those of a process"),
        pytest.param({"all_namespaces": True}, ("", "x"), id="all namespaces"),
        pytest.param({"all_namespaces": True, "pod_namespace": "ops"}, ("", "ops"), id="all, recovered in one"),
        pytest.param({"composition_namespace": "b", "pod_namespace": "ops"}, ("b", "ops"), id="two namespaces"),
    ],
)
def test_settings_limit_and_what_they_leave_open_is_filled_in(
    settings: dict[str, Any], expected: tuple[str, str]
) -> None:
    scope = by_hand(Settings.load(**settings), TaskName.RECOVER, "x")
    assert (scope.composition_namespace, scope.recovery_namespace) == expected
    assert scope.recovery_enabled


def test_recovery_in_all_namespaces_is_refused() -> None:
    with pytest.raises(UsageError, match="recover acts in one namespace only"):
        by_hand(Settings.load(all_namespaces=True), TaskName.RECOVER)
    assert by_hand(Settings.load(all_namespaces=True), TaskName.GATE).composition_namespace == ""


def test_without_any_namespace_it_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match="no namespace to look after"):
        by_hand(Settings.load(), TaskName.GATE)


def test_only_what_a_rule_needs_is_listed() -> None:
    world = undecided()
    look(world.context, TaskName.RECOVER, world.loaded.scope)
    assert (world.upstream.counts(), world.downstream.counts()) == ({"list compositions": 1}, {})
    assert Key(Kind.COMPOSITION, NAMESPACE, "shop") in look(world.context, TaskName.GATE, world.loaded.scope).keys
