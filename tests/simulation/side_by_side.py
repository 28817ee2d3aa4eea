"""Two workers on one composition, in every order of their calls.

At every boundary of the undisturbed run: the next message, beside itself and beside every other task about the same
composition, locks or no locks. A plan is one more call of one of the two; states that are reached in several orders
are continued once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from runtime.messages import Message
from tests.simulation.asking import about
from tests.simulation.machine import Faults, Machine
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.running import Runner, difference
from tests.simulation.state import items
from tests.simulation.turns import Progress, step

WORKERS = "ab"


@dataclass
class Moment:
    """A machine between two steps, and how far the two workers have come."""

    machine: Machine
    workers: tuple[Progress, Progress]
    schedule: str

    def identity(self) -> Hashable:
        """Equal for moments that cannot go on differently."""
        contents = [
            tuple(each.rest for _, each in items(store, resource))
            for store, resource in (
                (self.machine.up.store, COMPOSITIONS),
                (self.machine.up.store, RESOURCE_SLICES),
                (self.machine.down.store, SECRETS),
            )
        ]
        return tuple(contents), self.machine.step, *((each.digest, each.end is None) for each in self.workers)

    def after(self, worker: str) -> Moment:
        """The moment after one more step of a worker. Raises Broken."""
        machine = self.machine.fork(Faults())
        machine.trace = self.machine.trace
        mine, other = WORKERS.index(worker), 1 - WORKERS.index(worker)
        machine.tell(f"{worker} takes a step: {self.workers[mine].message.task.short}")
        now = step(machine, self.workers[mine], self.workers[other])
        workers = (now, self.workers[1]) if mine == 0 else (self.workers[0], now)
        return Moment(machine, workers, self.schedule + worker)

    @property
    def running(self) -> list[str]:
        return [name for name, each in zip(WORKERS, self.workers, strict=True) if each.end is None]


def workers(runner: Runner) -> Iterator[tuple[Plan, Callable[[], None]]]:
    """Every step of every pair, at every boundary at which a message is due."""
    for number, snapshot in sorted({each.boundaries: each for each in runner.reference.snapshots[1:]}.items()):
        if snapshot.hints.queue:
            for partner in partners(snapshot):
                yield from _orders(runner, number, begin(snapshot, partner))


def partners(machine: Machine) -> list[Message]:
    """The message itself, and every other task about its composition."""
    message = machine.hints.queue[0]
    name = f"{message.namespace}/{getattr(message, 'name', '')}"
    state = machine.state()
    composition = state.compositions.get(name) or next(iter(state.compositions.values()), None)
    others = about(composition, state, machine.scope) if composition else iter(())
    return [message, *(each for each in others if each.task is not message.task)]


def begin(machine: Machine, partner: Message) -> Moment:
    """Nobody has done anything yet."""
    twin = machine.fork(Faults())
    message = twin.hints.take()
    twin.hints.queue = [each for each in twin.hints.queue if each.key != partner.key]
    start = twin.state()
    return Moment(twin, (Progress(message, start), Progress(partner, start)), "")


def _orders(runner: Runner, number: int, first: Moment) -> Iterator[tuple[Plan, Callable[[], None]]]:
    seen: set[Hashable] = set()
    pending = [first]
    tasks = "+".join(each.message.task.short for each in first.workers)
    while pending:
        moment = pending.pop()
        for worker in moment.running:
            plan = Plan(runner.scenario.name, "workers", (f"w{number}:{tasks}:{moment.schedule}{worker}",))
            reached: list[Moment] = []
            yield plan, lambda: reached.append(_checked(runner, moment.after(worker), seen))  # noqa: B023
            for each in reached:
                identity = each.identity()
                if each.running and identity not in seen:
                    pending.append(each)
                seen.add(identity)


def _checked(runner: Runner, moment: Moment, seen: set[Hashable]) -> Moment:
    """When both are through, the run goes on to its end, which must be that of the undisturbed one."""
    if not moment.running and moment.identity() not in seen:
        finish(runner, moment)
    return moment


def finish(runner: Runner, moment: Moment) -> None:
    """Let a machine whose workers are through run on. Raises Broken."""
    machine = moment.machine.fork(Faults())
    machine.trace = moment.machine.trace
    for each in moment.workers:
        if each.end is not None:
            machine.hints.ended(each.message, each.end)
    end = machine.run()
    if end != runner.reference.end:
        raise Broken("the end", difference(end, runner.reference.end))


def replay(runner: Runner, plan: Plan, trace: list[str]) -> None:
    """The schedule of a plan, told step by step. Raises Broken."""
    if plan.workers is None:
        raise ValueError("no plan of two workers")
    number, _, task, schedule = plan.workers
    snapshot = next(each for each in runner.reference.snapshots[1:] if each.boundaries == number)
    partner = next(each for each in partners(snapshot) if each.task.short == task)
    moment = begin(snapshot, partner)
    moment.machine.trace = trace
    for worker in schedule:
        moment = moment.after(worker)
    if not moment.running:
        finish(runner, moment)
