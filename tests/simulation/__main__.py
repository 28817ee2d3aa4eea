"""`python -m tests.simulation`: enumerate the plans and run all of them, or replay one from its line.

Ends with 0 when every plan was run and no promise was broken, or when every mutant was killed.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from typing import TypeVar

from tests.simulation import side_by_side
from tests.simulation.enumerator import KINDS
from tests.simulation.guards import GUARDS
from tests.simulation.hunting import hunt, import_tests, kill
from tests.simulation.plans import Plan
from tests.simulation.promises import Broken
from tests.simulation.report import Mutant, Share, by_kind, by_mutant, by_scenario
from tests.simulation.running import Runner
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.small import small
from tests.simulation.soak import soak

T = TypeVar("T")


def run(task: tuple[str, str]) -> Share:
    """Run every plan of one scenario and kind."""
    logging.disable()
    scenario, kind = task
    began = time.process_time()
    runner = Runner(SCENARIOS[scenario])
    share = Share(scenario, kind)
    with small():
        for plan, verify in KINDS[kind](runner):
            share.enumerated += 1
            try:
                verify()
            except Broken as broken:
                share.violations.append(f"{plan.line}\n    {broken}")
            share.run += 1
    share.seconds = time.process_time() - began
    return share


def enumerate_all(scenarios: Sequence[str], kinds: Sequence[str], processes: int) -> list[Share]:
    """Every share, the ones that take longest first, so that the processes end together."""
    tasks = [(scenario, kind) for kind in sorted(kinds, key=lambda each: each != "pairs") for scenario in scenarios]
    with get_context("fork").Pool(processes) as pool:
        return list(_told(pool.imap_unordered(run, tasks, chunksize=1), len(tasks), "parts"))


def try_mutant(name: str) -> Mutant:
    """Take one guard away and run the plan, or the test, that is known to miss it. Raises ValueError, with its name."""
    logging.disable()
    try:
        return Mutant(GUARDS[name], kill(GUARDS[name]))
    except Exception as error:
        raise ValueError(f"without {name!r}: {type(error).__name__}: {error}") from error


def try_mutants(names: Sequence[str], processes: int) -> list[Mutant]:
    """Every mutant, in the order of the names."""
    lines = [GUARDS[name].killed_by for name in names]
    with get_context("fork").Pool(processes, import_tests, [lines]) as pool:
        return list(_told(pool.imap(try_mutant, names, chunksize=1), len(names), "mutants"))


def _told(results: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The results; where a person watches, how many there are so far."""
    for done, each in enumerate(results, 1):
        if sys.stderr.isatty():
            print(f"\r{done} of {total} {what}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        yield each


def _mutants(part: str, processes: int) -> int:
    mutants = try_mutants([name for name in GUARDS if part in name], processes)
    killed = sum(each.how is not None for each in mutants)
    print(by_mutant(mutants), f"\n{killed} of {len(mutants)} mutants killed", sep="\n")
    return 0 if killed == len(mutants) else 1


def _hunt(name: str, scenarios: Sequence[str], kinds: Sequence[str]) -> int:
    """Print the plans that kill a mutant as they are found; 1 when there is none."""
    logging.disable()
    found = 0
    for found, line in enumerate(hunt(GUARDS[name], scenarios, kinds), 1):  # noqa: B007
        print(line, flush=True)
    return 0 if found else 1


def replay(line: str) -> int:
    """Print every read and write of one plan, up to the broken promise if one is."""
    logging.disable()
    plan = Plan.parse(line)
    runner = Runner(SCENARIOS[plan.scenario])
    trace: list[str] = []
    try:
        with small():
            if plan.workers is not None:
                side_by_side.replay(runner, plan, trace)
            else:
                machine = runner.reference.snapshots[0].fork(plan.faults())
                machine.trace = trace
                runner.compare(plan, machine.run())
    except Broken as broken:
        print(*trace, broken, sep="\n")
        return 1
    print(*trace, "no promise is broken", sep="\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Every fault, on purpose.")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only this one; repeatable")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind of plan; repeatable")
    parser.add_argument("--replay", metavar="LINE", help="run one plan and tell every read and write")
    parser.add_argument("--mutants", metavar="PART", nargs="?", const="", help="take guards away whose name has PART")
    parser.add_argument("--hunt", metavar="GUARD", choices=GUARDS, help="find the plans that miss this guard")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, help="random search with longer schedules, for so long")
    parser.add_argument("--seed", type=int, help="of the random search; default: another one each time")
    options = parser.parse_args(arguments)
    if options.replay:
        return replay(options.replay)
    if options.mutants is not None:
        return _mutants(options.mutants, options.processes)
    if options.hunt:
        return _hunt(options.hunt, options.scenario or list(SCENARIOS), options.kind or list(KINDS))
    if options.seconds:
        seed = random.randrange(2**32) if options.seed is None else options.seed  # noqa: S311
        return soak(list(SCENARIOS.values()), seed, seconds=options.seconds)
    began = time.monotonic()
    shares = enumerate_all(options.scenario or list(SCENARIOS), options.kind or list(KINDS), options.processes)
    print(by_scenario(shares), by_kind(shares), sep="\n\n")
    plans, seconds = sum(each.run for each in shares), sum(each.seconds for each in shares)
    violations = [line for each in shares for line in each.violations]
    print(
        f"\n{plans:,} plans run of {sum(each.enumerated for each in shares):,} enumerated, {len(violations)} violations"
    )
    print(f"{plans / seconds:,.0f} plans per second and core, {time.monotonic() - began:.0f} s")
    for line in violations[:20]:
        print(f"\n{line}\n    replay: python -m tests.simulation --replay '{line.splitlines()[0]}'")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
