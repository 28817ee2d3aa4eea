"""A seeded random search with longer schedules: several faults of different kinds in one run.

The undisturbed run of a scenario says what there is to disturb. What others do is left out: with it many ends are
right, and the enumeration compares those. Every run is held against the promises, its end and the quiet rounds.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence

from tests.simulation.enumerator import RESTARTS, WINDOWS
from tests.simulation.faults import possible
from tests.simulation.machine import Scenario
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.running import Runner, boundaries
from tests.simulation.small import small

MOST = 6
"""Faults in one run."""


def draw(runner: Runner, rng: random.Random) -> Plan:
    """A plan of two to MOST faults, each of any kind."""
    course = runner.reference
    last = course.snapshots[-1]
    points: dict[str, str] = {}
    for _ in range(rng.randint(2, MOST)):
        match rng.choice("ccceemb"):
            case "c":
                index, call = rng.choice(course.calls)
                if ways := list(possible(call)):
                    points[f"c{index}"] = rng.choice(ways)
            case "e" if last.events > 1 and not any(each.startswith("e") for each in points):
                first, end = sorted(rng.sample(range(last.events + 1), 2))
                points[f"e{first}-{end}"] = rng.choice(WINDOWS)
            case "m" if last.sent:
                how = rng.choice(("lost", f"late@{rng.randint(0, last.deliveries)}"))
                points[f"m{rng.randrange(last.sent)}"] = how
            case _:
                points[f"b{rng.choice(boundaries(course.snapshots))}"] = rng.choice(RESTARTS)
    return Plan(runner.scenario.name, "soak", tuple(f"{at}:{how}" for at, how in points.items()))


def soak(scenarios: Sequence[Scenario], seed: int, *, seconds: float | None = None, steps: int | None = None) -> int:
    """Run until the time or the number of steps is over. Prints violations; returns 1 when there are any, else 0."""
    logging.disable()
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)  # noqa: S311
    runners = [Runner(scenario) for scenario in scenarios]
    began, done, broken = time.monotonic(), 0, 0
    while (seconds is None or time.monotonic() - began < seconds) and (steps is None or done < steps):
        runner = rng.choice(runners)
        # What was remembered would fill the memory in a long search.
        runner.memory.clear()
        done += 1
        try:
            with small():
                plan = draw(runner, rng)
                runner.verify(plan)
        except Broken as error:
            broken += 1
            print(f"{plan.line}\n    {error}", flush=True)
    print(f"{done:,} runs, {broken} violations")
    return 1 if broken else 0
