"""JSON Patch: all operations or none, `test` as the guard, positions in arrays, and the optimistic lock."""

from __future__ import annotations

from typing import Any

import pytest

from kube import guards
from kube.cluster import Json
from kube.requests import JSON_PATCH
from kube.resources import SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST, CONFLICT, INVALID, NOT_FOUND, Summary
from tests.contract.space import Space

ITEMS = [{"manifest": "one"}, {"manifest": "two", "deleted": True}]


@pytest.fixture
def created(space: Space) -> Json:
    body = probe(text="x", count=1, ratio=0.5, flag=True, list=["a", "b"], items=ITEMS, free={"a/b": {"c~d": 1}})
    finalizers = ["example.com/one", "example.com/two"]
    return space.create(PROBES, with_metadata(body, finalizers=finalizers, annotations={"example.com/n": "1"}))


def op(name: str, path: str, *value: Any, **more: Any) -> Json:
    return {"op": name, "path": path, **({"value": value[0]} if value else {}), **more}


MARK = op("add", "/spec/text", "patched")
"""What every patch below also does, last: it happens exactly when all tests before it succeed."""


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(op("test", "/spec/text", "x"), id="a string"),
        pytest.param(op("test", "/spec/count", 1), id="a number"),
        pytest.param(op("test", "/spec/ratio", 0.5), id="a fraction"),
        pytest.param(op("test", "/spec/flag", True), id="a boolean"),
        pytest.param(op("test", "/spec/list", ["a", "b"]), id="an array"),
        pytest.param(op("test", "/spec/list/1", "b"), id="an element"),
        pytest.param(op("test", "/spec/list/-1", "b"), id="an element from the end"),
        pytest.param(op("test", "/spec/items/1", {"deleted": True, "manifest": "two"}), id="an object in any order"),
        pytest.param(op("test", "/spec/free/a~1b/c~0d", 1), id="an escaped path"),
        pytest.param(op("test", "/metadata/annotations/example.com~1n", "1"), id="an annotation"),
        pytest.param(op("test", "/spec/absent", None), id="null where there is nothing"),
        pytest.param({"op": "test", "path": "/spec/absent"}, id="no value where there is nothing"),
        pytest.param(op("test", "/kind", "Probe"), id="the kind"),
    ],
)
def test_a_test_that_holds_lets_the_patch_through(space: Space, created: Json, test: Json) -> None:
    patched = space.json_patch(PROBES, test, MARK)
    assert patched["spec"] == created["spec"] | {"text": "patched"}
    assert space.get(PROBES) == patched


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(op("test", "/spec/text", "y"), id="another string"),
        pytest.param(op("test", "/spec/text", None), id="null where there is something"),
        pytest.param(op("test", "/spec/count", "1"), id="a string for a number"),
        pytest.param(op("test", "/spec/count", 2), id="another number"),
        pytest.param(op("test", "/spec/flag", 1), id="one for true"),
        pytest.param(op("test", "/spec/list", ["a"]), id="fewer elements"),
        pytest.param(op("test", "/spec/list", ["b", "a"]), id="another order"),
        pytest.param(op("test", "/spec/list/0", "b"), id="the wrong index"),
        pytest.param(op("test", "/spec/list/2", "b"), id="an index beyond the end"),
        pytest.param(op("test", "/spec/list/2", None), id="null beyond the end"),
        pytest.param(op("test", "/spec/list/-3", "a"), id="an index before the start"),
        pytest.param(op("test", "/spec/list/-", "b"), id="the position after the end"),
        pytest.param(op("test", "/spec/list/x", "b"), id="an index that is no number"),
        pytest.param(op("test", "/spec/items/1", {"manifest": "two"}), id="an object with a member less"),
        pytest.param(op("test", "/spec/absent", "x"), id="a missing member"),
        pytest.param(op("test", "/spec/absent/below", "x"), id="a missing parent"),
        pytest.param(op("test", "/spec/absent/below", None), id="null below a missing parent"),
        pytest.param(op("test", "/spec/text/below", "x"), id="a path through a string"),
        pytest.param(op("test", "spec/text", "x"), id="a path without a slash in front"),
        pytest.param(op("test", "/metadata/uid", "another"), id="the uid"),
        pytest.param(op("test", "/metadata/resourceVersion", "1"), id="the resourceVersion"),
        pytest.param(op("test", "/metadata/finalizers/0", "example.com/two"), id="a finalizer"),
    ],
)
def test_a_test_that_fails_changes_nothing(space: Space, created: Json, test: Json) -> None:
    for operations in ([test, MARK], [MARK, test]):
        refused = space.refused(lambda h, operations=operations: h.json_patch(PROBES, *operations))  # type: ignore[misc]
        assert refused.summary == INVALID
        assert refused.reply.message == "the server rejected our request due to an error in our request"
        assert refused.reply.causes == []
    assert space.get(PROBES) == created


@pytest.mark.usefixtures("created")
def test_a_refused_test_says_no_more_than_that(space: Space) -> None:
    reply = space.refused(lambda h: h.json_patch(PROBES, op("test", "/spec/text", "y"))).reply
    assert reply.status["details"] == {}


@pytest.mark.parametrize(
    ("operation", "at", "expected"),
    [
        pytest.param(op("add", "/spec/list/0", "z"), "list", ["z", "a", "b"], id="add in front"),
        pytest.param(op("add", "/spec/list/2", "z"), "list", ["a", "b", "z"], id="add at the end by index"),
        pytest.param(op("add", "/spec/list/-", "z"), "list", ["a", "b", "z"], id="append"),
        pytest.param(op("remove", "/spec/list/0"), "list", ["b"], id="remove an element"),
        pytest.param(op("replace", "/spec/list/1", "z"), "list", ["a", "z"], id="replace an element"),
        pytest.param(op("replace", "/spec/count", 2), "count", 2, id="replace a member"),
        pytest.param(op("replace", "/spec/maybe", "z"), "maybe", "z", id="replace a member that is not there"),
        pytest.param(op("move", "/spec/maybe", **{"from": "/spec/text"}), "maybe", "x", id="move"),
        pytest.param(op("copy", "/spec/maybe", **{"from": "/spec/text"}), "maybe", "x", id="copy"),
        pytest.param(
            op("add", "/spec/items/-", {"manifest": "new", "deleted": True}),
            "items",
            [*ITEMS, {"manifest": "new", "deleted": True}],
            id="append an object",
        ),
    ],
)
@pytest.mark.usefixtures("created")
def test_an_operation_does_what_it_says(space: Space, operation: Json, at: str, expected: Any) -> None:
    assert space.json_patch(PROBES, operation)["spec"][at] == expected


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(op("remove", "/spec/absent"), id="remove what is not there"),
        pytest.param(op("remove", "/spec/list/2"), id="remove beyond the end"),
        pytest.param(op("add", "/spec/list/3", "z"), id="add beyond the end"),
        pytest.param(op("add", "/spec/absent/below", "z"), id="add below what is not there"),
        pytest.param(op("replace", "/spec/list/2", "z"), id="replace beyond the end"),
        pytest.param(op("replace", "/spec/absent/below", "z"), id="replace below what is not there"),
        pytest.param(op("move", "/spec/maybe"), id="move from nowhere"),
        pytest.param(op("invent", "/spec/text", "z"), id="an unknown operation"),
        pytest.param({"op": "add", "value": "z"}, id="no path"),
        pytest.param({"path": "/spec/text", "value": "z"}, id="no operation"),
    ],
)
@pytest.mark.usefixtures("created")
def test_what_cannot_be_applied_changes_nothing(space: Space, operation: Json) -> None:
    assert space.refused(lambda h: h.json_patch(PROBES, MARK, operation)).summary == INVALID


@pytest.mark.parametrize(
    ("operation", "summary", "causes"),
    [
        pytest.param(
            op("add", "/spec/count", 99), INVALID, [("spec.count", "FieldValueInvalid")], id="an invalid spec"
        ),
        pytest.param(op("replace", "/metadata/name", "b"), BAD_REQUEST, [], id="another name"),
        pytest.param(op("replace", "/metadata/namespace", "b"), BAD_REQUEST, [], id="another namespace"),
        pytest.param(op("replace", "/kind", "Other"), INVALID, [("kind", "FieldValueInvalid")], id="another kind"),
        pytest.param(
            op("replace", "/apiVersion", "v1"), INVALID, [("apiVersion", "FieldValueInvalid")], id="another version"
        ),
        pytest.param(op("remove", "/kind"), INVALID, [("patch", "FieldValueInvalid")], id="no kind"),
        pytest.param(
            op("replace", "/metadata/uid", "b"), INVALID, [("metadata.uid", "FieldValueInvalid")], id="another uid"
        ),
        pytest.param(op("replace", "/metadata/resourceVersion", "1"), CONFLICT, [], id="an older version"),
        pytest.param(
            op("replace", "/metadata/labels", {"a": 1}),
            INVALID,
            [("patch", "FieldValueInvalid")],
            id="metadata that do not decode",
        ),
        pytest.param(op("remove", "/metadata"), BAD_REQUEST, [], id="no metadata"),
    ],
)
@pytest.mark.usefixtures("created")
def test_a_patched_object_is_refused(
    space: Space, operation: Json, summary: Summary, causes: list[tuple[str, str]]
) -> None:
    refused = space.refused(lambda h: h.json_patch(PROBES, operation))
    assert refused.summary == summary
    assert refused.reply.causes == causes


@pytest.mark.usefixtures("created")
def test_a_version_may_be_removed_where_updates_need_none(space: Space) -> None:
    remove = op("remove", "/metadata/resourceVersion")
    refused = space.refused(lambda h: h.json_patch(PROBES, remove, MARK))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("metadata.resourceVersion", "FieldValueInvalid")])
    space.create(SECRETS, {"metadata": {"name": "a"}})
    assert space.json_patch(SECRETS, remove, op("add", "/immutable", True))["immutable"] is True


def test_the_version_that_was_read_can_be_tested(space: Space, created: Json) -> None:
    version = created["metadata"]["resourceVersion"]
    test = op("test", "/metadata/resourceVersion", version)
    patched = space.json_patch(PROBES, test, MARK)
    assert patched["metadata"]["resourceVersion"] != version
    assert space.refused(lambda h: h.json_patch(PROBES, test, op("add", "/spec/text", "z"))).summary == INVALID


def test_a_patch_that_changes_nothing_keeps_the_version(space: Space, created: Json) -> None:
    assert space.json_patch(PROBES, op("replace", "/spec/text", "x")) == created
    assert space.json_patch(PROBES) == created


def test_one_finalizer_is_removed_by_its_tested_index(space: Space, created: Json) -> None:
    operations = guards.remove_finalizer(created, "example.com/two")
    assert operations
    patched = space.json_patch(PROBES, *operations)
    assert patched["metadata"]["finalizers"] == ["example.com/one"]
    assert patched["metadata"]["generation"] == 1


@pytest.mark.usefixtures("created")
def test_a_finalizer_that_moved_is_not_removed(space: Space) -> None:
    operations = [op("test", "/metadata/finalizers/1", "example.com/two"), op("remove", "/metadata/finalizers/1")]
    space.json_patch(PROBES, op("remove", "/metadata/finalizers/0"))
    assert space.refused(lambda h: h.json_patch(PROBES, *operations)).summary == INVALID
    assert space.get(PROBES)["metadata"]["finalizers"] == ["example.com/two"]


@pytest.mark.parametrize("character", ["<", ">", "&", "\u2028"], ids=["less than", "greater than", "and", "U+2028"])
def test_what_go_escapes_in_json_never_tests_equal(space: Space, character: str) -> None:
    """kube-apiserver compares the text of its own JSON, in which these stand as \\u003c and the like."""
    space.probe(text=f"a{character}b")
    assert space.refused(lambda h: h.json_patch(PROBES, op("test", "/spec/text", f"a{character}b"))).summary == INVALID


@pytest.mark.parametrize("text", ["ä", "日本", 'a"b', "a\\b", "a\nb", "\x7f", "😀"])
def test_other_text_tests_equal_to_itself(space: Space, text: str) -> None:
    space.probe(text=text)
    assert space.json_patch(PROBES, op("test", "/spec/text", text), MARK)["spec"]["text"] == "patched"


def test_what_is_not_there_cannot_be_patched(space: Space) -> None:
    assert space.refused(lambda h: h.json_patch(PROBES, MARK)).summary == NOT_FOUND


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b'"x"', b"[1]", b"\xff"], ids=["empty", "cut off", "an object", "text", "[1]", "\\xff"]
)
def test_a_body_that_is_no_patch_is_a_bad_request(space: Space, created: Json, body: bytes) -> None:
    reply = space.ask("PATCH", PROBES, "a", body=body, content_type=JSON_PATCH)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert space.get(PROBES) == created


def test_a_patch_has_at_most_ten_thousand_operations(space: Space) -> None:
    space.create(SECRETS, {"metadata": {"name": "a"}})
    operation = op("test", "/metadata/name", "a")
    assert space.json_patch(SECRETS, *[operation] * 10_000)
    refused = space.refused(lambda h: h.json_patch(SECRETS, *[operation] * 10_001))
    assert (refused.reply.code, refused.reply.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.usefixtures("created")
def test_a_patch_of_an_unknown_media_type_is_refused(space: Space) -> None:
    reply = space.ask("PATCH", PROBES, "a", body=b"{}", content_type="application/json")
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")
