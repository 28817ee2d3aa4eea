"""An API server that is away for an hour: on a virtual clock, with everything but the processes real."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from types import SimpleNamespace

import fakeredis
import pytest

from eno.decision import finished
from eno.errors import Unreachable
from kube.cluster import list_all
from runtime.backoff import LONGEST_SECONDS
from runtime.claims import Claims
from runtime.dispatch import Dispatcher
from runtime.messages import Message
from tests.support.factories import manifest, synthesis
from tests.support.hints import Outbox
from tests.support.tally import Tally
from tests.support.tap import Call
from tests.support.world import World
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import CacheSink, Follower
from watcher.process import queries
from workers.execution import Executor
from workers.tasks import TASKS

OUTAGE = timedelta(hours=1)
RESYNC = timedelta(seconds=30)
COMPOSITIONS = 12
TICK = timedelta(seconds=1)


class Leader:
    """Leads all the time."""

    def require(self) -> None:
        """See `watcher.follow.Leadership`."""


class Deployment:
    """A watcher and a worker on one clock, with the queue between them in the test's hands."""

    def __init__(self) -> None:
        self.world = World()
        settings = self.world.loaded
        client = fakeredis.FakeRedis(decode_responses=True, server=fakeredis.FakeServer())
        self.outbox = Outbox()
        self.dispatcher = Dispatcher(settings, client, self.outbox, clock=self.world.clock)
        rng = Random(3)  # noqa: S311
        claims = Claims(settings, client, self.dispatcher, rng=rng, clock=self.world.clock)
        self.executor = Executor(settings, claims, lambda: self.world.context, Tally())
        self.cache, self.agenda = Cache(), Agenda()
        self.follower = Follower(
            settings.scope,
            self.cache,
            self.agenda,
            self.dispatcher,
            leadership=Leader(),
            clock=self.world.clock,
            resync=RESYNC,
        )
        self.executions: list[tuple[datetime, Message]] = []
        self.most_pending = 0

    def list_all(self) -> None:
        """What a relist shows the watcher."""
        scope = self.world.loaded.scope
        for kind, query in queries(scope).items():
            sink = CacheSink(kind, scope, self.cache, self.agenda)
            sink.replace([sink.record(item) for item in list_all(self.world.up, query).items], "1")

    def pass_time(self, duration: timedelta) -> None:
        """Let both work, second by second."""
        end = self.world.clock.now + duration
        while self.world.clock.now < end:
            while self.follower.step() is not None:
                """There is more to look at."""
            pending = Counter(message.key for message in self.outbox.sent)
            self.most_pending = max(self.most_pending, *pending.values(), 0)
            sent, self.outbox.sent = self.outbox.sent, []
            for message in sent:
                self.executions.append((self.world.clock.now, message))
                delivery = str(len(self.executions))
                self.executor.execute(message.task, TASKS[message.task], message.payload(), delivery)
            self.world.clock.now += TICK

    def break_down(self) -> None:
        """From now on no request is answered."""

        def fail(call: Call) -> None:
            raise Unreachable(str(call), reason="ConnectionRefused")

        self.world.upstream.before = self.world.downstream.before = fail

    def heal(self) -> None:
        """From now on every request is."""
        self.world.upstream.before = self.world.downstream.before = None


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A dozen compositions that lack a decision, in an API server that goes away just now."""
    deployment = Deployment()
    clock = deployment.world.clock
    monkeypatch.setattr("fakeredis._socket._base.time", SimpleNamespace(time=lambda: clock.now.timestamp()))
    for number in range(COMPOSITIONS):
        name = f"web-{number}"
        current = synthesis(f"of-{name}", slices=[f"{name}-0"], tombstoneRecoveryRequired=False)
        deployment.world.add_composition(name, current=current)
        deployment.world.add_slice(f"{name}-0", [manifest(name=name)], owner=name)
    deployment.list_all()
    deployment.break_down()
    return deployment


def undecided(deployment: Deployment) -> list[str]:
    names = [f"web-{number}" for number in range(COMPOSITIONS)]
    currents = {name: deployment.world.composition(name).current for name in names}
    return [name for name, current in currents.items() if current is None or not finished(current)]


def test_an_hour_without_an_api_server_piles_nothing_up_and_parks_nothing(deployment: Deployment) -> None:
    deployment.pass_time(OUTAGE)
    assert deployment.most_pending == 1
    assert deployment.dispatcher.parked() == []
    per_key = Counter(message.key for _, message in deployment.executions)
    # The pauses double up to two minutes, of which at least half is waited.
    assert all(30 <= count <= 70 for count in per_key.values())
    assert deployment.world.writes == []


def test_an_outage_is_over_within_one_pause_of_its_end(deployment: Deployment) -> None:
    deployment.pass_time(OUTAGE)
    deployment.heal()
    # And the watcher asks again at most one resync after a pause.
    deployment.pass_time(timedelta(seconds=LONGEST_SECONDS) + RESYNC)
    assert undecided(deployment) == []
    assert deployment.dispatcher.parked() == []
    for number in range(COMPOSITIONS):
        state = deployment.dispatcher.describe(
            f"recover:{deployment.world.composition(f'web-{number}').uid}:of-web-{number}"
        )
        assert state.failures == 0


def test_keys_that_failed_together_do_not_come_back_together(deployment: Deployment) -> None:
    deployment.pass_time(OUTAGE)
    late = [at for at, _ in deployment.executions if at > deployment.world.clock.now - timedelta(minutes=10)]
    assert max(Counter(late).values()) <= COMPOSITIONS / 2
