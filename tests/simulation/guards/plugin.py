"""A plugin of pytest: the whole run does without one guard, named by SEXTON_TEST_TAKEN_AWAY."""

from __future__ import annotations

import os

import pytest

from tests.simulation.guards import GUARDS
from tests.simulation.hunting import TAKEN_AWAY
from tests.simulation.mutation import taken_away


def pytest_configure(config: pytest.Config) -> None:
    """Take it away until the run ends."""
    without = taken_away(GUARDS[os.environ[TAKEN_AWAY]])
    without.__enter__()
    config.add_cleanup(lambda: without.__exit__(None, None, None))
