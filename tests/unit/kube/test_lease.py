"""One candidate at a time, on the in-memory store: what it writes, and what it makes of whatever the server says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.errors import (
    ApiError,
    BadResponse,
    Forbidden,
    Invalid,
    NamespaceTerminating,
    NotFound,
    NotServed,
    Refused,
    Retryable,
    ServerError,
    Throttled,
    TimedOut,
    Unauthorized,
    Unreachable,
    UsageError,
)
from kube.cluster import Cluster, Json
from kube.election import Timing
from kube.lease import Candidate, process_identity, uptime
from kube.resources import LEASES, NAMESPACES

NAMESPACE, NAME = "default", "sexton-watcher"
TIMING = Timing()
READS, WRITES = ("get",), ("create", "update")


@dataclass
class Faulty:
    """A `Cluster` that does what `before` and `after` say around each call, by its verb."""

    inner: Cluster
    before: dict[str, Callable[[], object]] = field(default_factory=dict)
    after: dict[str, Callable[[], object]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, verb: str) -> Callable[..., object]:
        def call(*arguments: Any) -> object:
            self.calls.append(verb)
            self.before.get(verb, lambda: None)()
            answer = getattr(self.inner, verb)(*arguments)
            self.after.get(verb, lambda: None)()
            return answer

        return call


def failing(error: ApiError) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


class World:
    """A store, a clock that moves when it is told to, and candidates."""

    def __init__(self) -> None:
        self.cluster = DirectCluster(Store())
        self.faults = Faulty(self.cluster)
        self.now = 1000.0
        self.first = self.candidate("first", cast("Cluster", self.faults))
        self.second = self.candidate("second")

    def candidate(self, identity: str, cluster: Cluster | None = None, namespace: str = NAMESPACE) -> Candidate:
        return Candidate(
            cluster or self.cluster,
            namespace,
            NAME,
            TIMING,
            identity=identity,
            clock=lambda: self.now,
            wall=lambda: datetime.fromtimestamp(self.now, UTC),
            draw=lambda: 0.0,
        )

    def lease(self) -> Json:
        return self.cluster.get(LEASES, NAMESPACE, NAME)

    def write(self, **spec: Any) -> None:
        """As a person does."""
        self.cluster.merge_patch(LEASES, NAMESPACE, NAME, {"spec": spec})

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Until:
    """Stops at an instant of the world's clock, which moves while somebody waits."""

    world: World
    end: float

    def is_set(self) -> bool:
        return self.world.now >= self.end

    def wait(self, timeout: float) -> bool:
        self.world.pass_seconds(max(timeout, 0.001))
        return self.is_set()


@pytest.fixture
def world() -> World:
    return World()


def test_whoever_comes_first_leads_at_once(world: World) -> None:
    assert world.first.round() == TIMING.retry_period
    world.second.round()
    assert (world.first.leads, world.second.leads) == (True, False)
    spec = world.lease()["spec"]
    assert spec == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
        "acquireTime": "1970-01-01T00:16:40.000000Z",
        "renewTime": "1970-01-01T00:16:40.000000Z",
    }


def test_a_renewal_prolongs_the_term(world: World) -> None:
    world.first.round()
    for _ in range(20):
        world.pass_seconds(9.9)
        world.first.round()
        assert world.first.leads


def test_a_term_counts_from_before_the_write_went_out(world: World) -> None:
    world.faults.after["create"] = lambda: world.pass_seconds(6)
    world.first.round()
    world.pass_seconds(3.9)
    assert world.first.leads
    world.pass_seconds(0.1)
    assert not world.first.leads


def test_an_observation_counts_from_after_the_answer_came_in(world: World) -> None:
    world.second.round()
    world.faults.after["get"] = lambda: world.pass_seconds(6)
    world.first.round()
    del world.faults.after["get"]
    world.pass_seconds(14.9)
    world.first.round()
    assert not world.first.leads
    world.pass_seconds(0.1)
    world.first.round()
    assert world.first.leads


def test_a_dead_leader_is_followed_after_its_lease_and_a_retry(world: World) -> None:
    world.first.round()
    world.second.round()
    died = world.now
    while not world.second.leads:
        world.pass_seconds(world.second.round())
    assert world.now - died <= TIMING.duration + 2 * TIMING.retry_period
    assert world.lease()["spec"]["leaseTransitions"] == 1


def test_a_leader_that_notices_nothing_leads_no_longer_than_its_term(world: World) -> None:
    world.first.round()
    world.pass_seconds(TIMING.renew_deadline)
    assert not world.first.leads
    with pytest.raises(Retryable, match="lease default/sexton-watcher: no longer leading"):
        world.first.require()


def test_a_leader_that_was_stopped_for_long_has_lost_it_whoever_has_it_now(world: World) -> None:
    world.first.round()
    world.pass_seconds(60)
    with pytest.raises(Retryable, match="was not renewed for 60 s") as caught:
        world.first.round()
    assert caught.value.exit_code == 75
    with pytest.raises(Retryable):
        world.first.require()


def test_a_stolen_lease_is_lost_at_the_next_look_and_for_good(world: World) -> None:
    world.first.round()
    world.write(holderIdentity="thief")
    with pytest.raises(Retryable, match="thief holds it"):
        world.first.round()
    assert not world.first.leads
    world.write(holderIdentity="first")
    with pytest.raises(Retryable, match="thief holds it"):
        world.first.require()


def test_whoever_never_led_is_told_that_somebody_else_does(world: World) -> None:
    with pytest.raises(Retryable, match="somebody else leads"):
        world.second.require()


def test_a_lease_that_was_deleted_is_made_again_by_its_holder(world: World) -> None:
    world.first.round()
    world.second.round()
    world.cluster.delete(LEASES, NAMESPACE, NAME)
    world.second.round()
    world.pass_seconds(2)
    world.first.round()
    assert (world.first.leads, world.second.leads) == (True, False)
    assert world.lease()["spec"]["holderIdentity"] == "first"


def test_of_two_that_find_none_one_makes_it(world: World) -> None:
    world.faults.before["create"] = lambda: world.second.round()
    world.first.round()
    assert (world.first.leads, world.second.leads) == (False, True)
    assert world.first.obstacle is None, "that is no failure"


def test_of_two_that_find_it_expired_one_takes_it(world: World) -> None:
    world.candidate("dead").round()
    world.first.round()
    world.second.round()
    world.pass_seconds(15)
    world.faults.before["update"] = lambda: world.second.round()
    world.first.round()
    assert (world.first.leads, world.second.leads) == (False, True)
    assert world.first.obstacle is None, "that is no failure"
    assert world.lease()["spec"]["holderIdentity"] == "second"


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_claim_without_an_answer_is_settled_by_the_next_look(world: World, carried_out: bool) -> None:
    lost = failing(TimedOut("update leases"))
    (world.faults.after if carried_out else world.faults.before)["create"] = lost
    world.first.round()
    assert not world.first.leads
    world.faults.after.clear()
    world.faults.before.clear()
    world.first.round()
    assert world.first.leads


PASSING: list[ApiError] = [
    Throttled("get leases", status=429, reason="TooManyRequests", retry_after=1),
    ServerError("get leases", status=500, reason="InternalError"),
    ServerError("get leases", status=503),
    Unreachable("get leases", reason="Refused"),
    TimedOut("get leases", reason="Read"),
    Unauthorized("get leases", status=401),
    NotServed("get leases", status=404),
    BadResponse("get leases", status=200, reason="NotJson"),
    Refused("get leases", status=400),
    Invalid("get leases", status=422),
]


@pytest.mark.parametrize("verbs", [READS, WRITES], ids=["read", "write"])
@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__} {error.status}")
def test_a_failure_is_waited_out_and_told_once(
    world: World, error: ApiError, verbs: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    world.faults.before.update(dict.fromkeys(verbs, failing(error)))
    with caplog.at_level(logging.INFO):
        for _ in range(10):
            assert world.first.round() >= TIMING.retry_period
        assert world.first.obstacle is error
        world.faults.before.clear()
        world.first.round()
    assert world.first.leads
    assert world.first.obstacle is None
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert actions == ["lease-wait", "lease-acquired", "lease-answered"]


@pytest.mark.parametrize("verb", ["get", "update"])
@pytest.mark.parametrize(
    "error", [*PASSING, Forbidden("get leases", status=403)], ids=lambda error: type(error).__name__
)
def test_a_leader_that_cannot_renew_has_lost_at_the_deadline_and_not_before(
    world: World, error: ApiError, verb: str
) -> None:
    world.first.round()
    started = world.now
    world.faults.before[verb] = failing(error)
    with pytest.raises(Retryable, match="not renewed for 10 s"):
        world.first.run(Until(world, started + 11), beat=lambda: None)
    assert world.now - started == pytest.approx(TIMING.renew_deadline, abs=0.01)
    assert not world.first.leads


def test_a_pause_that_the_server_asks_for_is_kept_to(world: World) -> None:
    world.faults.before["get"] = failing(Throttled("get leases", status=429, retry_after=30))
    assert world.first.round() == 30


def test_a_leader_that_is_asked_for_a_pause_looks_once_more_within_its_term(world: World) -> None:
    world.first.round()
    world.pass_seconds(2)
    world.faults.before["get"] = failing(Throttled("get leases", status=429, retry_after=30))
    assert world.first.round() == 6


def test_who_leads_is_known_as_soon_as_the_server_says_so_and_no_sooner(world: World) -> None:
    world.faults.before["get"] = failing(Unreachable("get leases"))
    world.first.round()
    assert not world.first.answered
    world.faults.before.clear()
    world.first.round()
    assert world.first.answered


DENIED: list[ApiError] = [
    Forbidden("get leases.coordination.k8s.io default/x", status=403, reason="Forbidden", hint="grant the permission"),
    NamespaceTerminating("create leases.coordination.k8s.io default", status=403, reason="Forbidden"),
]


@pytest.mark.parametrize("verb", ["get", "create"])
@pytest.mark.parametrize("error", DENIED, ids=lambda error: type(error).__name__)
def test_who_may_not_take_part_says_so_and_ends(world: World, error: ApiError, verb: str) -> None:
    world.faults.before[verb] = failing(error)
    with pytest.raises(type(error)) as caught:
        world.first.round()
    assert caught.value is error


def test_a_namespace_that_does_not_exist_is_a_persons_mistake(world: World) -> None:
    with pytest.raises(UsageError, match="lease nowhere/sexton-watcher: there is no namespace nowhere; create it, or"):
        world.candidate("a", namespace="nowhere").round()


def test_a_leader_whose_namespace_went_has_lost_at_the_deadline(world: World) -> None:
    world.cluster.create(NAMESPACES, None, {"metadata": {"name": "brief"}})
    leader = world.candidate("a", namespace="brief")
    leader.round()
    world.cluster.delete(LEASES, "brief", NAME)
    world.cluster.delete(NAMESPACES, None, "brief")
    leader.round()
    world.pass_seconds(10)
    with pytest.raises(Retryable, match="not renewed"):
        leader.round()


def test_a_namespace_that_is_gone_while_one_leads_is_no_mistake_of_a_person(world: World) -> None:
    world.first.round()
    world.cluster.delete(LEASES, NAMESPACE, NAME)
    world.faults.before["create"] = failing(NotFound("create leases", status=404))
    world.first.round()
    assert world.first.leads


def test_a_released_lease_is_taken_at_the_next_look(world: World) -> None:
    world.first.round()
    world.second.round()
    world.first.release()
    assert not world.first.leads
    spec = world.lease()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
    world.second.round()
    assert world.second.leads
    assert world.lease()["spec"]["leaseTransitions"] == 1


def test_who_does_not_lead_releases_nothing_and_asks_nobody(world: World) -> None:
    world.second.round()
    world.first.round()
    before = world.lease()
    world.faults.calls.clear()
    world.first.release()
    assert (world.lease(), world.faults.calls) == (before, [])


def test_who_has_lost_releases_nothing_and_asks_nobody(world: World) -> None:
    world.first.round()
    world.write(holderIdentity="thief")
    with pytest.raises(Retryable):
        world.first.round()
    world.faults.calls.clear()
    world.first.release()
    assert world.faults.calls == []


def test_a_lease_that_is_no_longer_ours_is_not_released(world: World) -> None:
    world.first.round()
    world.write(holderIdentity="thief")
    world.first.release()
    assert world.lease()["spec"]["holderIdentity"] == "thief"


def test_a_lease_that_is_taken_during_its_release_stays_taken(world: World) -> None:
    world.first.round()
    world.faults.after["get"] = lambda: world.write(holderIdentity="thief")
    world.first.release()
    assert world.lease()["spec"]["holderIdentity"] == "thief"


@pytest.mark.parametrize("verb", ["get", "update"])
def test_a_release_that_fails_ends_nothing(world: World, verb: str) -> None:
    world.first.round()
    world.faults.before[verb] = failing(Unreachable("update leases"))
    world.first.release()
    assert not world.first.leads


def test_it_runs_until_it_is_told_to_stop(world: World) -> None:
    beats: list[float] = []
    world.first.run(Until(world, world.now + 5), beat=lambda: beats.append(world.now))
    assert beats == [1000, 1002, 1004]
    assert world.faults.calls == ["get", "create", "get", "update", "get", "update"]


def test_no_two_processes_have_one_name() -> None:
    assert process_identity() != process_identity()


def test_its_own_clock_goes_on() -> None:
    assert uptime() <= uptime()
