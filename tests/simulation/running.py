"""Running plans of one scenario: each starts from the latest state that the undisturbed run has in common with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.simulation.machine import ACTS, Faults, Machine, Memory, Scenario
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.wire import Call

End = tuple[str, ...]

CUT_OFF = ("before+again", "before+gone", "after+again", "after+gone")


@dataclass
class Course:
    """A run that was watched: a machine at every boundary, every call, and what it came to."""

    snapshots: list[Machine]
    calls: list[tuple[int, Call]]
    end: End

    def before(self, faults: Faults) -> Machine:
        """The last machine at a boundary before anything of this goes wrong."""
        done = self.snapshots[0].calls
        first_call = min((each for each in (*faults.calls, *faults.acts) if each >= done), default=None)
        first = (
            first_call,
            faults.window[0] if faults.window else None,
            min(faults.messages, default=None),
            min(faults.boundaries, default=None),
        )
        low, high = 0, len(self.snapshots)
        while high - low > 1:
            middle = (low + high) // 2
            each = self.snapshots[middle]
            counts = each.calls, each.events, each.sent, each.boundaries
            if all(at is None or count <= at for count, at in zip(counts, first, strict=True)):
                low = middle
            else:
                high = middle
        return self.snapshots[low]


@dataclass
class Runner:
    """Runs plans of one scenario. `expected` is what the undisturbed run comes to, if somebody else knows."""

    scenario: Scenario
    expected: End | None = None
    memory: Memory = field(default_factory=dict)

    @cached_property
    def reference(self) -> Course:
        """The undisturbed run. Raises Broken when it is none."""
        course = self.watched(Machine(self.scenario, Faults(), memory=self.memory))
        problems = self.scenario.expect(course.snapshots[-1].state())
        if problems:
            raise Broken("the scenario", "; ".join(problems))
        if self.expected is not None and course.end != self.expected:
            raise Broken("the end", difference(course.end, self.expected))
        Machine(self.scenario, Faults(), memory=self.memory).run()
        return course

    def watched(self, machine: Machine) -> Course:
        """Run a machine, and keep what it passes."""
        snapshots = [machine.fork(machine.faults)]
        calls: list[tuple[int, Call]] = []
        machine.log = calls
        machine.on_boundary = lambda at: snapshots.append(at.fork(at.faults))
        end = machine.run()
        return Course(snapshots, [each for each in calls if each[0] < machine.last_call], end)

    def run(self, plan: Plan, course: Course | None = None) -> End:
        """What a plan comes to. Raises Broken."""
        faults = plan.faults()
        start = (course or self.reference).before(faults)
        shared = self._shared(start, faults) if course is not None else None
        if shared is not None and shared in self.memory:
            return self.memory[shared]
        end = start.fork(faults).run()
        if shared is not None:
            self.memory[shared] = end
        return end

    @staticmethod
    def _shared(start: Machine, faults: Faults) -> Hashable | None:
        """Equal for plans that go wrong in the same way from the same state on."""
        left = tuple((index - start.calls, how) for index, how in sorted(faults.calls.items()) if index >= start.calls)
        identity = start.identity()
        return None if identity is None else (identity, left)

    def verify(self, plan: Plan, course: Course | None = None) -> None:
        """Run a plan and compare its end. Raises Broken."""
        self.compare(plan, self.run(plan, course))

    def compare(self, plan: Plan, end: End) -> None:
        """The end must be that of the undisturbed run.

        Where others act in the middle of a message, it must be one that they bring about between two messages, or
        when the worker is gone at that very moment: whoever goes on must not do anything that neither would.
        """
        if any(each.partition(":")[2].startswith("act=") for each in plan.points):
            return
        faults = plan.faults()
        if not faults.acts:
            if end != self.reference.end:
                raise Broken("the end", difference(end, self.reference.end))
            return
        [(index, act)] = faults.acts.items()
        if end in self.allowed[act]:
            return
        cut_off = {self.run(Plan(plan.scenario, plan.kind, (*plan.points, f"c{index}:{how}"))) for how in CUT_OFF}
        if end not in cut_off:
            if act == "slice-lost" and any(_same_but_for_the_lost(end, each) for each in self.allowed[act] | cut_off):
                return
            closest = min(self.allowed[act] | cut_off, key=lambda each: len(set(each) ^ set(end)))
            raise Broken("the end", f"none that {act} could come to:\n{difference(end, closest)}")

    @cached_property
    def allowed(self) -> dict[str, set[End]]:
        """What each act of others comes to when it happens between two messages, and not in the middle of one."""
        return {name: {self.run(plan) for plan in self.acts_at_boundaries(name)} for name in ACTS}

    def acts_at_boundaries(self, name: str) -> Iterator[Plan]:
        """One act at every boundary of the undisturbed run."""
        for each in boundaries(self.reference.snapshots):
            yield Plan(self.scenario.name, "eno", (f"b{each}:act={name}",))


def boundaries(snapshots: Sequence[Machine]) -> list[int]:
    """The numbers of the boundaries at which there is a machine."""
    return sorted({each.boundaries for each in snapshots[1:]})


def _same_but_for_the_lost(found: End, expected: End) -> bool:
    """What a slice that was forced out said is lost with it, tombstones included. Nobody is expected to do that."""
    return set(expected) <= set(found) and all(line.startswith("exists: ") for line in set(found) - set(expected))


def difference(found: End, expected: End) -> str:
    """The lines that only one of two ends has."""
    missing = [line for line in expected if line not in found]
    extra = [line for line in found if line not in expected]
    return "\n".join([*(f"  - {line}" for line in missing), *(f"  + {line}" for line in extra)]) or "another order"
