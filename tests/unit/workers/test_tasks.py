import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from runtime.messages import TaskName
from tests.support.hints import settings
from workers.app import create_app
from workers.execution import Ending, Failure, Handler
from workers.outcome import Kind
from workers.tasks import TASKS, TaskFailed, register


class Scripted:
    """An executor that answers with one ending."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.calls: list[tuple[TaskName, dict[str, Any]]] = []

    def execute(self, task: TaskName, _: Handler, payload: dict[str, Any], delivery: str) -> Ending:
        assert delivery
        self.calls.append((task, payload))
        return self.ending


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("test", set_as_current=False, task_always_eager=True) as app:
        yield app


def run(app: Celery, ending: Ending, **payload: Any) -> Any:
    executor = Scripted(ending)
    register(app, lambda: executor)  # type: ignore[arg-type,return-value]
    result = app.tasks["sexton.recover"].apply(kwargs=payload)
    assert executor.calls == [(TaskName.RECOVER, payload)]
    return result


def test_an_outcome_is_the_result(app: Celery) -> None:
    assert run(app, Ending(Kind.DONE, "written"), name="web").result == {"outcome": "done", "reason": "written"}


def test_an_error_shows_as_failed_and_is_expected(app: Celery) -> None:
    result = run(app, Ending(Failure.RETRY, "no answer"))
    assert result.state == "FAILURE"
    assert str(result.result) == "outcome=retry reason=no answer"
    assert app.tasks["sexton.recover"].throws == (TaskFailed,)


def test_a_failure_survives_the_way_back_to_the_parent_process() -> None:
    assert str(pickle.loads(pickle.dumps(TaskFailed("outcome=retry")))) == "outcome=retry"  # noqa: S301


def test_an_argument_that_no_task_takes_reaches_the_check(app: Celery) -> None:
    run(app, Ending(Failure.REJECTED, "extra"), anything=[1, {"nested": None}])


def test_every_task_of_the_table_is_registered() -> None:
    names = {name for name in create_app(settings()).tasks if name.startswith("sexton.")}
    assert names == {str(name) for name in TASKS}
