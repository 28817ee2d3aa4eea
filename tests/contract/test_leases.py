"""Leases, by which one watcher leads: the lock, the times, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eno.errors import NotFound, Retryable
from kube.cluster import Json
from kube.election import Timing
from kube.lease import Candidate
from kube.resources import LEASES
from tests.contract.refusals import ALREADY_EXISTS, BAD_REQUEST, CONFLICT, INVALID
from tests.contract.space import Space

LEASE: Json = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}
NOW = "2026-01-01T00:00:00.000000Z"


def test_a_lease_goes_to_whoever_writes_first(space: Space) -> None:
    created = space.create(LEASES, LEASE | {"spec": {**LEASE["spec"], "renewTime": NOW, "acquireTime": NOW}})
    mine = created | {"spec": created["spec"] | {"holderIdentity": "first"}}
    taken = space.update(LEASES, mine)
    assert taken["spec"]["holderIdentity"] == "first"
    late = created | {"spec": created["spec"] | {"holderIdentity": "second"}}
    assert space.refused(lambda h: h.update(LEASES, late)).summary == CONFLICT
    assert "generation" not in taken["metadata"]


@pytest.mark.parametrize("time", [NOW, "2026-01-01T00:00:00.123456+02:00"], ids=["UTC", "another zone"])
def test_the_times_of_a_lease_have_microseconds(space: Space, time: str) -> None:
    created = space.create(LEASES, LEASE | {"spec": {**LEASE["spec"], "renewTime": time}})
    assert created["spec"]["renewTime"] in (NOW, "2025-12-31T22:00:00.123456Z")


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "now"])
def test_a_lease_takes_no_other_times(space: Space, time: str) -> None:
    body = LEASE | {"spec": {"renewTime": time}}
    assert space.refused(lambda h: h.create(LEASES, body)).summary == BAD_REQUEST


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        pytest.param(
            {"leaseDurationSeconds": 0}, [("spec.leaseDurationSeconds", "FieldValueInvalid")], id="no duration"
        ),
        pytest.param(
            {"leaseTransitions": -1}, [("spec.leaseTransitions", "FieldValueInvalid")], id="transitions below 0"
        ),
    ],
)
def test_a_lease_is_refused(space: Space, spec: Json, causes: list[tuple[str, str]]) -> None:
    refused = space.refused(lambda h: h.create(LEASES, {"metadata": {"name": "b"}, "spec": spec}))
    assert (refused.summary, refused.reply.causes) == (INVALID, causes)


def test_a_lease_is_not_updated_without_a_version(space: Space) -> None:
    space.create(LEASES, LEASE)
    refused = space.refused(lambda h: h.update(LEASES, LEASE))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("metadata.resourceVersion", "FieldValueInvalid")])


def test_a_lease_may_have_no_holder(space: Space) -> None:
    assert space.create(LEASES, {"metadata": {"name": "a"}})["spec"] == {}
    assert space.create(LEASES, {"metadata": {"name": "b"}, "spec": {"holderIdentity": ""}})["spec"] == {
        "holderIdentity": ""
    }


def test_of_two_that_make_a_lease_one_is_told_that_it_exists(space: Space) -> None:
    space.create(LEASES, LEASE)
    assert space.refused(lambda h: h.create(LEASES, LEASE)).summary == ALREADY_EXISTS


def test_a_renewal_does_not_bring_back_a_lease_that_was_deleted(space: Space) -> None:
    held = space.create(LEASES, LEASE)
    space.delete(LEASES)
    refused = space.refused(lambda h: h.update(LEASES, held))
    assert isinstance(refused.error, Retryable)


def test_a_renewal_does_not_meet_another_lease_of_the_same_name(space: Space) -> None:
    held = space.create(LEASES, LEASE)
    space.delete(LEASES)
    space.create(LEASES, LEASE)
    assert space.refused(lambda h: h.update(LEASES, held)).summary == CONFLICT


def test_a_lease_is_not_made_where_there_is_no_namespace(space: Space) -> None:
    nowhere = replace(space, namespace=f"{space.namespace}-nowhere")
    with pytest.raises(NotFound):
        nowhere.get(LEASES)
    with pytest.raises(NotFound):
        nowhere.create(LEASES, LEASE)


def test_candidates_take_turns(space: Space) -> None:
    timing = Timing(2.0, 1.5, 1.0)
    now = [0.0]

    def candidate(name: str) -> Candidate:
        return Candidate(space.cluster, space.namespace, "a", timing, identity=name, clock=lambda: now[0])

    space.written.add(LEASES)
    first, second, third = (candidate(name) for name in ("first", "second", "third"))
    for each in (first, second, third, first):
        each.round()
    assert [each.leads for each in (first, second, third)] == [True, False, False]
    first.release()
    second.round()
    assert [each.leads for each in (first, second)] == [False, True]
    third.round()
    now[0] += 2
    third.round()
    assert [each.leads for each in (second, third)] == [False, True]
    with pytest.raises(Retryable, match="no longer leading"):
        second.round()
    spec = space.get(LEASES)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("third", 2, 2)
