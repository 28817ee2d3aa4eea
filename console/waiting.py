"""Waiting for a composition: what has to come, whether it still can, and how the API server is asked for it.

Judged from the composition alone, so it needs neither Redis nor the settings of the processes.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from eno.decision import Reason, finished
from eno.errors import ApiError, Forbidden, Retryable, Terminal, TimedOut, Unauthorized
from eno.objects import OPT_IN_ANNOTATION, Composition
from kube.backoff import Backoff
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS

WATCH_SECONDS = 20
"""How long one watch lasts at most. Each begins with a list, which shows whatever the one before has missed."""

SHORTEST_ROUND = 1.0
"""Seconds: a server that ends every watch at once is not asked more often."""

_BACKOFF = Backoff(first=0.5, limit=5.0)
_SKIPPED = {
    Reason.OPERATOR_NOT_ENABLED: "set SEXTON_ENABLE_TOMBSTONE_RECOVERY=true for watcher and workers; the next "
    "synthesis inherits what is owed",
    Reason.OUTSIDE_NAMESPACE: "only compositions in the POD_NAMESPACE of watcher and workers are recovered",
}


class Goal(StrEnum):
    """What is waited for."""

    DECISION = "decision"
    READY = "ready"


class NotInTime(Retryable):
    """Raised when what was waited for did not come in the time that was given."""

    exit_code = 124


@dataclass(frozen=True, slots=True)
class Reached:
    """It is there."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet. `what` says what has to come first."""

    what: str


@dataclass(frozen=True, slots=True)
class Never:
    """It cannot come any more unless a person does what `hint` says."""

    why: str
    hint: str


Verdict: TypeAlias = Reached | Waiting | Never


def verdict(composition: Composition, goal: Goal) -> Verdict:
    """Where a composition stands on the way to the goal."""
    if composition.deleting:
        return Never("it is being deleted", "nothing is decided about it any more")
    current = composition.current
    if goal is Goal.DECISION and not composition.opted_in:
        return Never("it is not opted in", opt_in(composition))
    if current is None or current.synthesized is None:
        return Waiting("Eno has not synthesized it")
    if composition.opted_in and not finished(current):
        return _undecided(composition)
    if goal is Goal.DECISION:
        return _decided(composition)
    if current.ready is not None:
        return Reached()
    return Waiting("it is reconciled and not ready" if current.reconciled else "it is not reconciled")


def opt_in(composition: Composition) -> str:
    """The line that opts a composition in."""
    annotate = f"kubectl annotate compositions.eno.azure.io -n {composition.namespace} {composition.name}"
    return f"{annotate} {OPT_IN_ANNOTATION}=true"


def _undecided(composition: Composition) -> Waiting:
    current = composition.current
    decision = current.recovery if current else None
    if current is None or decision is None or not decision.reason or decision.synthesis_uuid != current.uuid:
        return Waiting("nothing is decided about its synthesis")
    return Waiting(f"{decision.reason}, retrying" + (f": {decision.message}" if decision.message else ""))


def _decided(composition: Composition) -> Reached | Never:
    decision = composition.current.recovery if composition.current else None
    for reason, hint in _SKIPPED.items():
        if decision is not None and decision.reason == reason:
            return Never(f"its recovery was skipped: {reason}", hint)
    return Reached()


@dataclass(frozen=True, slots=True)
class Awaited:
    """How it ended. `composition` is as it was seen last, None when it never was."""

    title: str
    goal: Goal
    composition: Composition | None
    outcome: str
    error: Terminal | Retryable | None = None

    def to_json(self) -> Json:
        """For machines."""
        current = self.composition.current if self.composition else None
        decision = current.recovery if current and finished(current) else None
        return {
            "composition": self.title,
            "for": str(self.goal),
            "outcome": self.outcome,
            "uid": self.composition.uid if self.composition else None,
            "synthesis": (current.uuid or None) if current else None,
            "reason": decision.reason if decision else None,
            "message": (decision.message or None) if decision else None,
            "ready": bool(current and current.ready is not None),
        }


class Wait:
    """One wait for one composition. `tell` is given what is waited for, whenever that changes.

    `connect` is given the seconds after which a silent API server is given up.

    `suspect` is asked when the time is up for what may be the cause, as a sentence, or empty.
    `clock` is monotonic seconds, `timeout` None waits for ever.
    """

    def __init__(
        self,
        connect: Callable[[float], AbstractContextManager[Cluster]],
        namespace: str,
        name: str,
        goal: Goal,
        *,
        timeout: float | None,
        tell: Callable[[str], None],
        suspect: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect = connect
        self._query = Query(COMPOSITIONS, namespace, field_selector=f"metadata.name={name}")
        self._title = f"{namespace}/{name}"
        self._goal = goal
        self._clock = clock
        self._sleep = sleep
        self._tell = tell
        self._suspect = suspect
        self._until = math.inf if timeout is None else clock() + timeout
        self._seen: Composition | None = None
        self._told = ""
        self._failures = 0

    def run(self) -> Awaited:
        """Until it is there, can never come, or the time is up.

        Raises ApiError when the first look fails, or when the API server refuses us, and MalformedObject.
        """
        while True:
            began = self._clock()
            try:
                with self._connect(max(SHORTEST_ROUND, self._until - began)) as cluster:
                    ended = self._round(cluster)
                self._failures = 0
            except (Forbidden, Unauthorized):
                raise
            except ApiError as error:
                late = isinstance(error, TimedOut) and self._clock() >= self._until
                if isinstance(error, Terminal) or (self._seen is None and not late):
                    raise
                self._wait_out(error)
                ended = None
            if ended is not None:
                return ended
            if self._clock() >= self._until:
                return self._too_late()
            self._pause(began + SHORTEST_ROUND - self._clock())

    def _round(self, cluster: Cluster) -> Awaited | None:
        """A look at the composition as it is, and then at each change, for the length of one watch."""
        listing = list_all(cluster, self._query)
        ended = self._judge(listing.items[0] if listing.items else None)
        seconds = min(WATCH_SECONDS, self._until - self._clock())
        if ended is not None or seconds < 1:
            return ended
        stream = cluster.watch(
            self._query, resource_version=listing.resource_version, timeout_seconds=math.floor(seconds)
        )
        with closing(stream):
            for event in stream:
                if event.type != "BOOKMARK":
                    ended = self._judge(None if event.type == "DELETED" else event.object)
                if ended is not None or self._clock() >= self._until:
                    return ended
        return None

    def _judge(self, obj: Json | None) -> Awaited | None:
        if obj is None:
            gone = self._seen is not None
            hint = "nothing is decided about it any more" if gone else "check the namespace and the name"
            return self._never("was deleted" if gone else "does not exist", hint)
        self._seen = Composition.from_json(obj)
        match verdict(self._seen, self._goal):
            case Reached():
                return Awaited(self._title, self._goal, self._seen, "reached")
            case Never(why, hint):
                return self._never(why, hint)
            case Waiting(what):
                self._say(what)
        return None

    def _say(self, what: str) -> None:
        if what != self._told:
            self._told = what
            self._tell(what)

    def _wait_out(self, error: ApiError) -> None:
        self._failures += 1
        self._say(f"the API server does not answer: {error.summary}")
        self._pause(_BACKOFF.delay(self._failures, error, random.random()))  # noqa: S311 — it spreads pauses

    def _pause(self, seconds: float) -> None:
        """No longer than there is time left."""
        seconds = min(seconds, self._until - self._clock())
        if seconds > 0:
            self._sleep(seconds)

    def _never(self, why: str, hint: str) -> Awaited:
        error = Terminal(why, where=f"composition {self._title}", hint=hint)
        return Awaited(self._title, self._goal, self._seen, "never", error)

    def _too_late(self) -> Awaited:
        # A server that does not answer is cause enough, and would be asked in vain.
        cause = "" if self._failures else self._suspect()
        hint = cause or f"sexton explain {self._title} tells what is in the way"
        error = NotInTime(f"not in time: {self._told}", where=f"composition {self._title}", hint=hint)
        return Awaited(self._title, self._goal, self._seen, "timed out", error)
