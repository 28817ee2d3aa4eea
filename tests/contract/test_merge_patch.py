"""Merge Patch (RFC 7386): members are merged, null takes away, arrays are replaced."""

from __future__ import annotations

import pytest

from kube.cluster import Json
from kube.requests import MERGE_PATCH
from kube.resources import SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST, CONFLICT, INVALID, NOT_FOUND, Summary
from tests.contract.space import Space

FINALIZERS = ["example.com/one", "example.com/two"]


@pytest.fixture
def created(space: Space) -> Json:
    body = probe(text="x", list=["a", "b"], named={"name": "n", "note": "o"}, free={"a": {"b": 1}})
    return space.create(PROBES, with_metadata(body, finalizers=FINALIZERS, labels={"a": "1", "b": "2"}))


@pytest.mark.parametrize(
    ("patch", "member", "expected"),
    [
        pytest.param({"text": "y"}, "text", "y", id="a member is replaced"),
        pytest.param({"text": None}, "text", None, id="null takes a member away"),
        pytest.param({"flag": True}, "flag", True, id="a member is added"),
        pytest.param({"list": ["z"]}, "list", ["z"], id="an array is replaced"),
        pytest.param({"named": {"note": "p"}}, "named", {"name": "n", "note": "p"}, id="objects are merged"),
        pytest.param({"named": {"note": None}}, "named", {"name": "n"}, id="null takes an inner member away"),
        pytest.param({"words": {"a": "b", "c": None}}, "words", {"a": "b"}, id="null within a new object is left out"),
        pytest.param({"free": {"a": {"c": 2}}}, "free", {"a": {"b": 1, "c": 2}}, id="unknown objects are merged"),
        pytest.param({"free": {"a": None}}, "free", {}, id="an object may become empty"),
    ],
)
@pytest.mark.usefixtures("created")
def test_a_merge_patch_merges(space: Space, patch: Json, member: str, expected: object) -> None:
    patched = space.merge_patch(PROBES, {"spec": patch})
    assert patched["spec"].get(member) == expected
    assert patched["metadata"]["generation"] == 2
    assert space.get(PROBES) == patched


@pytest.mark.usefixtures("created")
def test_finalizers_are_replaced_as_a_whole(space: Space) -> None:
    assert space.merge_patch(PROBES, {"metadata": {"finalizers": ["example.com/three"]}})["metadata"]["finalizers"] == [
        "example.com/three"
    ]
    assert "finalizers" not in space.merge_patch(PROBES, {"metadata": {"finalizers": None}})["metadata"]


@pytest.mark.usefixtures("created")
def test_labels_are_merged(space: Space) -> None:
    patched = space.merge_patch(PROBES, {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert patched["metadata"]["generation"] == 1


def test_a_merge_patch_that_changes_nothing_keeps_the_version(space: Space, created: Json) -> None:
    assert space.merge_patch(PROBES, {"spec": {"text": "x"}}) == created
    assert space.merge_patch(PROBES, {}) == created


def test_the_version_in_a_merge_patch_is_a_precondition(space: Space, created: Json) -> None:
    version = created["metadata"]["resourceVersion"]
    locked = {"metadata": {"resourceVersion": version}, "spec": {"text": "y"}}
    assert space.merge_patch(PROBES, locked)["spec"]["text"] == "y"
    assert space.refused(lambda h: h.merge_patch(PROBES, locked)).summary == CONFLICT
    assert space.merge_patch(PROBES, {"spec": {"text": "z"}})["spec"]["text"] == "z"


@pytest.mark.parametrize(
    ("patch", "summary", "causes"),
    [
        pytest.param({"metadata": {"uid": "b"}}, INVALID, [("metadata.uid", "FieldValueInvalid")], id="another uid"),
        pytest.param({"metadata": {"name": "b"}}, BAD_REQUEST, [], id="another name"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, CONFLICT, [], id="an older version"),
        pytest.param({"metadata": None}, BAD_REQUEST, [], id="no metadata"),
        pytest.param({"kind": None}, INVALID, [("patch", "FieldValueInvalid")], id="no kind"),
        pytest.param({"spec": {"count": 99}}, INVALID, [("spec.count", "FieldValueInvalid")], id="an invalid spec"),
        pytest.param({"spec": {"count": "1"}}, INVALID, [("spec.count", "FieldValueTypeInvalid")], id="another type"),
        pytest.param({"spec": "x"}, INVALID, [("spec", "FieldValueTypeInvalid")], id="no spec"),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}}, INVALID, [("patch", "FieldValueInvalid")], id="a label of another type"
        ),
    ],
)
@pytest.mark.usefixtures("created")
def test_a_merge_patch_is_refused(space: Space, patch: Json, summary: Summary, causes: list[tuple[str, str]]) -> None:
    refused = space.refused(lambda h: h.merge_patch(PROBES, patch))
    assert refused.summary == summary
    assert refused.reply.causes == causes


def test_what_is_not_there_cannot_be_merged(space: Space) -> None:
    assert space.refused(lambda h: h.merge_patch(PROBES, {})).summary == NOT_FOUND
    assert space.refused(lambda h: h.merge_patch(SECRETS, {})).summary == NOT_FOUND


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"null"], ids=["empty", "cut off", "[]", "text", "null"])
def test_a_body_that_is_no_object_is_a_bad_request(space: Space, created: Json, body: bytes) -> None:
    reply = space.ask("PATCH", PROBES, "a", body=body, content_type=MERGE_PATCH)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert space.get(PROBES) == created
