"""Several candidates in virtual time: calls that overlap, fail, hang or get lost, processes that stop and die.

True time is a queue of events. Every candidate runs in a thread of its own, of which one is awake at a time, and
reads a clock of its own that starts anywhere and runs up to a fifth too fast or too slow. All goes well,
but where Hypothesis makes another choice: at a few of the points where a call could go wrong or a process stop.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.errors import SextonError, Throttled, TimedOut, Unreachable
from kube.cluster import Cluster
from kube.election import JITTER, Timing
from kube.lease import Candidate
from kube.resources import LEASES

NAMESPACE, NAME = "default", "a"
TIMING = Timing()
RATES = (0.8, 1.0, 1.2)
QUICK = 0.01
DELAYS = (QUICK, 0.5, 5.0, 8.0, 11.0, 13.0, 16.0, 30.0)
"""Seconds on the way to the server or back; also how long a process may be stopped just then."""

FATES = ("well", "unsent", "unanswered", "throttled", "dead")
"""What becomes of a call, or of who makes it."""

SLOWEST_LOOK = TIMING.retry_period * (1 + JITTER) / RATES[0] + 4 * QUICK
TAKEOVER = TIMING.duration / RATES[0] + 2 * SLOWEST_LOOK


class Killed(BaseException):
    """Ends a process without another word."""


class Simulation:
    """One store, and processes that want to lead. `now` is true time."""

    def __init__(
        self, rates: Sequence[float], trouble: Mapping[int, int] | None = None, *, restarts: bool = True
    ) -> None:
        self.now = 0.0
        self.cluster = DirectCluster(Store())
        self.alive: list[Process] = []
        self.back = threading.Semaphore(0)
        self._restarts = restarts
        self.trouble(trouble or {})
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        for rate in rates:
            self.start(rate)

    def trouble(self, choices: Mapping[int, int]) -> None:
        """From now on these choices are made, by how many were made before them; all others are the first."""
        self._choices = dict(choices)
        self._made = itertools.count()

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self._choices.get(next(self._made), 0) % len(options)]

    def at(self, instant: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (instant, next(self._numbers), act))

    def start(self, rate: float) -> None:
        process = Process(self, f"p{next(self._numbers)}", rate)
        self.alive.append(process)
        self.at(self.now + self.choose(DELAYS), process.resume)

    def ended(self, process: Process) -> None:
        self.alive.remove(process)
        if self._restarts:
            self.start(process.rate)

    def leaders(self) -> list[Process]:
        """Those that would say, asked now, that they lead."""
        return [process for process in self.alive if process.candidate.leads]

    def play(self, end: float) -> None:
        """Go on to `end`, and see after each event that no two lead."""
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
            assert len(self.leaders()) <= 1, f"at {self.now:.2f}"
        self.now = end

    def finish(self) -> None:
        self._restarts = False
        for process in list(self.alive):
            process.kill()


class Process:
    """A candidate in a thread, awake between `resume` and the next time that it waits for something."""

    def __init__(self, world: Simulation, name: str, rate: float) -> None:
        self.name = name
        self.rate = rate
        self._world = world
        self._turn = threading.Semaphore(0)
        self._dead = False
        self.candidate = Candidate(
            cast("Cluster", self),
            NAMESPACE,
            NAME,
            TIMING,
            identity=name,
            clock=lambda: 1000 / rate + world.now * rate,
            wall=lambda: datetime.fromtimestamp(world.now, UTC),
            draw=lambda: world.choose((0.0, 0.9)),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        if self._thread.is_alive():
            self._turn.release()
            self._world.back.acquire()

    def kill(self) -> None:
        self._dead = True
        self.resume()
        self._thread.join()

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:
        self._sleep(timeout / self.rate)
        return False

    def __getattr__(self, verb: str) -> Callable[..., object]:
        def call(*arguments: Any) -> object:
            self._sleep(self._world.choose(DELAYS))
            fate = self._world.choose(FATES)
            if fate == "unsent":
                raise Unreachable(verb)
            if fate == "dead":
                raise Killed
            if fate == "throttled":
                raise Throttled(verb, status=429, retry_after=self._world.choose((1.0, 30.0)))
            try:
                answer = getattr(self._world.cluster, verb)(*arguments)
            finally:
                self._sleep(self._world.choose(DELAYS))
            if fate == "unanswered":
                raise TimedOut(verb)
            return answer

        return call

    def _sleep(self, seconds: float) -> None:
        self._world.at(self._world.now + seconds, self.resume)
        self._hand_over()

    def _hand_over(self) -> None:
        self._world.back.release()
        self._turn.acquire()
        if self._dead:
            raise Killed

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._dead:
                self.candidate.run(self, beat=lambda: None)
        except (SextonError, Killed):
            self._world.ended(self)
        finally:
            self._world.back.release()


rates = st.lists(st.sampled_from(RATES), min_size=2, max_size=3)
troubles = st.dictionaries(st.integers(0, 100), st.integers(1, 7), max_size=6)
EXAMPLES = settings(max_examples=60, deadline=None)


@EXAMPLES
@given(rates, troubles)
def test_no_two_lead_at_one_instant_and_in_the_end_one_does(rates: list[float], trouble: dict[int, int]) -> None:
    world = Simulation(rates, trouble)
    try:
        world.play(120.0)
        world.play(120.0 + 60 + TAKEOVER)
        assert len(world.leaders()) == 1
    finally:
        world.finish()


@EXAMPLES
@given(rates, st.floats(0, 100))
def test_a_leader_that_dies_is_followed_after_its_lease_and_a_retry(rates: list[float], instant: float) -> None:
    world = Simulation(rates, restarts=False)
    try:
        world.play(SLOWEST_LOOK + instant)
        (leader,) = world.leaders()
        leader.kill()
        world.play(world.now + TAKEOVER)
        assert len(world.leaders()) == 1
    finally:
        world.finish()


@EXAMPLES
@given(rates, troubles, st.floats(10, 100))
def test_deleting_the_lease_makes_no_second_leader_among_those_that_had_seen_it(
    rates: list[float], trouble: dict[int, int], instant: float
) -> None:
    world = Simulation(rates, restarts=False)
    try:
        world.play(instant)
        world.trouble(trouble)
        world.cluster.delete(LEASES, NAMESPACE, NAME)
        world.play(instant + 80)
    finally:
        world.finish()
