"""Every fault of every scenario, on purpose: no promise is broken, every end is that of the undisturbed run."""

from __future__ import annotations

import os

import pytest

from tests.simulation.__main__ import enumerate_all, replay
from tests.simulation.enumerator import KINDS
from tests.simulation.report import Share
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.soak import soak

STEPS = 300
SEED = 20_26


@pytest.fixture(scope="session")
def shares() -> dict[tuple[str, str], Share]:
    """What became of every plan."""
    done = enumerate_all(list(SCENARIOS), list(KINDS), os.cpu_count() or 1)
    return {(share.scenario, share.kind): share for share in done}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_plan_breaks_a_promise(shares: dict[tuple[str, str], Share], scenario: str, kind: str) -> None:
    share = shares[scenario, kind]
    assert not share.violations, "\n".join(share.violations[:5])
    assert share.run == share.enumerated
    # The only write of some runs is their last call, so that some kinds have no plan there.
    assert share.run or kind in ("pairs", "crashes", "stale", "queue", "workers")


def test_several_faults_in_one_run_break_none_either(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak(list(SCENARIOS.values()), SEED, steps=STEPS) == 0, capsys.readouterr().out


def test_a_plan_is_replayed_from_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay("recreated/crashes/c3:after+gone") == 0
    told = capsys.readouterr().out
    assert "get compositions shop" in told
    assert told.endswith("no promise is broken\n")
