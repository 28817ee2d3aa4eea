"""Several handlers on one pair of clusters, in every order of their calls. One thread, nothing random.

A handler is a function of the replies it gets. To take its next step it is run from its start, given the replies
it had so far, lets one more call through to the clusters, and is suspended at the call after that. A world between
two steps is an ordinary world, so it can be forked, and two schedules that led to the same one are continued once.
A crash forgets the replies: the next step is the first one again.

What no other running actor can change is read at once: such a read is the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeAlias, cast

import msgspec

from eno.errors import SextonError
from kube.cluster import Cluster
from kube.resources import Resource
from tests.support.tap import WRITES
from tests.support.world import World
from workers.context import Context, Uncounted

Act: TypeAlias = Callable[[Context], object]
"""Anything that acts through the clusters of a context alone. What it returns or raises on purpose is its end."""

_VERBS = {"json_patch": "patch", "merge_patch": "patch", "list_page": "list"}


@dataclass(frozen=True, slots=True)
class Actor:
    """What is done, and which resources it may write. A mortal actor can crash, and begins anew then."""

    act: Act
    writes: frozenset[Resource]
    mortal: bool = True


class Suspended(BaseException):
    """Unwinds a handler that has used up its step. Nothing may catch it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call was answered with, as text: whoever changes an object must not change what is replayed."""

    kind: type[object]
    text: bytes
    error: SextonError | None = None

    def given(self) -> object:
        """The answer, once more."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return msgspec.json.decode(self.text, type=self.kind)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an actor has come. `wrote` says that its last step changed something."""

    replies: tuple[Reply, ...] = ()
    digest: bytes = b""
    wrote: bool = False
    ended: bool = False
    end: object = None


@dataclass
class _Turn:
    """Replays `past`, then lets calls through until the first that is a step of its own after a step was taken."""

    past: tuple[Reply, ...]
    contested: Collection[Resource]
    fresh: list[Reply] = field(default_factory=list)
    digest: bytes = b""
    position: int = 0
    stepped: bool = False
    wrote: bool = False

    def call(self, verb: str, resource: Resource, request: Callable[[], object]) -> object:
        if self.position < len(self.past):
            reply = self.past[self.position]
        else:
            if resource in self.contested or verb in WRITES:
                if self.stepped:
                    raise Suspended
                self.stepped = True
                self.wrote = verb in WRITES
            reply = _answer(request)
            self.fresh.append(reply)
            self.digest = sha256(self.digest + reply.text).digest()
        self.position += 1
        return reply.given()


class _Scripted:
    """A `Cluster` whose calls go through a turn."""

    def __init__(self, turn: _Turn, inner: Cluster) -> None:
        self._turn = turn
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> object:
            resource = args[0] if isinstance(args[0], Resource) else args[0].resource
            return self._turn.call(_VERBS.get(name, name), resource, lambda: method(*args, **kwargs))

        return call


def step(
    world: World, context: Context, name: str, actors: Mapping[str, Actor], progress: Mapping[str, Progress]
) -> Progress:
    """The progress of an actor after one more step, taken on `world`. `context` is for clock and settings."""
    past = progress[name]
    others = (actor.writes for other, actor in actors.items() if other != name and not progress[other].ended)
    turn = _Turn(past.replies, frozenset().union(*others), digest=past.digest)
    upstream, downstream = (cast("Cluster", _Scripted(turn, inner)) for inner in (world.up, world.down))
    ended, end = True, None
    try:
        end = actors[name].act(replace(context, upstream=upstream, downstream=downstream, corrections=Uncounted()))
    except Suspended:
        ended = False
    except SextonError as error:
        end = error
    return Progress(past.replies + tuple(turn.fresh), turn.digest, turn.wrote, ended, end)


@dataclass(frozen=True, slots=True)
class Moment:
    """A world between two steps. `schedule` says how it came about: a name for a step, `name!` for a crash."""

    world: World
    progress: Mapping[str, Progress]
    crashes_left: int
    schedule: tuple[str, ...] = ()


@dataclass
class Explored:
    """What an exploration covered: moments that differ, and worlds that all actors have ended in."""

    moments: int = 0
    ends: int = 0


def explore(
    world: World,
    actors: Mapping[str, Actor],
    *,
    check: Callable[[World], None],
    final: Callable[[World], None],
    crashes: int = 0,
) -> Explored:
    """Take every schedule of the actors, with up to `crashes` crashes right after a write.

    A crash before a write is the schedule in which the actor starts later. `check` sees every world that a write
    leaves, `final` every one that all actors have ended in; that one may use it up. A failure names the schedule.
    """
    context = world.context
    explored = Explored()
    seen: set[object] = set()
    judged: set[object] = set()
    pending = [Moment(world, dict.fromkeys(actors, Progress()), crashes)]
    while pending:
        moment = pending.pop()
        contents = _contents(moment.world, world)
        explored.moments += 1
        with _named(moment.schedule):
            if contents not in judged:
                judged.add(contents)
                check(moment.world)
            following = list(_following(moment, context, actors))
            if not following and (contents, "end") not in judged:
                judged.add((contents, "end"))
                explored.ends += 1
                final(moment.world.fork())
        for each in following:
            identity = _progress(each), _contents(each.world, world)
            if identity not in seen:
                seen.add(identity)
                pending.append(each)
    return explored


def play(
    world: World,
    actors: Mapping[str, Actor],
    choose: Callable[[list[str]], str],
    *,
    check: Callable[[World], None],
) -> dict[str, object]:
    """Take one schedule on `world` itself. `choose` picks among the names, `name!` being a crash. Returns the ends."""
    context = world.context
    progress = dict.fromkeys(actors, Progress())
    schedule: list[str] = []
    while running := [name for name in actors if not progress[name].ended]:
        crashing = [f"{name}!" for name in running if actors[name].mortal and progress[name].replies]
        schedule.append(choose([*running, *crashing]))
        name = schedule[-1].rstrip("!")
        with _named(schedule):
            if schedule[-1].endswith("!"):
                progress[name] = Progress()
                continue
            progress[name] = step(world, context, name, actors, progress)
            if progress[name].wrote:
                check(world)
    return {name: each.end for name, each in progress.items()}


def _following(moment: Moment, context: Context, actors: Mapping[str, Actor]) -> Iterator[Moment]:
    for name, actor in actors.items():
        if moment.progress[name].ended:
            continue
        world = moment.world.fork()
        now = step(world, context, name, actors, moment.progress)
        yield replace(moment, world=world, progress={**moment.progress, name: now}, schedule=(*moment.schedule, name))
        if now.wrote and actor.mortal and moment.crashes_left:
            yield Moment(
                world,
                {**moment.progress, name: Progress(wrote=True)},
                moment.crashes_left - 1,
                (*moment.schedule, f"{name}!"),
            )


class _named:
    """Adds the schedule to whatever goes wrong inside."""

    def __init__(self, schedule: Iterable[str]) -> None:
        self._schedule = schedule

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            error.add_note(f"schedule: {' '.join(self._schedule)}")


def _progress(moment: Moment) -> object:
    """With the same contents: equal for moments that cannot go on differently."""
    return tuple((each.digest, each.ended) for each in moment.progress.values()), moment.crashes_left


def _contents(world: World, start: World) -> object:
    """What was changed since the start, and what it is now."""
    changes = (
        (change.resource, change.key, change.after.rest if change.after else None)
        for now, then in ((world.up, start.up), (world.down, start.down))
        for change in now.store.changes_since(then.store.version)
    )
    return frozenset({(resource, key): rest for resource, key, rest in changes}.items())


def _answer(request: Callable[[], object]) -> Reply:
    try:
        reply = request()
    except SextonError as error:
        return Reply(type(error), repr((type(error), error.args)).encode(), error)
    return Reply(type(reply), msgspec.json.encode(reply))
