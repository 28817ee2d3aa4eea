"""Every plan of every kind, none left out. What is enumerated follows from the undisturbed run alone.

Except for pairs: what the second of two crashes can meet follows from the run that the first one has disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.faults import CRASHES, possible
from tests.simulation.machine import ACTS, Machine
from tests.simulation.plans import Plan
from tests.simulation.running import Course, Runner, boundaries
from tests.simulation.side_by_side import workers
from watcher.keys import Kind

Verdict = Callable[[], None]
"""Runs one plan. Raises Broken."""

Case = tuple[Plan, Verdict]

WINDOWS = ("410", "silent", "late")
RESTARTS = ("watcher", "flush", "restart")


def crashes(runner: Runner) -> Iterator[Case]:
    """Intermediate states: each write, in each of the ways in which a process can be cut off around it."""
    for plan in _single_crashes(runner):
        yield _case(runner, plan)


def pairs(runner: Runner) -> Iterator[Case]:
    """All pairs of them in one run."""
    for first in _single_crashes(runner):
        faults = first.faults()
        course = runner.watched(runner.reference.before(faults).fork(faults))
        after = min(faults.calls)
        for index, call in course.calls:
            for how in CRASHES if call.writes and index > after else ():
                yield _case(runner, Plan(first.scenario, "pairs", (*first.points, f"c{index}:{how}")), course)


def errors(runner: Runner) -> Iterator[Case]:
    """Every error reply, at every call."""
    for index, call in runner.reference.calls:
        for how in possible(call):
            yield _case(runner, Plan(runner.scenario.name, "errors", (f"c{index}:{how}",)))


def eno(runner: Runner) -> Iterator[Case]:
    """Whatever Eno and people do, between two messages and before every call of every one."""
    for name in ACTS:
        for plan in runner.acts_at_boundaries(name):
            yield _case(runner, plan)
    for index, _ in runner.reference.calls:
        for name in ACTS:
            yield _case(runner, Plan(runner.scenario.name, "eno", (f"x{index}:{name}",)))


def stale(runner: Runner) -> Iterator[Case]:
    """At every boundary a watcher that begins with a list of any older version, of each kind."""
    start = runner.reference.snapshots[0]
    for each in _at_boundaries(runner):
        for kind in Kind:
            if kind is not Kind.LINEAGE:
                for version in _views(kind, start, each):
                    point = f"b{each.boundaries}:stale={kind.name.lower()}@{version}"
                    yield _case(runner, Plan(runner.scenario.name, "stale", (point,)))


def unseen(runner: Runner) -> Iterator[Case]:
    """Every window of events that are not heard of, or late; every restart of the watcher and of Redis."""
    last = runner.reference.snapshots[-1].events
    for first in range(last):
        for end in range(first + 1, last + 1):
            for how in WINDOWS:
                yield _case(runner, Plan(runner.scenario.name, "unseen", (f"e{first}-{end}:{how}",)))
    for each in boundaries(runner.reference.snapshots):
        for how in RESTARTS:
            yield _case(runner, Plan(runner.scenario.name, "unseen", (f"b{each}:{how}",)))


def queue(runner: Runner) -> Iterator[Case]:
    """Every message lost, delivered late, or delivered again, at every later delivery."""
    last = runner.reference.snapshots[-1]
    for index in range(last.sent):
        yield _case(runner, Plan(runner.scenario.name, "queue", (f"m{index}:lost",)))
        for how in ("late", "twice"):
            for at in range(last.deliveries + 1):
                yield _case(runner, Plan(runner.scenario.name, "queue", (f"m{index}:{how}@{at}",)))


KINDS: dict[str, Callable[[Runner], Iterator[Case]]] = {
    "crashes": crashes,
    "pairs": pairs,
    "stale": stale,
    "unseen": unseen,
    "queue": queue,
    "eno": eno,
    "errors": errors,
    "workers": workers,
}


def _single_crashes(runner: Runner) -> Iterator[Plan]:
    for index, call in runner.reference.calls:
        for how in CRASHES if call.writes else ():
            yield Plan(runner.scenario.name, "crashes", (f"c{index}:{how}",))


def _case(runner: Runner, plan: Plan, course: Course | None = None) -> Case:
    return plan, lambda: runner.verify(plan, course)


def _at_boundaries(runner: Runner) -> list[Machine]:
    found = {each.boundaries: each for each in runner.reference.snapshots[1:]}
    return [found[number] for number in sorted(found)]


def _views(kind: Kind, start: Machine, now: Machine) -> Iterator[int]:
    """The versions just before each change of a kind: every view of it that ever was, but the current one."""
    cluster, first = (now.down, start.down) if kind is Kind.INVENTORY else (now.up, start.up)
    plural = {Kind.COMPOSITION: "compositions", Kind.SLICE: "resourceslices", Kind.INVENTORY: "secrets"}[kind]
    for change in cluster.store.changes_since(first.store.version):
        if change.resource[1] == plural:
            yield change.version - 1
