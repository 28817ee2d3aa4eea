"""The simulator: two stores, a clock, a queue, a watcher, and the handlers, called one after the other.

One thread, nothing random: the same plan gives the same run. Between two messages a machine can be forked, and
what two machines in the same state come to is found out once (`Memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.errors import ApiError, NotFound, SextonError
from kube.cluster import Page, WatchEvent
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from runtime.messages import Message
from runtime.settings import Settings
from tests.simulation import promises
from tests.simulation.asking import all_tasks
from tests.simulation.corrections import Counted
from tests.simulation.faults import APPLIED, CRASHES, CUT, REPLIES, TOUCH, TOUCHED, Crash
from tests.simulation.others import Others
from tests.simulation.promises import Broken, Write
from tests.simulation.queueing import Hints
from tests.simulation.state import State, fingerprint, summary
from tests.simulation.turns import Turn
from tests.simulation.watching import RELIST, Watcher
from tests.simulation.wire import Call, Side, Wire, answered, failed
from tests.support.factories import NAMESPACE, NOW
from watcher.keys import Kind
from workers.context import Context
from workers.execution import out_of_scope
from workers.outcome import Kind as End
from workers.outcome import Outcome
from workers.tasks import TASKS

STEP = timedelta(hours=1)
"""Between two steps of a scenario, so that every wait but a grace has ended before the next."""

SOON = timedelta(seconds=2)
"""More than anything in Redis lasts here, and less than any wait that an object asks for."""

PATIENCE = 2
"""Looks in a row that change nothing, after which only the end of a longer wait can."""

LONG_AFTER = timedelta(days=30)
"""Past every wait."""

LIMIT = 2_000
"""Messages in one run. More are a loop."""


@dataclass(frozen=True, slots=True)
class Step:
    """What others do next in a scenario: when all is quiet, or as soon as `when` holds, even between two calls."""

    name: str
    act: Callable[[Others], None]
    when: Callable[[State], bool] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story without faults. `expect` names what its end lacks, so that it cannot stop telling what it tells."""

    name: str
    why: str
    steps: tuple[Step, ...]
    prepare: Callable[[Others], None] = lambda _: None
    expect: Callable[[State], list[str]] = lambda _: []
    settings: Mapping[str, Any] = field(default_factory=dict)
    unfinished: frozenset[str] = frozenset()
    """Compositions that end without a decision, since they wait for a person."""
    subject: str = "shop"
    """The composition that others turn against in plans of the kind `eno`."""


@dataclass
class Faults:
    """What goes wrong in a run, by the number of the call, event, message or boundary at which it does.

    A boundary is a moment between two messages, or at which the clock goes on.
    """

    calls: dict[int, str] = field(default_factory=dict)
    acts: dict[int, str] = field(default_factory=dict)
    window: tuple[int, int, str] | None = None
    messages: dict[int, str] = field(default_factory=dict)
    boundaries: dict[int, str] = field(default_factory=dict)

    def over(self, machine: Machine) -> bool:
        """Whether nothing more goes wrong from here on."""
        return (
            all(index < machine.calls for index in (*self.calls, *self.acts))
            and (self.window is None or machine.window_closed)
            and all(index < machine.sent for index in self.messages)
            and all(index < machine.boundaries for index in self.boundaries)
            and not machine.aside
        )


ACTS: dict[str, Callable[[Others, str], None]] = {
    "started": lambda others, name: _start(others, name),
    "sliced": lambda others, name: _slice(others, name),
    "published": lambda others, name: _publish(others, name),
    "deleted": lambda others, name: others.delete(name),
    "opted-out": lambda others, name: others.opt_out(name),
    "slice-lost": lambda others, name: _first_slice(others, name, others.lose_slice),
    "slice-deleted": lambda others, name: _first_slice(others, name, others.delete_slice),
    "recreated": lambda others, name: others.recreate(name),
    "claimed-ready": lambda others, name: others.claim_ready(name),
    "touched": lambda others, name: others.annotate(name, touched="once"),
}
"""What Eno and people do to a composition at any moment."""


def _first_slice(others: Others, name: str, act: Callable[[str], None]) -> None:
    """What happens to the first slice of the current synthesis, if it has one."""
    for each in others.current_slices(name)[:1]:
        act(each)


def _start(others: Others, name: str) -> None:
    """A synthesis is in flight until all is quiet."""
    others.paused |= {"publish"}
    others.change(name, others.desired.get(name, ()))
    others.start(name)


def _slice(others: Others, name: str) -> None:
    """The same, and its slices are there already."""
    _start(others, name)
    others.slice(name)


def _publish(others: Others, name: str) -> None:
    others.change(name, others.desired.get(name, ()))
    others.synthesize(name)


@cache
def empty_store() -> Store:
    """A server with Eno's definitions and the namespaces of the scenarios."""
    store = Store(clock=lambda: NOW, seed="simulation")
    load_definitions(store, [definitions.development_directory()])
    kind = store.kind(NAMESPACES.group, NAMESPACES.plural)
    if kind is None:
        raise AssertionError("namespaces are not served")
    for name in (NAMESPACE, "elsewhere"):
        store.create(kind, None, {"metadata": {"name": name}})
    return store


Memory = dict[Hashable, tuple[str, ...]]
"""What each state comes to, as far as it is known."""


class Machine:
    """A run of a scenario, at one moment."""

    def __init__(self, scenario: Scenario, faults: Faults, *, memory: Memory | None = None) -> None:
        self.scenario, self.faults = scenario, faults
        self.memory: Memory = {} if memory is None else memory
        self.now = NOW
        self.settings = _settings(scenario)
        self.scope = self.settings.scope
        self.corrections = Counted(self)
        self._wire(empty_store(), empty_store())
        self.others = Others(self.up, self.down, self.clock)
        self.hints = Hints(self.clock, self._send)
        self.calls = self.events = self.sent = self.deliveries = self.boundaries = self.last_call = 0
        self.step, self.idle, self.broken_list = 0, 0, ""
        self.begun = NOW
        self.window_closed = False
        self.acting = False
        self.aside: list[tuple[int, Message]] = []
        self.late: list[tuple[Kind, WatchEvent]] = []
        self.attempt: list[Call] = []
        self.message: Message | None = None
        self.start = State({}, {}, {}, NOW)
        self.turn: Turn | None = None
        self.log: list[tuple[int, Call]] | None = None
        self.trace: list[str] | None = None
        self.on_boundary: Callable[[Machine], None] | None = None
        self.quiet = False
        scenario.prepare(self.others)
        self.watcher = Watcher(self.scope, self.hints, self.clock)
        self.watcher.list_all(self.up, self.down)

    def fork(self, faults: Faults) -> Machine:
        """An independent machine in the same state, in which other things go wrong from here on."""
        twin = object.__new__(Machine)
        twin.__dict__.update(self.__dict__)
        twin.faults = faults
        twin.corrections = Counted(twin, {key: list(each) for key, each in self.corrections.noted.items()})
        twin._wire(self.up.store, self.down.store)
        twin.others = self.others.fork(twin.up, twin.down, twin.clock)
        twin.hints = self.hints.fork(twin.clock, twin._send)
        twin.watcher = self.watcher.fork(twin.hints, twin.clock)
        twin.aside, twin.late = list(self.aside), list(self.late)
        twin.attempt = []
        twin.log = twin.trace = twin.on_boundary = None
        return twin

    def _wire(self, up: Store, down: Store) -> None:
        self.up = DirectCluster(up.copy(clock=self.clock))
        self.down = DirectCluster(down.copy(clock=self.clock))
        self.context = Context(
            Wire("up", self, self.up), Wire("down", self, self.down), self.clock, self.settings, self.corrections
        )
        self._seen: tuple[tuple[int, int, datetime], State] | None = None

    def clock(self) -> datetime:
        return self.now

    def tell(self, text: str) -> None:
        """One line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.now:%d %H:%M:%S}  {text}")

    @property
    def versions(self) -> tuple[int, int]:
        return self.up.store.version, self.down.store.version

    def state(self) -> State:
        """What the clusters hold now."""
        seen = (*self.versions, self.now)
        if self._seen is None or self._seen[0] != seen:
            self._seen = (seen, State.of(self.up.store, self.down.store, self.now))
        return self._seen[1]

    # The run

    def run(self) -> tuple[str, ...]:
        """Go on to the end. Returns what it has come to. Raises Broken."""
        visited: list[Hashable] = []
        while True:
            self._settle()
            if self.on_boundary is not None:
                self.on_boundary(self)
            if (identity := self._identity()) is not None:
                known = self.memory.get(identity)
                if known is not None:
                    return self._remember(visited, known)
                visited.append(identity)
            fault = self.faults.boundaries.get(self.boundaries)
            self.boundaries += 1
            if fault is not None:
                self.disturb(fault)
            elif self.hints.queue:
                self.deliver()
            elif not self._advance():
                break
        return self._remember(visited, self._end())

    def _remember(self, visited: list[Hashable], end: tuple[str, ...]) -> tuple[str, ...]:
        self.memory.update(dict.fromkeys(visited, end))
        return end

    def _identity(self) -> Hashable | None:
        """What decides how the run goes on; None while something is still to go wrong, or somebody is watching."""
        if self.log is not None or self.trace is not None or not self.faults.over(self):
            return None
        return self.identity()

    def identity(self) -> Hashable | None:
        """Equal for machines that go on alike, if nothing goes wrong. None while the watcher does not know all."""
        if self.late or self.aside or not self.watcher.undisturbed(self.up, self.down):
            return None
        others = self.others
        return (
            (self.now, self.step, self.idle, self.jumps, self._last_seen == self.versions),
            self.hints.identity(),
            self.watcher.identity(),
            (tuple(sorted(others.desired.items())), others.paused, others.hasty, others.uuids),
            (tuple(sorted(others.made.items())), others.resources),
            tuple(sorted((key, tuple(each)) for key, each in self.corrections.noted.items())),
            fingerprint(self.up.store, COMPOSITIONS, RESOURCE_SLICES),
            fingerprint(self.down.store, SECRETS),
        )

    def _settle(self) -> None:
        """Others act, the watcher hears of it and enqueues, until nothing happens any more."""
        while True:
            before = self.versions, self.step
            self._triggered()
            self.others.work()
            self._hear()
            self.watcher.step()
            if before == (self.versions, self.step):
                return

    def _hear(self) -> None:
        for kind, event in self.watcher.events(self.up, self.down):
            index = self.events
            self.events += 1
            if not self._in_window(index):
                self.watcher.tell(kind, event)
                continue
            if self.faults.window is not None and self.faults.window[2] == "late":
                self.late.append((kind, event))
            name = event.object["metadata"]["name"]
            self.tell(f"the watcher does not hear of event {index}: {event.type} {kind} {name}")

    def _in_window(self, index: int) -> bool:
        """Whether an event is dropped. The window closes when it has passed, or when all is quiet."""
        window = self.faults.window
        if window is None or self.window_closed or index < window[0]:
            return False
        first, last, how = window
        if index >= last:
            self._close_window()
            return False
        if index >= first and not self.watcher.missed:
            self.watcher.missed = True
            if how == "silent":
                self.watcher.relist_at = self.now + RELIST
        return True

    def _close_window(self) -> None:
        """The watcher finds out that it has missed something; silently dropped events wait for the next relist."""
        self.window_closed = True
        how = self.faults.window[2] if self.faults.window else ""
        if how == "silent":
            return
        if how == "late":
            self.tell("the watcher hears of it at last")
            late, self.late, self.watcher.missed = self.late, [], False
            for kind, event in late:
                self.watcher.tell(kind, event)
            return
        self.tell("410: the watcher lists everything")
        self.watcher.list_all(self.up, self.down)

    def _advance(self) -> bool:
        """Nothing is left to do at this instant: go on to the next one. False when there is none."""
        if self._belated():
            return True
        if self.faults.window is not None and not self.window_closed and self.watcher.missed:
            self._close_window()
            if not self.watcher.missed:
                return True
        if "publish" in self.others.paused:
            self.others.paused -= {"publish"}
            self.others.seen = -1
            return True
        if self._last_seen != self.versions:
            self.idle = self.jumps = 0
        self._last_seen = self.versions
        self.idle += 1
        target = self._next_instant()
        if target is None:
            return False
        self.now = max(self.now, target)
        self.tell("the clock goes on to here")
        if self.watcher.relist_at is not None and self.watcher.relist_at <= self.now:
            self.window_closed = True
            self.tell("the watcher lists everything, as it does from time to time")
            self.watcher.list_all(self.up, self.down)
        if self.step < len(self.scenario.steps) and self.now >= self._step_at():
            self._take_step()
        return True

    _last_seen = (-1, -1)
    jumps = 0

    def _next_instant(self) -> datetime | None:
        """The next step, look or relist. When looks change nothing any more, the next end of a longer wait."""
        instants = [instant for instant in [self.watcher.next_instant()] if instant is not None]
        if self.idle > PATIENCE:
            instants = self._waits()
        if self.step < len(self.scenario.steps):
            instants.append(self._step_at())
        return min(instants, default=None)

    def _waits(self) -> list[datetime]:
        """Where to jump to, in turns: to where Redis has forgotten everything, and to the next end of a real wait."""
        self.idle = 0
        self.jumps += 1
        waits = self.watcher.waits(self.now) + self.hints.waits(self.now)
        short = [at for at in waits if at < self.now + SOON]
        long = [at for at in waits if at >= self.now + SOON]
        if self.jumps > 2 * PATIENCE or not waits:
            return []
        return [max(short)] if short and (self.jumps % 2 or not long) else [min(long)]

    def _step_at(self) -> datetime:
        return self.begun + STEP * (self.step + 1)

    def _triggered(self) -> None:
        """Take the next step if it was only waiting for what is the case now."""
        while not self.acting and self.step < len(self.scenario.steps):
            when = self.scenario.steps[self.step].when
            if when is None or not when(self.state()):
                return
            self._take_step()

    def _take_step(self) -> None:
        step = self.scenario.steps[self.step]
        self.step += 1
        self.tell(f"scenario: {step.name}")
        self.acting = True
        try:
            step.act(self.others)
        finally:
            self.acting = False

    # Messages

    def _send(self, message: Message) -> None:
        index = self.sent
        self.sent += 1
        how, _, when = self.faults.messages.get(index, "").partition("@")
        if how in ("", "twice"):
            self.hints.queue.append(message)
        if how in ("late", "twice"):
            self.aside.append((int(when), message))
        if self.trace is not None:
            note = f", {how} {when}".rstrip() if how else ""
            self.tell(f"enqueued {index}: {_named(message)}{note}")

    def _belated(self) -> bool:
        """Messages that were kept aside come when they are due, and all of them when there is nothing else."""
        due, self.aside = self.aside, []
        self.hints.queue += [message for _, message in due]
        return bool(due)

    def deliver(self) -> None:
        """A worker executes the next message, and whatever goes wrong at this delivery goes wrong."""
        due = [message for at, message in self.aside if at <= self.deliveries]
        self.aside = [(at, message) for at, message in self.aside if at > self.deliveries]
        self.hints.queue[:0] = due
        message = self.hints.take()
        self.deliveries += 1
        if self.deliveries > LIMIT:
            raise Broken("P7", f"still busy after {LIMIT} messages")
        self.execute(message)

    def disturb(self, fault: str) -> None:
        """Something is wrong with the watcher or with Redis between two messages, or others act."""
        self.tell(f"fault: {fault}")
        self.idle = self.jumps = 0
        how, _, rest = fault.partition("=")
        if how == "act":
            self._act(rest)
            return
        if how in ("flush", "restart"):
            self.hints.flush()
            self.aside = []
        if how in ("watcher", "restart", "stale"):
            kind, _, version = rest.partition("@")
            stale = {Kind[kind.upper()]: int(version)} if how == "stale" else {}
            self.watcher = Watcher(self.scope, self.hints, self.clock)
            self.watcher.held = frozenset(stale)
            self.watcher.list_all(self.up, self.down, stale=stale)
            self.watcher.look_at_everything()
            self.watcher.step()
            self._drain_stale()

    def _act(self, name: str) -> None:
        self.tell(f"    others: {name}")
        self.acting = True
        try:
            ACTS[name](self.others, self.scenario.subject)
        finally:
            self.acting = False

    def _drain_stale(self) -> None:
        """Execute what a stale view has asked for, before the view catches up."""
        while self.watcher.held and self.hints.queue:
            self.execute(self.hints.take())
        self.watcher.held = frozenset()

    def execute(self, message: Message) -> None:
        """One worker executes one message."""
        if self.trace is not None:
            self.tell(f"deliver {self.deliveries - 1}: {_named(message)}")
        if self.hints.locked(message.key):
            self.tell("  merged: the key is believed to be executed")
            return
        self.attempt, self.message, self.broken_list, self.start = [], message, "", self.state()
        try:
            end = self.handle(message)
        except Crash as crash:
            self.tell(f"  the worker is gone, {'the message comes again' if crash.again else 'and the message, too'}")
            self.hints.crashed(message, again=crash.again)
            return
        finally:
            self.message = None
        self.tell(f"  {end.kind}: {end.reason}" if isinstance(end, Outcome) else f"  {type(end).__name__}: {end}")
        self.hints.ended(message, end)

    def handle(self, message: Message) -> Outcome | SextonError:
        refused = out_of_scope(message, self.scope)
        if refused:
            return Outcome(End.NOT_IN_SCOPE, refused)
        try:
            return TASKS[message.task](message, self.context)
        except SextonError as error:
            return error
        except (Broken, AssertionError):
            raise
        except Exception as error:
            raise Broken("no traceback", f"{_named(message)}: {type(error).__name__}: {error}") from error

    # Calls

    def put_through(self, side: Side, call: Call, request: Callable[[], Any]) -> Any:
        """See `tests.simulation.wire.Switchboard`."""
        if self.turn is not None:
            return self.turn.call(self, side, call, request)
        return self.judged(side, call, request)

    def judged(self, side: Side, call: Call, request: Callable[[], Any]) -> Any:
        """Carry a call out, with whatever goes wrong with it."""
        index = self.calls
        self.calls += 1
        if self.log is not None:
            self.log.append((index, call))
        act = self.faults.acts.get(index)
        if act is not None:
            self._act(act)
        fault = self.faults.calls.get(index, "")
        if call.continued and self.broken_list:
            fault, self.broken_list = self.broken_list, ""
        if fault in REPLIES or (fault in CUT and call.continued):
            self._refuse(index, call, {**REPLIES, **CUT}[fault](str(call)))
        if fault.startswith("before"):
            self.tell(f"  {index:4} {call}: crash before it is sent")
            raise Crash(again=fault.endswith("again"))
        if fault == TOUCH:
            self._touch(side, call)
        reply = self._carried_out(index, call, request)
        if fault in APPLIED or fault == "lost":
            self._refuse(index, call, APPLIED.get(fault, APPLIED["timeout-applied"])(str(call)))
        if fault in CRASHES:
            self.tell("    crash right after it")
            raise Crash(again=fault.endswith("again"))
        if fault in CUT and isinstance(reply, Page):
            self.broken_list = fault
            self.tell("    only the first half of it")
            half = replace(reply, items=reply.items[: len(reply.items) // 2], continue_token="cut")
            self.attempt[-1] = answered(call, half)
            return half
        return reply

    def _refuse(self, index: int, call: Call, error: ApiError) -> None:
        self.attempt.append(failed(call, error))
        self.tell(f"  {index:4} {call}: {error}")
        raise error

    def _touch(self, side: Side, call: Call) -> None:
        cluster = self.up if side == "up" else self.down
        note = {"metadata": {"annotations": {TOUCHED: str(self.calls)}}}
        with suppress(NotFound):
            cluster.merge_patch(call.resource, call.namespace, call.name, note)

    def _carried_out(self, index: int, call: Call, request: Callable[[], Any]) -> Any:
        before = self.state() if call.matters else None
        versions = self.versions
        try:
            reply = request()
        except ApiError as error:
            self.attempt.append(failed(call, error))
            self.tell(f"  {index:4} {call}: {error}")
            raise
        self.attempt.append(answered(call, reply))
        if self.trace is not None:
            self.tell(f"  {index:4} {call}")
        if before is not None and self.message is not None and self.versions != versions:
            if self.quiet:
                raise Broken("P7", f"{_named(self.message)} makes a write when all is done: {call}")
            self._judge(call, before)
            self._triggered()
        elif self.quiet and call.writes and self.versions != versions:
            raise Broken("P7", f"{call} when all is done")
        return reply

    def _judge(self, call: Call, before: State) -> None:
        if self.message is None:
            raise AssertionError("only messages make writes")
        write = Write(call, self.attempt[:-1], self.message, self.settings, self.start, before, self.state())
        promises.check(write)

    # The end

    def _end(self) -> tuple[str, ...]:
        """What it has come to, once the promises about ends are kept."""
        self.last_call = self.calls
        state = self.state()
        found = summary(state, self.others.resources)
        identity = (
            "end",
            self.now,
            fingerprint(self.up.store, COMPOSITIONS, RESOURCE_SLICES),
            fingerprint(self.down.store, SECRETS),
        )
        if identity in self.memory and self.trace is None:
            return found
        promises.check_end(state, self.settings, self.scenario.unfinished)
        for why, pause in (("once more", timedelta(0)), ("long after every wait", LONG_AFTER)):
            self._stay_quiet(why, pause)
        self.memory[identity] = found
        return found

    def _stay_quiet(self, why: str, pause: timedelta) -> None:
        """One more round of all events and all tasks makes no write (P7)."""
        self.tell(f"stability: all events and tasks {why}")
        self.now += pause
        self.hints.flush()
        self.watcher = Watcher(self.scope, self.hints, self.clock)
        self.watcher.list_all(self.up, self.down)
        self.watcher.look_at_everything()
        self.watcher.step()
        tasks = [*self.hints.queue, *all_tasks(self.state(), self.scope)]
        self.hints.flush()
        self.quiet = True
        versions = self.versions
        for message in {(each.key, each.log_context().get("task")): each for each in tasks}.values():
            self.hints.locks.clear()
            self.execute(message)
        self.others.work()
        if self.versions != versions:
            raise Broken("P7", f"{why}: something has changed although all was done")
        self.quiet = False


def _settings(scenario: Scenario) -> Settings:
    return _loaded(tuple(sorted(scenario.settings.items())))


@cache
def _loaded(settings: tuple[tuple[str, Any], ...]) -> Settings:
    return Settings.load(**{"pod_namespace": NAMESPACE, "enable_tombstone_recovery": True, **dict(settings)})


def _named(message: Message) -> str:
    return " ".join(f"{value}" for value in message.log_context().values())
