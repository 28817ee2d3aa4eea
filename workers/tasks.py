"""The tasks that Celery knows: a name, a queue, a handler, and nothing else. A new task is a line in TASKS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from celery import Celery, Task

from runtime.messages import TaskName
from workers.execution import Ending, Executor, Handler
from workers.handlers.cleanup import cleanup
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.recover import recover
from workers.handlers.retire import retire
from workers.monitor import CountedRequest

TASKS: Mapping[TaskName, Handler] = {
    TaskName.RECOVER: recover,
    TaskName.GATE: gate,
    TaskName.RECORD: record,
    TaskName.CLEANUP: cleanup,
    TaskName.RETIRE: retire,
}
"""What this version executes. Other messages are dropped: their keys come back to workers that know them."""


class TaskFailed(Exception):
    """Raised to show a task as failed in Flower, and for nothing else: the failure is logged and recorded already.

    Declared in `throws`, so Celery neither logs a traceback nor retries.
    """


def register(app: Celery, executor: Callable[[], Executor]) -> None:
    """Declare all tasks. `executor` is called within the process that runs a task, after the fork."""
    for name, handler in TASKS.items():
        # Not shared: Celery would hand the task to every other application of the process, too.
        app.task(
            _body(name, handler, executor),
            bind=True,
            name=str(name),
            throws=(TaskFailed,),
            shared=False,
            Request=CountedRequest,
        )


def _body(name: TaskName, handler: Handler, executor: Callable[[], Executor]) -> Callable[..., dict[str, str]]:
    def run(self: Task, **payload: Any) -> dict[str, str]:
        return _shown(executor().execute(name, handler, payload, str(self.request.id)))

    return run


def _shown(ending: Ending) -> dict[str, str]:
    if ending.failed:
        raise TaskFailed(" ".join(f"{name}={value}" for name, value in ending.to_json().items()))
    return ending.to_json()
