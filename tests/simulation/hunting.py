"""Which plan notices that a guard is gone.

A mutant is killed when a promise breaks, or when a run ends otherwise than the product's undisturbed run does.
"""

from __future__ import annotations

import gc
import io
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache

import pytest

from tests.simulation import side_by_side, state
from tests.simulation.enumerator import KINDS
from tests.simulation.mutation import Guard, taken_away
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.running import End, Runner
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.small import small
from tests.simulation.watching import SharedSink

UNDISTURBED = "undisturbed"

# What is imported already cannot be rewritten once more, and need not be.
_QUIETLY = ("-q", "-p", "no:cacheprovider", "--tb=short", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def is_test(line: str) -> bool:
    """Whether it is a test and no plan that kills."""
    return line.startswith("tests/")


def kill(guard: Guard) -> str | None:
    """How the mutant is noticed, in one line; None when it survives. Raises ValueError when it cannot be made."""
    if is_test(guard.killed_by):
        return _fails(guard)
    plan = Plan.parse(guard.killed_by)
    expected(plan.scenario)
    with without(guard):
        return noticed(plan)


@contextmanager
def without(guard: Guard) -> Iterator[None]:
    """The product without the guard, and nothing remembered of what one of the two has read."""
    with taken_away(guard):
        _forget()
        yield
    _forget()


def _forget() -> None:
    SharedSink.forget()
    state.forget()


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
    with without(guard):
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


def import_tests(lines: Iterable[str]) -> None:
    """Collect the files of the tests among these, so that forks of this process find them imported."""
    files = sorted({line.partition("::")[0] for line in lines if is_test(line)})
    with redirect_stdout(io.StringIO()):
        pytest.main([*_QUIETLY, "--collect-only", *files])
    # Each run of pytest collects garbage several times, and need not look through what stays.
    gc.freeze()


def _fails(guard: Guard) -> str | None:
    """Run a test without the guard, in a fork of this process. Raises ValueError when it was not run at all."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        logging.disable(logging.NOTSET)
        with os.fdopen(writer, "w") as told, redirect_stdout(io.StringIO()) as output:
            with taken_away(guard):
                code = pytest.main([*_QUIETLY, guard.killed_by])
            told.write(_reason(output.getvalue()))
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as tells:
        reason = tells.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise ValueError(f"{guard.killed_by} was not run: {reason}")
    return None if code == pytest.ExitCode.OK else reason


def _reason(output: str) -> str:
    """The first line of an error, or the last one of all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line.removeprefix("E").strip() for line in lines if line.startswith("E  ")), lines[-1])
