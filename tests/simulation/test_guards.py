"""No guard of the product is there for nothing: without it a promise breaks, and somebody notices."""

from __future__ import annotations

import os

import pytest

from tests.simulation.__main__ import try_mutants
from tests.simulation.guards import GUARDS
from tests.simulation.mutation import Guard, taken_away
from tests.simulation.report import Mutant


@pytest.fixture(scope="module")
def mutants() -> dict[str, Mutant]:
    """What became of every one."""
    return {each.guard.name: each for each in try_mutants(list(GUARDS), os.cpu_count() or 1)}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_something_breaks(mutants: dict[str, Mutant], name: str) -> None:
    assert mutants[name].how is not None, f"nobody misses it: {GUARDS[name].where}, {GUARDS[name].killed_by}"


def test_a_guard_that_is_not_where_it_was_is_told() -> None:
    guard = Guard("gone", "eno.decision:recovery_required", "if nothing of the kind", "if True", "first//")
    with pytest.raises(ValueError, match="not once"), taken_away(guard):
        pass
