"""Leases, by which one watcher leads: the lock, the times, and what is refused."""

from __future__ import annotations

import pytest

from kube.cluster import Json
from kube.resources import LEASES
from tests.contract.refusals import BAD_REQUEST, CONFLICT, INVALID
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
