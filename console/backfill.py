"""One task for everything in scope that calls for it, no faster than asked, and at any time from where it stood.

Nothing is kept about how far a backfill came. What was done is not due any more, and what waits in a queue is known
by its pending marker, so the same command given again goes on with the rest: after ^C, after Redis was away or
emptied, on another machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from console.derivation import Due, look
from console.enqueue import word
from eno.errors import Retryable
from eno.scope import Scope
from eno.wording import counted
from kube.cluster import Json
from runtime.dispatch import Dispatched, Dispatcher
from runtime.messages import TaskName
from workers.context import Context

HELD_BACK = ("not before", "parked")
"""Answers after which nothing waits in a queue."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is due, out of what was looked at: how many, by noun."""

    task: TaskName
    due: Sequence[Due]
    looked_at: Mapping[str, int]
    findings: Sequence[str]


@dataclass(slots=True)
class Tally:
    """How a backfill went so far: answers by word."""

    answers: Counter[str] = field(default_factory=Counter)

    def note(self, dispatched: Dispatched) -> None:
        """Count one more answer."""
        self.answers[word(dispatched)] += 1

    @property
    def asked(self) -> int:
        """How many messages were tried."""
        return self.answers.total()

    @property
    def held_back(self) -> int:
        """How many of them wait in no queue, as they failed before."""
        return sum(self.answers[each] for each in HELD_BACK)

    def error(self, task: TaskName) -> Retryable | None:
        """What a person should look at, or None when everything that was due waits in its queue."""
        if not self.held_back:
            return None
        return Retryable(
            f"{counted(self.held_back, 'key')} held back after a failure",
            where=task.short,
            hint="sexton status says why",
        )


def workload(context: Context, task: TaskName, scope: Scope) -> Workload:
    """What calls for the task now. Raises ApiError when a list is not complete."""
    found = look(context, task, scope)
    due = tuple(found.due())
    return Workload(task, due, found.looked_at, tuple(found.findings))


def send(
    dispatcher: Dispatcher,
    due: Sequence[Due],
    pace: Callable[[], None],
    undivided: Callable[[], AbstractContextManager[None]],
) -> Iterator[Dispatched]:
    """Send one after the other, `pace` before each and each within `undivided`. Raises BrokerUnavailable."""
    for each in due:
        pace()
        with undivided():
            # Within: what is sent is counted, too.
            yield dispatcher.enqueue(each.message)


def summary(work: Workload, tally: Tally, *, scope: str, dry_run: bool) -> Json:
    """For machines."""
    document: Json = {
        "task": work.task.short,
        "scope": scope,
        "looked_at": sum(work.looked_at.values()),
        "due": len(work.due),
        "dry_run": dry_run,
        **{each.replace(" ", "_"): tally.answers[each] for each in ("enqueued", "pending", "running", *HELD_BACK)},
        "left": len(work.due) - tally.asked,
        "findings": list(work.findings),
    }
    if dry_run:
        document["messages"] = [each.message.payload() for each in work.due]
    return document
