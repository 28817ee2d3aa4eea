"""A `Reflector` on a scripted server and a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from eno import errors
from kube.backoff import Backoff
from kube.cluster import Cluster, Json, Page, Query, WatchEvent
from kube.reflector import Reflector
from kube.resources import SECRETS

QUERY = Query(SECRETS, "kube-system", label_selector="a=b", metadata_only=True)


def obj(name: str, version: str = "1") -> Json:
    return {"metadata": {"name": name, "resourceVersion": version}}


def event(type_: Any, name: str, version: str) -> WatchEvent:
    return WatchEvent(type_, obj(name, version))


@dataclass
class World:
    """A virtual clock that is the stop event too: the script's last step stops the reflector."""

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)
    stopped: bool = False

    def clock(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.stopped

    def wait(self, timeout: float) -> bool:
        self.waits.append(round(timeout, 3))
        self.now += timeout
        return self.stopped


@dataclass(frozen=True)
class Silence:
    """Seconds that pass before the next thing happens."""

    seconds: float


@dataclass(frozen=True)
class Check:
    """What the server's version turns out to be when it is asked for, or what comes instead."""

    answer: str | errors.ApiError


Step: TypeAlias = WatchEvent | Silence | errors.ApiError
Call: TypeAlias = Page | Check | errors.ApiError | list[Step]


@dataclass
class Script:
    """Plays pages and watches one after another, and notes how they were asked for.

    A check that is not in the script finds the server where the last watch has come to.
    """

    world: World
    steps: list[Call]
    calls: list[str] = field(default_factory=list)
    checks: int = 0
    watched: str = "1"
    lists_at: list[float] = field(default_factory=list)
    streams: list[Iterator[WatchEvent]] = field(default_factory=list)
    closed: int = 0

    def _next(self) -> Any:
        step = self.steps.pop(0)
        self.world.stopped = not self.steps
        return step

    def list_page(self, query: Query, *, limit: int, continue_token: str = "") -> Page:
        if limit == 1:
            return self._check(query)
        assert query is QUERY
        assert limit > 0
        self.calls.append(f"list {continue_token}".rstrip())
        self.lists_at += [] if continue_token else [self.world.now]
        step = self._next()
        if isinstance(step, errors.ApiError):
            raise step
        assert isinstance(step, Page), f"a list where the script has {step}"
        return step

    def _check(self, query: Query) -> Page:
        assert query == Query(SECRETS, "kube-system", metadata_only=True)
        self.checks += 1
        if not isinstance(self.steps[0], Check):
            return Page([], self.watched)
        self.calls.append("check")
        answer = self._next().answer
        if isinstance(answer, errors.ApiError):
            raise answer
        return Page([obj("some")], answer, "more")

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Iterator[WatchEvent]:
        assert query is QUERY
        self.calls.append(f"watch {resource_version} for {timeout_seconds}")
        self.watched = resource_version
        steps = self._next()
        if isinstance(steps, errors.ApiError):
            raise steps
        assert isinstance(steps, list), f"a watch where the script has {steps}"
        self.streams.append(self._stream(steps))  # kept, so that only closing it closes it
        return self.streams[-1]

    def _stream(self, steps: list[Step]) -> Iterator[WatchEvent]:
        try:
            for step in steps:
                if isinstance(step, errors.ApiError):
                    raise step
                if isinstance(step, Silence):
                    self.world.now += step.seconds
                else:
                    self.watched = step.object["metadata"]["resourceVersion"]
                    yield step
        finally:
            self.closed += 1


class Names:
    """A sink that keeps names and versions, and everything it was told."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.log: list[str] = []

    def record(self, obj: Json) -> tuple[str, str]:
        return obj["metadata"]["name"], obj["metadata"]["resourceVersion"]

    def replace(self, records: list[tuple[str, str]], version: str) -> None:
        self.known = dict(records)
        self.log.append(f"replace {','.join(name for name, _ in records)} @{version}")

    def changed(self, obj: Json) -> None:
        name, version = self.record(obj)
        self.known[name] = version
        self.log.append(f"changed {name}")

    def deleted(self, obj: Json) -> None:
        name, _ = self.record(obj)
        self.known.pop(name, None)
        self.log.append(f"deleted {name}")

    def bookmark(self, version: str) -> None:
        self.log.append(f"bookmark {version}")


@dataclass
class Run:
    world: World
    script: Script
    sink: Names
    reflector: Reflector[tuple[str, str]]

    @property
    def calls(self) -> list[str]:
        return self.script.calls


def play(
    *steps: Call,
    draw: Callable[[], float] = lambda: 0.0,
    **intervals: float,
) -> Run:
    world, sink = World(), Names()
    script = Script(world, list(steps))
    reflector = Reflector(
        cast(Cluster, script),
        QUERY,
        sink,
        backoff=Backoff(first=1.0, limit=60.0),
        clock=world.clock,
        draw=draw,
        **intervals,
    )
    reflector.run(world)
    return Run(world, script, sink, reflector)


def page(*names: str, version: str = "10", token: str = "") -> Page:
    return Page([obj(name) for name in names], version, token)


END: list[Step] = [Silence(300)]
WATCH_ERROR = "watch secrets kube-system"
