"""API requests and bytes of every task, counted on the wire, beside the fewest that the specification allows.

Each scenario is played by its handler over HTTP, on API servers of its own, and then again until nothing changes:
what has converged makes no write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bench.figures import Aim, Bound, Line, Section
from bench.site import PEER_AGENT, UNLIMITED
from devcluster.audit import Entry
from devcluster.server import Server
from eno.inventory.secrets import INVENTORY_NAMESPACE
from eno.packing import SLICE_LIMIT
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.cluster import Query
from kube.config import Connection
from kube.http import HttpCluster
from kube.resources import EVENTS, NAMESPACES, RESOURCE_SLICES, SECRETS
from runtime.messages import Message
from tests.support.factories import NAMESPACE, STAMP, decided, entry, manifest, synthesis
from tests.support.tap import WRITES
from tests.support.world import (
    World,
    cleanup_message,
    gate_message,
    record_message,
    recover_message,
    retire_message,
)
from workers.handlers.cleanup import cleanup
from workers.handlers.gate import gate
from workers.handlers.record import record
from workers.handlers.recover import recover
from workers.handlers.retire import retire
from workers.outcome import Outcome

Handler: TypeAlias = Callable[[Any, Any], Outcome]

LONG_AGO = "2000-01-01T00:00:00Z"
SLICES = 3
_RECORDED, _MISSING = 40, 10
_MARKER = Query(NAMESPACES)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`prepare` fills a world and returns the message; `minimum` are the requests that its task needs."""

    title: str
    handler: Handler
    prepare: Callable[[World], Message]
    minimum: Mapping[str, int]


@dataclass
class _Counter:
    """Requests without Events, as the API servers saw them."""

    entries: list[Entry] = field(default_factory=list)

    def __call__(self, each: Entry) -> None:
        if each.resource not in (EVENTS.plural, _MARKER.resource.plural):
            self.entries.append(each)

    def counts(self) -> Counter[str]:
        """By verb and resource."""
        return Counter(_named(each) for each in self.entries)

    @property
    def kilobytes(self) -> float:
        """Of bodies, in both directions."""
        return sum(each.bytesIn + each.bytesOut for each in self.entries) / 1000

    @property
    def writes(self) -> int:
        """Requests that change something."""
        return sum(each.verb in WRITES for each in self.entries)


def run(*, quick: bool) -> Section:  # noqa: ARG001 (it is quick)
    """Play every scenario."""
    lines, details = [], {}
    converged = 0
    for scenario in _scenarios():
        counted, again = _play(scenario)
        counts, minimum = counted.counts(), Counter(scenario.minimum)
        lines.append(
            Line(
                scenario.title,
                counts.total(),
                "calls",
                "minimum",
                minimum.total(),
                Aim(Bound.AT_MOST, 1.0, of_ratio=True),
            )
        )
        lines.append(Line(f"  {_by_verb(counts)}", round(counted.kilobytes, 1), "KB"))
        details[scenario.title] = {
            "counts": dict(counts),
            "minimum": dict(minimum),
            "equal": counts == minimum,
            "writes_when_converged": again,
        }
        converged += again
    lines.append(Line("writes when converged, all tasks", converged, "", aim=Aim(Bound.AT_MOST, 0)))
    differing = [title for title, detail in details.items() if not detail["equal"]]
    note = "Requests by verb and resource equal the minimum one by one"
    exceptions = f", except: {'; '.join(differing)}" if differing else ""
    notes = [f"{note}{exceptions}. Events are not counted; bytes are those of bodies."]
    return Section("calls", "Calls", lines, notes=notes, details=details)


def _play(scenario: Scenario) -> tuple[_Counter, int]:
    """The requests of the task, and the writes of the third time. In between it may have had more to do."""
    world = World()
    message = scenario.prepare(world)
    counter = _Counter()
    up, down = (Server(each.store, audit=counter) for each in (world.up, world.down))
    with up.running(), down.running(), closing(_connect(up)) as upstream, closing(_connect(down)) as downstream:
        context = replace(world.context, upstream=upstream, downstream=downstream)

        def carry_out() -> _Counter:
            counter.entries.clear()
            scenario.handler(message, context)
            for cluster in (upstream, downstream):
                # A request is noted after its answer, and before the next one of its connection is read.
                cluster.list_page(_MARKER)
            return _Counter(list(counter.entries))

        first, _, third = (carry_out() for _ in range(3))
        return first, third.writes


def _connect(server: Server) -> HttpCluster:
    return HttpCluster(Connection(server.url), user_agent=PEER_AGENT, limits=UNLIMITED)


def _named(each: Entry) -> str:
    return f"{each.verb} {each.resource}{'/' + each.subresource if each.subresource else ''}"


def _by_verb(counts: Counter[str]) -> str:
    by_verb: Counter[str] = Counter()
    for name, count in counts.items():
        by_verb[name.partition(" ")[0]] += count
    return ", ".join(f"{count} {verb}" for verb, count in sorted(by_verb.items()))


def _scenarios() -> list[Scenario]:
    """One or two of each task. The minima: specification 02 to 05."""
    reads = {"get compositions": 1, "list secrets": 1, "get resourceslices": SLICES}
    decision = {"patch compositions/status": 1}
    listed = {"get compositions": 2, "list compositions": 1}
    append = {"patch resourceslices": 1}
    return [
        Scenario("recover: not needed", recover, _not_needed, {"get compositions": 1, **decision}),
        Scenario("recover: nothing missing", recover, _nothing_missing, reads | decision),
        Scenario("recover: one append", recover, _one_append, reads | decision | listed | append),
        Scenario(
            "recover: append, overflow, a sibling",
            recover,
            _overflow_and_sibling,
            reads
            | decision
            | append
            | {"get compositions": 3, "list compositions": 1, "get resourceslices": SLICES + 1}
            | {"create resourceslices": 1},
        ),
        Scenario(
            "record: one Secret, one replaced",
            record,
            _replacing,
            {"get compositions": 3, "list secrets": 2, "get resourceslices": SLICES}
            | {"create secrets": 1, "delete secrets": 1},
        ),
        Scenario("gate: ready", gate, _ready, {"get compositions": 1, "get resourceslices": SLICES, **decision}),
        Scenario(
            "cleanup: two slices",
            cleanup,
            _abandoned,
            {"get compositions": 2, "get resourceslices": 2, "delete resourceslices": 2},
        ),
        Scenario("retire: mark", retire, _unclaimed, {"list secrets": 1, "list compositions": 1, "patch secrets": 1}),
        Scenario(
            "retire: delete", retire, _forgotten, {"list secrets": 1, "list compositions": 2, "delete secrets": 1}
        ),
    ]


def _fill(world: World, *, states: bool = False, fields: Mapping[str, Any] | None = None) -> None:
    """A composition with SLICES slices that hold what is kept."""
    names = [f"slice-{index}" for index in range(SLICES)]
    world.add_composition(current=synthesis(slices=names, **(fields or {})))
    kept = [manifest(name=f"resource-{index}") for index in range(_RECORDED - _MISSING)]
    for index, name in enumerate(names):
        texts = kept[index::SLICES]
        done = [{"reconciled": True, "ready": STAMP}] * len(texts) if states else None
        world.add_slice(name, texts, states=done)


def _remember(world: World, count: int, **labels: str) -> None:
    world.remember([entry(name=f"resource-{index}", labels=labels) for index in range(count)])


def _not_needed(world: World) -> Message:
    return recover_message(world.add_composition(current=synthesis(tombstoneRecoveryRequired=False)))


def _nothing_missing(world: World) -> Message:
    _fill(world)
    _remember(world, _RECORDED - _MISSING)
    return recover_message(world.composition())


def _one_append(world: World) -> Message:
    _fill(world)
    _remember(world, _RECORDED)
    return recover_message(world.composition())


def _overflow_and_sibling(world: World) -> Message:
    """Tombstones of 40 KB each: those that the one small slice cannot take need a slice of their own."""
    _fill(world)
    filler = manifest(name="large", annotations={"note": "x" * SLICE_LIMIT})
    for index in range(1, SLICES):
        added = {"op": "add", "path": "/spec/resources/-", "value": {"manifest": filler}}
        world.up.json_patch(RESOURCE_SLICES, NAMESPACE, f"slice-{index}", [added])
    _remember(world, _RECORDED + 4, note="x" * 40_000)
    world.add_composition("sibling", current=synthesis("other", slices=["theirs"]))
    world.add_slice("theirs", [manifest(name="wanted")], owner="sibling")
    return recover_message(world.composition())


def _replacing(world: World) -> Message:
    _fill(world, states=True, fields={"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided()})
    _remember(world, _RECORDED)
    return record_message(world.composition())


def _ready(world: World) -> Message:
    _fill(world, states=True, fields={"tombstoneRecoveryStatus": decided()})
    return gate_message(world.composition())


def _abandoned(world: World) -> Message:
    subject = world.add_composition(current=synthesis(tombstoneRecoveryStatus=decided()))
    for name in ("a", "b"):
        world.add_slice(name, [manifest()])
    world.clock.advance(hours=1)
    return cleanup_message("a", "b", uid=subject.uid)


def _unclaimed(world: World) -> Message:
    _remember(world, _RECORDED)
    return retire_message()


def _forgotten(world: World) -> Message:
    _remember(world, _RECORDED)
    for secret in world.secrets():
        mark = {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: LONG_AGO}}}
        world.down.merge_patch(SECRETS, INVENTORY_NAMESPACE, secret["metadata"]["name"], mark)
    return retire_message()
