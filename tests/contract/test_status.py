"""The status subresource: each write sees its own half only, and a recovery decision is bound to what it is about."""

from __future__ import annotations

from typing import Any

import pytest

from kube import guards
from kube.cluster import Json
from kube.requests import JSON_PATCH
from tests.contract.kinds import COMPOSITIONS, PLAIN_PROBES, PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST, CONFLICT, INVALID, NOT_FOUND
from tests.contract.space import Space

UUID = ("status", "currentSynthesis", "uuid")
DECISION = ("status", "currentSynthesis", "tombstoneRecoveryStatus")
DECIDED: Json = {"status": True, "reason": "FinishedTombstoneRecovery", "synthesisUUID": "u-1"}


@pytest.fixture
def created(space: Space) -> Json:
    return space.probe(text="x")


@pytest.fixture
def composition(space: Space) -> Json:
    """A composition with a current synthesis."""
    body: Json = {"apiVersion": COMPOSITIONS.api_version, "kind": "Composition", "metadata": {"name": "a"}}
    space.create(COMPOSITIONS, body | {"spec": {"synthesizer": {"name": "s"}}})
    status = {"currentSynthesis": {"uuid": "u-1", "synthesized": "2026-01-01T00:00:00Z"}}
    return space.merge_patch(COMPOSITIONS, {"status": status}, subresource="status")


def test_a_create_drops_the_status(space: Space) -> None:
    assert "status" not in space.create(PROBES, probe(status={"uuid": "u"}))


def test_a_kind_without_the_subresource_keeps_its_status(space: Space) -> None:
    created = space.create(PLAIN_PROBES, probe(kind=PLAIN_PROBES, status={"uuid": "u"}))
    assert created["status"] == {"uuid": "u"}
    patched = space.merge_patch(PLAIN_PROBES, {"status": {"uuid": "v"}})
    assert (patched["status"], patched["metadata"]["generation"]) == ({"uuid": "v"}, 2)


@pytest.mark.usefixtures("created")
def test_a_write_to_the_object_leaves_the_status_alone(space: Space) -> None:
    space.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status")
    patched = space.merge_patch(PROBES, {"spec": {"text": "y"}, "status": {"uuid": "v"}})
    assert (patched["spec"]["text"], patched["status"]) == ("y", {"uuid": "u"})
    updated = space.update(PROBES, patched | {"status": {"uuid": "w"}})
    assert updated == patched


def test_a_write_to_the_status_leaves_the_rest_alone(space: Space, created: Json) -> None:
    patch = {"spec": {"text": "y"}, "metadata": {"labels": {"a": "b"}}, "status": {"uuid": "u"}}
    patched = space.merge_patch(PROBES, patch, subresource="status")
    assert (patched["spec"], patched["status"]) == (created["spec"], {"uuid": "u"})
    assert "labels" not in patched["metadata"]
    assert space.get(PROBES) == patched


def test_a_write_to_the_status_cannot_touch_finalizers(space: Space) -> None:
    created = space.create(PROBES, with_metadata(probe(), finalizers=["example.com/one"]))
    body = with_metadata(created, finalizers=None, annotations={"a": "b"}) | {"status": {"uuid": "u"}}
    updated = space.update(PROBES, body, subresource="status")
    assert updated["metadata"]["finalizers"] == ["example.com/one"]
    assert "annotations" not in updated["metadata"]


def test_a_written_status_counts_as_a_version_and_no_generation(space: Space, created: Json) -> None:
    patched = space.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status")
    assert patched["metadata"]["generation"] == 1
    assert patched["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]


@pytest.mark.usefixtures("created")
def test_a_status_that_does_not_change_keeps_the_version(space: Space) -> None:
    patched = space.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status")
    assert space.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status") == patched
    assert space.update(PROBES, patched, subresource="status") == patched


def test_the_status_is_locked_by_the_version_of_the_object(space: Space, created: Json) -> None:
    space.merge_patch(PROBES, {"spec": {"text": "y"}})
    body = created | {"status": {"uuid": "u"}}
    assert space.refused(lambda h: h.update(PROBES, body, subresource="status")).summary == CONFLICT


@pytest.mark.usefixtures("created")
def test_an_invalid_status_is_refused_and_a_spec_beside_it_is_not_looked_at(space: Space) -> None:
    bad: Json = {"spec": {"count": 99}, "status": {"uuid": 1}}
    refused = space.refused(lambda h: h.merge_patch(PROBES, bad, subresource="status"))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("status.uuid", "FieldValueTypeInvalid")])
    good = {"spec": {"count": 99}, "status": {"uuid": "u"}}
    assert space.merge_patch(PROBES, good, subresource="status")["status"] == {"uuid": "u"}


def test_a_kind_without_the_subresource_has_no_such_path(space: Space) -> None:
    space.create(PLAIN_PROBES, probe(kind=PLAIN_PROBES))
    refused = space.refused(lambda h: h.merge_patch(PLAIN_PROBES, {"status": {}}, subresource="status"))
    assert refused.summary == NOT_FOUND


def test_the_status_of_what_is_not_there_is_not_found(space: Space) -> None:
    refused = space.refused(lambda h: h.merge_patch(PROBES, {"status": {}}, subresource="status"))
    assert refused.summary == NOT_FOUND


@pytest.mark.usefixtures("created")
def test_a_status_can_be_read_by_itself(space: Space) -> None:
    reply = space.ask("GET", PROBES, "a/status")
    assert (reply.code, reply.json) == (200, space.get(PROBES))


def test_a_decision_is_published_under_tests_of_uid_version_and_uuid(space: Space, composition: Json) -> None:
    operations = guards.status_patch(composition, put={DECISION: DECIDED}, expect={UUID: "u-1"})
    assert operations is not None
    assert {operation["op"] for operation in operations[:2]} == {"test"}
    patched = space.json_patch(COMPOSITIONS, *operations, subresource="status", strict=True)
    synthesis = composition["status"]["currentSynthesis"]
    assert patched["status"]["currentSynthesis"] == synthesis | {"tombstoneRecoveryStatus": DECIDED}
    assert patched["spec"] == composition["spec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("/metadata/uid", "another"), ("/metadata/resourceVersion", "1"), ("/status/currentSynthesis/uuid", "u-0")],
    ids=["another uid", "an older version", "another synthesis"],
)
def test_a_decision_about_something_else_is_refused(space: Space, composition: Json, path: str, value: str) -> None:
    test = {"op": "test", "path": path, "value": value}
    add = {"op": "add", "path": "/" + "/".join(DECISION), "value": DECIDED}
    refused = space.refused(lambda h: h.json_patch(COMPOSITIONS, test, add, subresource="status", strict=True))
    assert refused.summary == INVALID
    assert space.get(COMPOSITIONS) == composition


@pytest.mark.usefixtures("composition")
def test_strictly_an_unknown_status_field_is_refused(space: Space) -> None:
    """What the API server of an older CRD answers, from which Sexton learns that a field is missing."""
    add = {"op": "add", "path": "/status/currentSynthesis/invented", "value": {"status": True}}
    refused = space.refused(lambda h: h.json_patch(COMPOSITIONS, add, subresource="status", strict=True))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("patch", "FieldValueInvalid")])
    assert 'strict decoding error: unknown field "status.currentSynthesis.invented"' in refused.reply.message


def test_otherwise_an_unknown_status_field_is_pruned_with_a_warning(space: Space, composition: Json) -> None:
    body = b'[{"op":"add","path":"/status/currentSynthesis/invented","value":{"status":true}}]'
    reply = space.ask("PATCH", COMPOSITIONS, "a/status", body=body, content_type=JSON_PATCH)
    assert (reply.code, reply.json) == (200, composition)
    assert 'unknown field \\"status.currentSynthesis.invented\\"' in reply.headers["warning"]


@pytest.mark.parametrize(("validation", "code"), [("Strict", 422), ("Warn", 200), ("Ignore", 200), ("Invented", 422)])
def test_field_validation_decides_what_becomes_of_unknown_fields(
    space: Space, composition: Json, validation: str, code: int
) -> None:
    body = b'[{"op":"add","path":"/status/invented","value":1}]'
    query = f"fieldValidation={validation}"
    reply = space.ask("PATCH", COMPOSITIONS, "a/status", query, body, content_type=JSON_PATCH)
    assert reply.code == code
    assert space.get(COMPOSITIONS) == composition


@pytest.mark.usefixtures("composition")
def test_a_strict_patch_of_known_fields_is_applied(space: Space) -> None:
    add = {"op": "add", "path": "/status/currentSynthesis/ready", "value": "2026-01-01T00:00:00Z"}
    patched = space.json_patch(COMPOSITIONS, add, subresource="status", strict=True)
    assert patched["status"]["currentSynthesis"]["ready"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("members", "code"), [({"name": "b"}, 400), ({"name": None}, 400)], ids=["another name", "no name"]
)
def test_a_status_update_needs_the_right_name(space: Space, created: Json, members: Any, code: int) -> None:
    body = with_metadata(created, **members)
    refused = space.refused(lambda h: h.update(PROBES, body, subresource="status"))
    assert (refused.summary, refused.reply.code) == (BAD_REQUEST, code)
