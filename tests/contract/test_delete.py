"""Deletion: preconditions, finalizers, the second delete, and the end of an object."""

from __future__ import annotations

import json

import pytest

from kube.cluster import Json
from kube.resources import SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import CONFLICT, INVALID, NOT_FOUND
from tests.contract.space import Space

OTHER_UID = "11111111-2222-3333-4444-555555555555"
HOLD = ["example.com/one", "example.com/two"]


@pytest.fixture
def created(space: Space) -> Json:
    return space.probe(text="x")


@pytest.fixture
def held(space: Space) -> Json:
    """A Probe with two finalizers that is being deleted."""
    space.create(PROBES, with_metadata(probe(text="x"), finalizers=HOLD))
    space.delete(PROBES)
    return space.get(PROBES)


@pytest.mark.usefixtures("created")
def test_without_finalizers_it_is_gone_at_once(space: Space) -> None:
    space.delete(PROBES)
    assert space.refused(lambda h: h.get(PROBES)).summary == NOT_FOUND
    assert space.refused(lambda h: h.delete(PROBES)).summary == NOT_FOUND
    assert space.state() == []


def test_a_delete_that_removed_it_answers_with_its_uid(space: Space, created: Json) -> None:
    reply = space.ask("DELETE", PROBES, "a")
    assert (reply.code, reply.status["status"]) == (200, "Success")
    details = {"name": "a", "group": PROBES.group, "kind": PROBES.plural, "uid": created["metadata"]["uid"]}
    assert reply.status["details"] == details


def test_a_recreated_object_is_another_one(space: Space, created: Json) -> None:
    space.delete(PROBES)
    recreated = space.probe(text="x")
    assert recreated["metadata"]["uid"] != created["metadata"]["uid"]
    assert int(recreated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


def test_preconditions_that_hold_let_the_delete_through(space: Space, created: Json) -> None:
    metadata = created["metadata"]
    space.delete(PROBES, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert space.state() == []


@pytest.mark.parametrize(
    "preconditions",
    [{"uid": OTHER_UID}, {"resource_version": "1"}, {"uid": OTHER_UID, "resource_version": "1"}],
    ids=["another uid", "an older version", "both"],
)
@pytest.mark.parametrize("kind", [PROBES, SECRETS], ids=lambda kind: str(kind.kind))
def test_preconditions_that_fail_change_nothing(space: Space, kind: object, preconditions: dict[str, str]) -> None:
    space.probe()
    space.create(SECRETS, {"metadata": {"name": "a"}})
    refused = space.refused(lambda h: h.delete(kind, **preconditions))  # type: ignore[arg-type]
    assert refused.summary == CONFLICT


def test_a_uid_that_holds_does_not_make_up_for_an_older_version(space: Space, created: Json) -> None:
    space.merge_patch(PROBES, {"spec": {"text": "y"}})
    metadata = created["metadata"]
    refused = space.refused(
        lambda h: h.delete(PROBES, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    )
    assert refused.summary == CONFLICT


def test_preconditions_are_also_looked_at_when_nothing_is_there(space: Space) -> None:
    assert space.refused(lambda h: h.delete(PROBES, uid=OTHER_UID)).summary == NOT_FOUND


def test_with_finalizers_it_is_only_marked(space: Space) -> None:
    created = space.create(PROBES, with_metadata(probe(text="x"), finalizers=HOLD))
    space.delete(PROBES)
    metadata = space.get(PROBES)["metadata"]
    assert metadata["finalizers"] == HOLD
    assert metadata["deletionTimestamp"] >= created["metadata"]["creationTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == created["metadata"]["generation"] + 1
    assert metadata["resourceVersion"] != created["metadata"]["resourceVersion"]


def test_a_delete_that_only_marked_it_answers_with_the_object(space: Space) -> None:
    space.create(PROBES, with_metadata(probe(), finalizers=HOLD))
    reply = space.ask("DELETE", PROBES, "a")
    assert (reply.code, reply.json) == (200, space.get(PROBES))


def test_a_second_delete_changes_nothing(space: Space, held: Json) -> None:
    space.delete(PROBES)
    assert space.get(PROBES) == held


def test_preconditions_hold_for_a_second_delete_as_well(space: Space, held: Json) -> None:
    assert space.refused(lambda h: h.delete(PROBES, uid=OTHER_UID)).summary == CONFLICT
    space.delete(PROBES, uid=held["metadata"]["uid"])
    assert space.get(PROBES) == held


def test_it_goes_with_its_last_finalizer(space: Space, held: Json) -> None:
    one = space.merge_patch(PROBES, {"metadata": {"finalizers": HOLD[1:]}})
    assert one["metadata"]["finalizers"] == HOLD[1:]
    last = space.merge_patch(PROBES, {"metadata": {"finalizers": None}})
    assert last["metadata"]["uid"] == held["metadata"]["uid"]
    assert space.state() == []


@pytest.mark.parametrize("how", ["update", "json patch"])
def test_the_last_finalizer_may_go_by_any_write(space: Space, held: Json, how: str) -> None:
    if how == "update":
        space.update(PROBES, with_metadata(held, finalizers=None))
    else:
        space.json_patch(PROBES, {"op": "remove", "path": "/metadata/finalizers"})
    assert space.state() == []


@pytest.mark.usefixtures("held")
def test_while_it_goes_no_finalizer_can_be_added(space: Space) -> None:
    more = {"metadata": {"finalizers": [*HOLD, "example.com/three"]}}
    refused = space.refused(lambda h: h.merge_patch(PROBES, more))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("metadata.finalizers", "FieldValueForbidden")])


def test_while_it_goes_everything_else_can_still_be_written(space: Space, held: Json) -> None:
    assert space.merge_patch(PROBES, {"spec": {"text": "y"}})["metadata"]["generation"] == 3
    patched = space.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status")
    assert patched["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]


def test_a_deletion_cannot_be_taken_back(space: Space, held: Json) -> None:
    updated = space.update(PROBES, with_metadata(held, deletionTimestamp=None, deletionGracePeriodSeconds=None))
    assert updated == held


def test_a_write_to_the_status_never_ends_it(space: Space, held: Json) -> None:
    body = with_metadata(held, finalizers=None) | {"status": {"uuid": "u"}}
    assert space.update(PROBES, body, subresource="status")["metadata"]["finalizers"] == HOLD


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
)
def test_propagation_leaves_a_finalizer_for_the_garbage_collector(
    space: Space, created: Json, policy: str, finalizers: list[str]
) -> None:
    # A dependent that blocks keeps a collector from being done at once, where there is one.
    owner = {"apiVersion": PROBES.api_version, "kind": "Probe", "name": "a", "uid": created["metadata"]["uid"]}
    dependent = with_metadata(probe("b"), ownerReferences=[owner | {"blockOwnerDeletion": True}], finalizers=HOLD)
    space.create(PROBES, dependent)
    reply = space.ask("DELETE", PROBES, "a", body=json.dumps({"propagationPolicy": policy}).encode())
    assert (reply.code, reply.json["metadata"]["finalizers"]) == (200, finalizers)
    assert "deletionTimestamp" in reply.json["metadata"]


@pytest.mark.usefixtures("created")
def test_background_propagation_removes_it_at_once(space: Space) -> None:
    reply = space.ask("DELETE", PROBES, "a", "propagationPolicy=Background")
    assert (reply.code, reply.status["status"]) == (200, "Success")
    assert space.state() == []


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        pytest.param("propagationPolicy=Sideways", None, 422, id="an unknown policy"),
        pytest.param("", b"{", 400, id="no JSON"),
        pytest.param("", b'{"kind":"Other","apiVersion":"v1"}', 400, id="another kind"),
        pytest.param("dryRun=Some", None, 422, id="an unknown dry run"),
    ],
)
def test_a_delete_with_unusable_options_is_refused(
    space: Space, created: Json, query: str, body: bytes | None, code: int
) -> None:
    assert space.ask("DELETE", PROBES, "a", query, body).code == code
    assert space.get(PROBES) == created


def test_a_dry_run_deletes_nothing(space: Space, created: Json) -> None:
    assert space.ask("DELETE", PROBES, "a", "dryRun=All").code == 200
    assert space.get(PROBES) == created


def test_a_collection_is_deleted_by_selector(space: Space) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        space.create(PROBES, with_metadata(probe(name), labels={"color": color}))
    reply = space.ask("DELETE", PROBES, query="labelSelector=color%3Dred")
    assert reply.code == 200
    assert space.names(PROBES) == ["b"]


def test_a_status_cannot_be_deleted(space: Space, created: Json) -> None:
    reply = space.ask("DELETE", PROBES, "a/status")
    assert (reply.code, reply.reason) == (405, "MethodNotAllowed")
    assert space.get(PROBES) == created
