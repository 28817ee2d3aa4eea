"""What `sexton wait` waits for, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from console.waiting import SHORTEST_ROUND, Awaited, Goal, Never, NotInTime, Reached, Verdict, Wait, Waiting, verdict
from eno.errors import Forbidden, MalformedObject, Terminal, TimedOut, Unreachable
from eno.objects import Composition
from kube.cluster import Cluster, Query, WatchEvent
from kube.resources import COMPOSITIONS
from tests.support.factories import NAMESPACE, STAMP, composition, decided, synthesis
from tests.support.tap import Call, Tap, fail, once
from tests.support.world import World

DELETING = {"metadata": {"deletionTimestamp": STAMP}}
RETRYING = {"status": False, "reason": "InventoryGetError", "synthesisUUID": "synthesis-2", "message": "list: 500"}


def with_decision(reason: str = "NotNeeded", **fields: Any) -> Composition:
    return composition(current=synthesis(tombstoneRecoveryStatus=decided(reason), **fields))


@pytest.mark.parametrize(
    ("subject", "goal", "expected"),
    [
        pytest.param(composition(), Goal.DECISION, Waiting, id="nothing is decided"),
        pytest.param(with_decision(), Goal.DECISION, Reached, id="a terminal decision"),
        pytest.param(
            with_decision("InventoryInvalid"), Goal.DECISION, Reached, id="a terminal decision to bury nothing"
        ),
        pytest.param(
            composition(current=synthesis(tombstoneRecoveryStatus=decided(uuid="synthesis-1"))),
            Goal.DECISION,
            Waiting,
            id="a decision about another synthesis",
        ),
        pytest.param(
            composition(current=synthesis(tombstoneRecoveryStatus=RETRYING)),
            Goal.DECISION,
            Waiting,
            id="a retriable one",
        ),
        pytest.param(composition(current=None), Goal.DECISION, Waiting, id="not synthesized"),
        pytest.param(composition(opted_in=False), Goal.DECISION, Never, id="not opted in"),
        pytest.param(composition(**DELETING), Goal.DECISION, Never, id="being deleted"),
        pytest.param(composition(**DELETING), Goal.READY, Never, id="being deleted, and so never ready"),
        pytest.param(with_decision("TombstoneRecoveryOperatorNotEnabled"), Goal.DECISION, Never, id="recovery is off"),
        pytest.param(with_decision("OutsideRecoveryNamespace"), Goal.DECISION, Never, id="out of its namespace"),
        pytest.param(with_decision(), Goal.READY, Waiting, id="decided and not reconciled"),
        pytest.param(with_decision(reconciled=STAMP), Goal.READY, Waiting, id="reconciled and not ready"),
        pytest.param(with_decision(reconciled=STAMP, ready=STAMP), Goal.READY, Reached, id="ready"),
        pytest.param(
            composition(current=synthesis(ready=STAMP)), Goal.READY, Waiting, id="called ready before it was decided"
        ),
        pytest.param(
            composition(opted_in=False, current=synthesis(ready=STAMP)), Goal.READY, Reached, id="ready without Sexton"
        ),
    ],
)
def test_where_a_composition_stands(subject: Composition, goal: Goal, expected: type[Verdict]) -> None:
    assert isinstance(verdict(subject, goal), expected)


def test_what_it_waits_for_is_said() -> None:
    found = verdict(composition(current=synthesis(tombstoneRecoveryStatus=RETRYING)), Goal.DECISION)
    assert found == Waiting("InventoryGetError, retrying: list: 500")


def test_what_is_not_opted_in_is_told_how() -> None:
    found = verdict(composition(opted_in=False), Goal.DECISION)
    command = "kubectl annotate compositions.eno.azure.io -n apps shop eno.azure.io/recovery-enabled=true"
    assert found == Never("it is not opted in", command)


class Room:
    """A world with a wait in it, on a clock that only sleeping moves."""

    def __init__(self) -> None:
        self.world = World()
        self.told: list[str] = []
        self.patience: list[float] = []
        self.now = 0.0
        self.slept = 0
        self.suspicion = ""

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1

    def connect(self, patience: float) -> AbstractContextManager[Cluster]:
        self.patience.append(patience)
        return nullcontext(self.world.upstream)

    def silent(self, call: Call) -> None:
        """No answer for as long as somebody waits for one."""
        self.now += self.patience[-1]
        raise TimedOut(str(call))

    def wait(self, goal: Goal = Goal.DECISION, timeout: float | None = 60.0) -> Awaited:
        return Wait(
            self.connect,
            NAMESPACE,
            "shop",
            goal,
            timeout=timeout,
            tell=self.told.append,
            suspect=lambda: self.suspicion,
            clock=lambda: self.now,
            sleep=self.sleep,
        ).run()

    def decide(self) -> None:
        fields = {"currentSynthesis": {"tombstoneRecoveryStatus": decided()}}
        self.world.patch_composition(subresource="status", status=fields)

    def then(self, action: Callable[[], object], *, on: str, nth: int = 1) -> None:
        self.world.upstream.after = once(action, on=on, nth=nth)


@pytest.fixture
def room() -> Room:
    found = Room()
    found.world.add_composition()
    return found


def test_what_is_there_already_needs_one_look(room: Room) -> None:
    room.decide()
    assert room.wait().outcome == "reached"
    assert room.world.upstream.counts() == {"list compositions": 1}


def test_a_change_during_the_watch_ends_it(room: Room) -> None:
    room.then(room.decide, on="list compositions")
    found = room.wait()
    assert (found.outcome, found.error) == ("reached", None)
    assert room.world.upstream.counts() == {"list compositions": 1, "watch compositions": 1}
    assert room.told == ["nothing is decided about its synthesis"]


def test_a_stream_that_ends_is_opened_again(room: Room) -> None:
    room.then(room.decide, on="list compositions", nth=3)
    assert room.wait().outcome == "reached"
    assert room.world.upstream.counts() == {"list compositions": 3, "watch compositions": 3}


def test_a_stream_that_ends_at_once_is_opened_once_a_second(room: Room) -> None:
    room.wait(timeout=5.0)
    assert room.world.upstream.counts()["watch compositions"] == 5


@pytest.mark.parametrize("on", ["watch compositions", "list compositions"])
def test_an_api_server_that_goes_away_is_waited_for(room: Room, on: str) -> None:
    error = Unreachable(on, reason="NoConnection")

    def before(call: Call) -> None:
        calls = room.world.upstream.counts()
        if str(call) == on and 2 <= calls[on] <= 4:
            raise error
        if calls.get(on) == 5:
            room.decide()

    room.world.upstream.before = before
    assert room.wait().outcome == "reached"
    assert f"the API server does not answer: {error.summary}" in room.told


def test_a_first_look_that_fails_is_an_error_at_once(room: Room) -> None:
    room.world.upstream.before = fail(TimedOut("list compositions"), on="list compositions")
    with pytest.raises(TimedOut):
        room.wait()


def test_a_server_that_is_silent_until_the_time_is_up_is_not_in_time(room: Room) -> None:
    room.world.upstream.before = room.silent
    found = room.wait(timeout=3.0)
    assert (found.outcome, type(found.error), room.now) == ("timed out", NotInTime, 3.0)
    assert "not in time: the API server does not answer: list compositions" in str(found.error)


def test_no_answer_is_waited_for_longer_than_there_is_time(room: Room) -> None:
    room.wait(timeout=50.0)
    room.wait(timeout=0)
    assert all(0 < each <= 50.0 for each in room.patience)
    assert room.patience[-1] == SHORTEST_ROUND
    room.patience.clear()
    room.then(room.decide, on="list compositions")
    room.wait(timeout=None)
    assert room.patience == [math.inf]


def test_a_watch_ends_before_the_time_does(room: Room) -> None:
    class Asked(Tap):
        def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
            assert timeout_seconds <= 42.5 - room.now
            room.now += timeout_seconds
            return super().watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)

    room.world.upstream = Asked(room.world.up)
    assert room.wait(timeout=42.5).outcome == "timed out"
    assert room.now == 42.5


def test_a_watch_that_is_forbidden_is_not_tried_for_ever(room: Room) -> None:
    room.world.upstream.before = fail(Forbidden("watch compositions", status=403), on="watch compositions")
    with pytest.raises(Forbidden):
        room.wait()


def test_deleted_meanwhile_it_can_never_come(room: Room) -> None:
    room.then(lambda: room.world.up.delete(COMPOSITIONS, NAMESPACE, "shop"), on="list compositions")
    found = room.wait()
    assert found.outcome == "never"
    assert str(found.error) == "composition apps/shop: was deleted; nothing is decided about it any more"


def test_what_does_not_exist_is_not_waited_for() -> None:
    found = Room().wait()
    assert isinstance(found.error, Terminal)
    assert "does not exist" in str(found.error)


def test_without_a_timeout_it_goes_on_for_hours(room: Room) -> None:
    room.then(room.decide, on="list compositions", nth=5000)
    assert room.wait(timeout=None).outcome == "reached"


def test_past_its_time_it_says_what_was_missing(room: Room) -> None:
    found = room.wait(timeout=3.0)
    assert (found.outcome, type(found.error), room.now) == ("timed out", NotInTime, 3.0)
    assert found.error is not None
    assert found.error.exit_code == 124
    assert str(found.error) == (
        "composition apps/shop: not in time: nothing is decided about its synthesis; "
        "sexton explain apps/shop tells what is in the way"
    )


def test_past_its_time_a_suspicion_comes_first(room: Room) -> None:
    room.suspicion = "No watcher leads; see sexton doctor"
    found = room.wait(timeout=1.0)
    assert str(found.error).endswith("; No watcher leads; see sexton doctor")


def test_no_time_at_all_is_one_look(room: Room) -> None:
    assert room.wait(timeout=0).outcome == "timed out"
    assert room.world.upstream.counts() == {"list compositions": 1}


def test_a_synthesis_that_replaces_the_decided_one_has_to_be_decided_itself(room: Room) -> None:
    fields = synthesis("synthesis-3", tombstoneRecoveryStatus=decided(uuid="synthesis-2"))
    room.then(
        lambda: room.world.patch_composition(subresource="status", status={"currentSynthesis": fields}),
        on="list compositions",
    )
    assert room.wait(timeout=3.0).outcome == "timed out"


def test_only_this_composition_is_asked_for(room: Room) -> None:
    room.world.add_composition("other", current=synthesis(tombstoneRecoveryStatus=decided()))
    assert room.wait(timeout=2.0).outcome == "timed out"


def test_a_composition_that_cannot_be_read_is_an_error(room: Room) -> None:
    class Odd(Tap):
        def list_page(self, *args: Any, **kwargs: Any) -> Any:
            page = super().list_page(*args, **kwargs)
            page.items[0]["metadata"]["labels"] = {"a": 1}
            return page

    room.world.upstream = Odd(room.world.up)
    with pytest.raises(MalformedObject):
        room.wait()


def test_the_document_says_how_it_ended_and_what_was_decided(room: Room) -> None:
    room.decide()
    document = room.wait().to_json()
    assert document | {"uid": "u"} == {
        "composition": "apps/shop",
        "for": "decision",
        "outcome": "reached",
        "uid": "u",
        "synthesis": "synthesis-2",
        "reason": "FinishedTombstoneRecovery",
        "message": None,
        "ready": False,
    }
