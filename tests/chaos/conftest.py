"""One deployment per test, audited from its first object to its last."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eno.retention import YOUNG
from kube.cluster import Json
from kube.config import load_connection
from kube.http import HttpCluster
from tests.chaos.audit import Auditor, auditing, decisions, touch_everything, unfinished
from tests.chaos.population import Population, reconciling
from tests.support.factories import NAMESPACE
from tests.support.rig import UNHURRIED, Process, Rig, running_rig

SECONDS = 400.0
"""Until everything is finished, on a machine that is very busy."""

LOOK_SECONDS = 0.5
"""Between two looks at whether everything is finished, each of which lists everything."""

AHEAD = YOUNG * 2
"""What waits for a slice to be no longer young is not finished."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for hundreds of compositions may take longer than other tests."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(900))


@dataclass
class Site:
    """A rig, what it looks after, and who watches over it."""

    rig: Rig
    population: Population
    auditor: Auditor

    def until_finished(self, *parts: Process, seconds: float = SECONDS) -> None:
        """Until no message is left and a watcher that starts now or soon would send none."""
        deadline = time.monotonic() + seconds
        while left := self._unfinished():
            assert time.monotonic() < deadline, f"after {seconds:.0f} s there is left to do: {left[:10]}"
            for part in parts:
                assert part.running, f"{part.log.name} ended: {part.text[-2000:]}"
            time.sleep(LOOK_SECONDS)

    def check(self, *parts: Process) -> None:
        """Everything is finished, every promise was kept, and one more event for every object changes nothing.

        `parts` are what runs: a watcher, and all workers.
        """
        self.until_finished(*parts)
        assert sorted(decisions(self.rig.cluster, NAMESPACE)) == sorted(self.population.names)
        assert self.auditor.violations() == []
        before = len(self.rig.writes())
        gated = counts(ended(parts, task="gate"))
        touch_everything(self.rig.cluster, [NAMESPACE])
        again = gated + Counter(self.population.names)
        self.rig.until(lambda: again <= counts(ended(parts, task="gate")), "all were looked at", *parts)
        self.until_finished(*parts)
        assert self.rig.writes()[before:] == []

    def _unfinished(self) -> list[str]:
        if not self.rig.drained():
            return ["messages in the queues"]
        scope = self.rig.settings.scope
        left = [message.key for message in unfinished(self.rig.cluster, scope, ahead=AHEAD)]
        return left or ([] if self.rig.drained() else ["messages in the queues"])


def ended(parts: tuple[Process, ...], **fields: str) -> list[Json]:
    """The ends of tasks in the logs, with these fields."""
    return [line for part in parts for line in part.lines("task-ended") if fields.items() <= line.items()]


def counts(lines: list[Json]) -> Counter[str]:
    """How many of these lines are about each composition."""
    return Counter(line["composition"].partition("/")[2] for line in lines if "composition" in line)


def names(lines: list[Json]) -> set[str]:
    """The compositions that these lines are about."""
    return set(counts(lines))


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Site]:
    """A rig in which nothing runs yet but the API server and Redis."""
    with running_rig(tmp_path) as rig:
        following = HttpCluster(load_connection(str(rig.kubeconfig)), user_agent="auditor", limits=UNHURRIED)
        with auditing(following) as auditor:
            yield Site(rig, Population(rig.cluster), auditor)


@pytest.fixture
def site(still: Site) -> Iterator[Site]:
    """The same, and what stands in for Eno."""
    with reconciling(still.rig.cluster):
        yield still
