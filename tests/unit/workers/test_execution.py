import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from eno.errors import Forbidden, Refused, SextonError, Throttled, Unreachable, UsageError
from eno.scope import Scope
from runtime.dispatch import Enqueued, NotBefore, Parked
from runtime.messages import CleanupMessage, GateMessage, Message, RecordMessage, RetireMessage, TaskName
from tests.support.hints import NOW, Hints, message
from tests.support.tally import Tally
from workers.context import Context
from workers.execution import Ending, Executor, Failure, out_of_scope
from workers.outcome import Kind, Outcome

NO_CONTEXT: Any = object()
"""The handlers of these tests touch no cluster."""


class Bench:
    """An executor on hints in memory, with a handler that does as it is told."""

    def __init__(self, *, end: Outcome | Exception | None = None, **settings: object) -> None:
        self.hints = Hints(**settings)
        self.end = end or Outcome(Kind.DONE, "written")
        self.seen: list[Message] = []
        self.during: Callable[[], object] = lambda: None
        self.context: Callable[[], Context] = lambda: NO_CONTEXT
        self.tally = Tally()
        self.seconds = 0.0
        self._executor = Executor(
            self.hints.settings, self.hints.claims, lambda: self.context(), self.tally, timer=lambda: self.seconds
        )

    def handle(self, message: Message, _: Context) -> Outcome:
        self.seen.append(message)
        self.during()
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def execute(self, payload: dict[str, Any] | None = None, delivery: str = "d-1") -> Ending:
        payload = message().payload() if payload is None else payload
        return self._executor.execute(TaskName.RECOVER, self.handle, payload, delivery)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [getattr(record, "action", "") for record in caplog.records]


def test_an_outcome_is_passed_on_and_logged_once(
    lines: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    assert bench.execute() == Ending(Kind.DONE, "written")
    assert bench.seen == [message()]
    assert lines() == ["task-ended"]
    fields = vars(caplog.records[0])
    assert (fields["composition"], fields["uid"], fields["synthesis"]) == ("apps/web", "uid-web", "s1")
    assert (fields["outcome"], fields["reason"]) == ("done", "written")


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({}, id="nothing"),
        pytest.param(message().payload() | {"name": "a/b"}, id="a name that would change the URL"),
        pytest.param(message().payload() | {"manifest": "{}"}, id="more than an object's name"),
    ],
)
def test_an_invalid_payload_reaches_no_handler_and_leaves_nothing_behind(
    payload: dict[str, Any], lines: Callable[[], list[str]]
) -> None:
    bench = Bench()
    ending = bench.execute(payload)
    assert ending.outcome is Failure.REJECTED
    assert ending.until is None
    assert bench.seen == []
    assert bench.hints.redis.keys() == []
    assert lines() == ["message-rejected"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"recovery_enabled": False}, id="recovery switched off"),
        pytest.param({"recovery_namespace": "other"}, id="another recovery namespace"),
        pytest.param({"label_selector": "tier=web"}, id="another selector"),
        pytest.param({"composition_namespace": ""}, id="all namespaces"),
    ],
)
def test_a_message_made_with_other_settings_comes_back_and_is_not_executed(change: dict[str, object]) -> None:
    bench = Bench()
    theirs = bench.hints.settings.scope.model_copy(update=change)
    ending = bench.execute(message(scope=theirs).payload())
    assert ending.outcome is Failure.RETRY
    assert f"made for another {next(iter(change))}" in ending.reason
    assert bench.seen == []
    assert isinstance(bench.hints.dispatcher.enqueue(message()), NotBefore)


def test_a_persons_call_takes_the_workers_own_settings() -> None:
    bench = Bench()
    assert bench.execute(message(scope=None).payload()).outcome is Kind.DONE


def test_a_forged_message_for_another_namespace_is_not_executed() -> None:
    bench = Bench()
    ending = bench.execute(message(scope=None, namespace="kube-system").payload())
    assert ending.outcome is Kind.NOT_IN_SCOPE
    assert bench.seen == []
    assert bench.hints.dispatcher.enqueue(message(scope=None, namespace="kube-system")) == Enqueued()


OBJECT = {"namespace": "apps", "name": "web", "uid": "u", "synthesis_uuid": "s"}
ELSEWHERE = OBJECT | {"namespace": "other"}
EVERYWHERE = Scope(composition_namespace="", recovery_namespace="apps", recovery_enabled=True)
ONLY_WATCHING = Scope(composition_namespace="apps", recovery_namespace="apps")


@pytest.mark.parametrize(
    ("message", "scope", "inside"),
    [
        pytest.param(message(), EVERYWHERE, True, id="recovery in its namespace"),
        pytest.param(message(namespace="other"), EVERYWHERE, False, id="no recovery outside of it"),
        pytest.param(message(), ONLY_WATCHING, False, id="no recovery while it is disabled"),
        pytest.param(RecordMessage(**ELSEWHERE), EVERYWHERE, False, id="no record outside of it"),
        pytest.param(RetireMessage(namespace="other", lineage="a" * 32), EVERYWHERE, False, id="nor retire"),
        pytest.param(GateMessage(**ELSEWHERE), EVERYWHERE, True, id="gate everywhere"),
        pytest.param(GateMessage(**OBJECT), ONLY_WATCHING, True, id="gate while recovery is disabled"),
        pytest.param(GateMessage(**ELSEWHERE), ONLY_WATCHING, False, id="gate in the watched namespace only"),
        pytest.param(CleanupMessage(**ELSEWHERE, slices=()), ONLY_WATCHING, False, id="and cleanup too"),
    ],
)
def test_scopes(message: Message, scope: Scope, inside: bool) -> None:
    assert (out_of_scope(message, scope) is None) is inside


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        pytest.param(Unreachable("get"), 1, id="no answer"),
        pytest.param(Forbidden("get", status=403), 1, id="a permission that may be granted"),
        pytest.param(Throttled("get", status=429, retry_after=45), 45, id="a server that asks for a pause"),
    ],
)
def test_a_retryable_error_holds_the_key_back(error: SextonError, pause: float, lines: Callable[[], list[str]]) -> None:
    bench = Bench(end=error)
    ending = bench.execute()
    assert (ending.outcome, ending.reason) == (Failure.RETRY, str(error))
    assert ending.until is not None
    assert timedelta(seconds=pause) / 2 <= ending.until - NOW <= timedelta(seconds=pause)
    assert bench.hints.dispatcher.describe(message().key).failures == 1
    assert lines() == ["task-ended"]


def test_a_terminal_error_parks_the_key() -> None:
    bench = Bench(end=Refused("patch compositions apps/web", status=400))
    ending = bench.execute()
    assert (ending.outcome, ending.until) == (Failure.PARKED, NOW + timedelta(minutes=15))
    assert isinstance(bench.hints.dispatcher.enqueue(message()), Parked)
    assert bench.hints.dispatcher.parked()[0].message == "patch compositions apps/web: 400"


def test_a_defect_is_logged_with_its_traceback_and_tried_again(
    lines: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(end=KeyError("oops"))
    ending = bench.execute()
    assert ending.outcome is Failure.RETRY
    assert ending.reason == "sexton.recover: unexpected KeyError"
    assert lines() == ["task-crashed", "task-ended"]
    assert [record.exc_info is not None for record in caplog.records] == [True, False]


def test_a_waiting_key_is_held_back_until_its_instant() -> None:
    bench = Bench(end=Outcome(Kind.WAITING, "young", NOW + timedelta(seconds=50)))
    assert bench.execute().until == NOW + timedelta(seconds=50)
    assert isinstance(bench.hints.dispatcher.enqueue(message()), NotBefore)


def test_a_wait_without_an_instant_is_an_end() -> None:
    bench = Bench(end=Outcome(Kind.WAITING, "for somebody"))
    assert bench.execute() == Ending(Kind.WAITING, "for somebody")
    assert bench.hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_message_for_a_key_being_executed_is_merged_into_that() -> None:
    bench = Bench()
    merged: list[Ending] = []
    bench.during = lambda: merged.append(bench.execute(delivery="d-2")) if not merged else None
    assert bench.execute().outcome is Kind.DONE
    assert [ending.outcome for ending in merged] == [Kind.MERGED]
    assert len(bench.seen) == 1
    assert bench.hints.outbox.sent == [message()]


def test_a_key_that_never_ends_is_refused() -> None:
    bench = Bench(max_attempts=2)
    for _ in range(2):
        bench.hints.crash(message())
    assert bench.execute().outcome is Failure.PARKED
    assert bench.seen == []


def test_without_redis_nothing_is_executed_and_nothing_raised(lines: Callable[[], list[str]]) -> None:
    bench = Bench()
    bench.hints.disconnect()
    ending = bench.execute()
    assert ending.outcome is Failure.RETRY
    assert "Redis broker.example:6380/3: not available" in ending.reason
    assert bench.seen == []
    assert lines() == ["task-ended"]


@pytest.mark.parametrize("end", [Outcome(Kind.DONE), Unreachable("get"), Refused("patch", status=400)], ids=str)
def test_an_end_that_redis_cannot_take_is_reported_all_the_same(
    end: Outcome | Exception, lines: Callable[[], list[str]]
) -> None:
    bench = Bench(end=end)
    bench.during = bench.hints.disconnect
    bench.execute()
    assert lines() == ["ending-not-recorded", "task-ended"]
    bench.hints.disconnect(connected=True)
    bench.hints.expire(bench.hints.keys.lock(message().key))
    assert bench.hints.dispatcher.enqueue(message()) == Enqueued()


def test_a_worker_that_cannot_make_its_clients_parks_no_key() -> None:
    bench = Bench()

    def fail() -> Context:
        raise UsageError("no such file", where="kubeconfig /etc/up")

    bench.context = fail
    ending = bench.execute()
    assert (ending.outcome, ending.reason) == (Failure.RETRY, "kubeconfig /etc/up: no such file")


def test_an_ending_is_shown_without_empty_parts() -> None:
    assert Ending(Kind.DONE).to_json() == {"outcome": "done"}
    assert Ending(Failure.RETRY, "why", NOW).to_json() == {
        "outcome": "retry",
        "reason": "why",
        "until": "2026-01-02T03:04:05Z",
    }
