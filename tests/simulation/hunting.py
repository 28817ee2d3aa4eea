"""Which plan notices that a guard is gone.

A mutant is killed when a promise breaks, or when a run ends otherwise than the product's undisturbed run does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.simulation import side_by_side
from tests.simulation.enumerator import KINDS
from tests.simulation.mutation import Guard, taken_away
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.running import End, Runner
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.small import small

ROOT = Path(__file__).parents[2]
TAKEN_AWAY = "SEXTON_TEST_TAKEN_AWAY"
"""Names the guard that a run of pytest does without: see tests/simulation/guards/plugin.py."""

UNDISTURBED = "undisturbed"


def is_test(line: str) -> bool:
    """Whether it is a test and no plan that kills."""
    return line.startswith("tests/")


def kill(guard: Guard) -> str | None:
    """How the mutant is noticed, in one line; None when it survives. Raises ValueError when it cannot be made."""
    if is_test(guard.killed_by):
        return _fails(guard)
    plan = Plan.parse(guard.killed_by)
    expected(plan.scenario)
    with taken_away(guard):
        return noticed(plan)


def noticed(plan: Plan) -> str | None:
    """What the plan breaks, as the product is now; None when it breaks nothing."""
    runner = Runner(SCENARIOS[plan.scenario], expected(plan.scenario))
    try:
        with small():
            if plan.workers is not None:
                side_by_side.replay(runner, plan, [])
            elif plan.points:
                runner.verify(plan)
            else:
                _ = runner.reference
    except Broken as broken:
        return str(broken).partition("\n")[0]
    return None


def hunt(guard: Guard, scenarios: Iterable[str], kinds: Iterable[str]) -> Iterator[str]:
    """The lines of the plans that kill the mutant, the undisturbed runs first; at most one per scenario and kind."""
    for scenario in scenarios:
        expected(scenario)
    kinds = list(kinds)
    with taken_away(guard):
        for scenario in scenarios:
            plan = Plan(scenario, UNDISTURBED)
            if noticed(plan):
                yield plan.line
        for kind in kinds:
            for scenario in scenarios:
                yield from _first(scenario, kind)


def _first(scenario: str, kind: str) -> Iterator[str]:
    runner = Runner(SCENARIOS[scenario], expected(scenario))
    with small():
        try:
            _ = runner.reference
        except Broken:
            return
        for plan, verify in KINDS[kind](runner):
            try:
                verify()
            except Broken:
                yield plan.line
                return


@cache
def expected(scenario: str) -> End:
    """What the whole product comes to, undisturbed. To be asked before a guard is taken away."""
    with small():
        return Runner(SCENARIOS[scenario]).reference.end


def _fails(guard: Guard) -> str | None:
    """Run a test without the guard, in a process of its own. Raises ValueError when it was not run at all."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.simulation.guards.plugin"]
    done = subprocess.run(
        [*command, guard.killed_by],
        cwd=ROOT,
        env={**os.environ, TAKEN_AWAY: guard.name},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise ValueError(f"{guard.killed_by} was not run:\n{done.stdout}{done.stderr}")
    return None if done.returncode == 0 else f"{guard.killed_by} fails"
