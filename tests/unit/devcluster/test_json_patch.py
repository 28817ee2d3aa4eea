"""JSON Patch as kube-apiserver applies it, departures from RFC 6902 included."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.patches import MAX_OPERATIONS, apply_json_patch, decode_json_patch
from devcluster.statuses import Refusal
from kube.cluster import Json
from tests.unit.devcluster.factories import refusal


def document() -> Json:
    return {"name": "web", "count": 1, "labels": {"a/b": "1", "~": "2"}, "list": ["x", {"y": 1}], "none": None}


def patched(text: bytes | list[Json]) -> Any:
    body = text if isinstance(text, bytes) else msgspec.json.encode(text)
    return apply_json_patch(document(), decode_json_patch(body))


def op(name: str, path: str, **members: Any) -> Json:
    return {"op": name, "path": path, **members}


PASSING_TESTS: dict[str, Json] = {
    "an equal string": op("test", "/name", value="web"),
    "an equal number": op("test", "/count", value=1),
    "an equal object in another order": op("test", "/labels", value={"~": "2", "a/b": "1"}),
    "an equal array": op("test", "/list", value=["x", {"y": 1}]),
    "an element": op("test", "/list/0", value="x"),
    "the last element by a negative index": op("test", "/list/-1/y", value=1),
    "an index with leading zeros": op("test", "/list/00", value="x"),
    "an escaped slash": op("test", "/labels/a~1b", value="1"),
    "an escaped tilde": op("test", "/labels/~0", value="2"),
    "a missing member is equal to null": op("test", "/missing", value=None),
    "a missing member is equal to no value at all": op("test", "/missing"),
    "a null member": op("test", "/none", value=None),
    "the whole document": op("test", "", value=document()),
}


@pytest.mark.parametrize("operation", PASSING_TESTS.values(), ids=PASSING_TESTS)
def test_a_test_that_holds_lets_the_patch_go_on(operation: Json) -> None:
    assert patched([operation, op("replace", "/name", value="api")])["name"] == "api"


REFUSED: dict[str, Json] = {
    "another string": op("test", "/name", value="api"),
    "a number written as a float": op("test", "/count", value=1.0),
    "a number written as a string": op("test", "/count", value="1"),
    "true for one": op("test", "/count", value=True),
    "null for something": op("test", "/name", value=None),
    "no value for something": op("test", "/name"),
    "a missing member": op("test", "/missing", value="x"),
    "below a missing member, even for null": op("test", "/missing/deeper", value=None),
    "below a null": op("test", "/none/deeper", value=None),
    "below a string": op("test", "/name/deeper", value=None),
    "an object with a member too few": op("test", "/labels", value={"~": "2"}),
    "an array in another order": op("test", "/list", value=[{"y": 1}, "x"]),
    "an array with an element too few": op("test", "/list", value=["x"]),
    "an array for an object": op("test", "/labels", value=[]),
    "an object for an array": op("test", "/list", value={}),
    "an index out of range": op("test", "/list/2", value=None),
    "a negative index out of range": op("test", "/list/-3", value="x"),
    "a word for an index": op("test", "/list/first", value="x"),
    "the place after the end": op("test", "/list/-", value=None),
    "remove of a missing member": op("remove", "/missing"),
    "remove below a missing member": op("remove", "/missing/deeper"),
    "remove at an index out of range": op("remove", "/list/2"),
    "replace at an index out of range": op("replace", "/list/2", value=1),
    "replace below a missing member": op("replace", "/missing/deeper", value=1),
    "replace of the document by a scalar": op("replace", "", value=1),
    "add below a missing member": op("add", "/missing/deeper", value=1),
    "add at an index past the end": op("add", "/list/3", value=1),
    "add below a string": op("add", "/name/deeper", value=1),
    "add to the document itself": op("add", "", value={}),
    "move of a missing member": op("move", "/to", **{"from": "/missing"}),
    "move from nowhere": op("move", "/to"),
    "copy from below a missing member": op("copy", "/to", **{"from": "/missing/deeper"}),
    "an unknown operation": op("frobnicate", "/name"),
    "no operation": {"path": "/name"},
    "no path": {"op": "add", "value": 1},
    "a path without a slash": op("add", "labels", value=1),
}


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED)
def test_an_operation_that_does_not_apply_is_refused(operation: Json) -> None:
    with refusal(422, "Invalid"):
        patched([operation])


EFFECTS: dict[str, tuple[Json, str, Any]] = {
    "add sets a member": (op("add", "/new", value=1), "new", 1),
    "add replaces a member": (op("add", "/name", value="api"), "name", "api"),
    "add inserts before an element": (op("add", "/list/0", value=0), "list", [0, "x", {"y": 1}]),
    "add inserts at the end": (op("add", "/list/2", value=0), "list", ["x", {"y": 1}, 0]),
    "add appends": (op("add", "/list/-", value=0), "list", ["x", {"y": 1}, 0]),
    "add inserts at a negative index": (op("add", "/list/-1", value=0), "list", ["x", {"y": 1}, 0]),
    "add without a value sets null": (op("add", "/new"), "new", None),
    "remove takes an element": (op("remove", "/list/0"), "list", [{"y": 1}]),
    "remove counts from the end": (op("remove", "/list/-1"), "list", ["x"]),
    "replace sets a missing member": (op("replace", "/new", value=1), "new", 1),
    "copy of a missing member sets null": (op("copy", "/new", **{"from": "/missing"}), "new", None),
    "move takes it away": (op("move", "/new", **{"from": "/name"}), "name", "gone"),
}


@pytest.mark.parametrize(("operation", "member", "expected"), EFFECTS.values(), ids=EFFECTS)
def test_an_operation_that_applies(operation: Json, member: str, expected: Any) -> None:
    assert patched([operation]).get(member, "gone") == expected


def test_a_copy_shares_nothing_with_its_source() -> None:
    result = patched([op("copy", "/copy", **{"from": "/labels"}), op("add", "/copy/new", value=1)])
    assert "new" not in result["labels"]


TEXTS: dict[str, tuple[bytes, bool]] = {
    "a client that leaves < > & alone": (b'"a<b>&c"', False),
    "a client that escapes them as the server does": (b'"a\\u003cb\\u003e\\u0026c"', True),
    "a client that escapes them in capitals": (b'"a\\u003Cb\\u003E\\u0026c"', False),
}


@pytest.mark.parametrize(("text", "equal"), TEXTS.values(), ids=TEXTS)
def test_strings_are_compared_as_the_server_writes_them(text: bytes, equal: bool) -> None:
    operations = decode_json_patch(b'[{"op":"test","path":"/m","value":' + text + b"}]")
    if equal:
        apply_json_patch({"m": "a<b>&c"}, operations)
    else:
        with refusal(422, "Invalid"):
            apply_json_patch({"m": "a<b>&c"}, operations)


def test_characters_beyond_ascii_are_compared_unescaped() -> None:
    apply_json_patch({"m": "é"}, decode_json_patch('[{"op":"test","path":"/m","value":"é"}]'.encode()))
    with refusal(422, "Invalid"):
        apply_json_patch({"m": "é"}, decode_json_patch(b'[{"op":"test","path":"/m","value":"\\u00e9"}]'))


MALFORMED: dict[str, bytes] = {
    "no JSON": b"[{",
    "an object": b'{"op":"add"}',
    "a list of strings": b'["x"]',
    "a path that is a number": b'[{"op":"add","path":1}]',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_body_that_is_no_patch_is_a_bad_request(body: bytes) -> None:
    with refusal(400, "BadRequest"):
        decode_json_patch(body)


def test_no_operations_change_nothing() -> None:
    assert patched([]) == patched(b"null") == document()


def test_too_many_operations_are_too_large_a_request() -> None:
    operations = [op("test", "/name", value="web")]
    assert patched(operations * MAX_OPERATIONS) == document()
    with refusal(413, "RequestEntityTooLarge"):
        patched(operations * (MAX_OPERATIONS + 1))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(alphabet="abé/~", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=3),
    max_leaves=8,
)
paths = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "-1", "~0", "~1", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@settings(deadline=None)
@given(value=json_values)
def test_what_was_added_tests_equal(value: Any) -> None:
    body = msgspec.json.encode([op("add", "/a", value=value), op("test", "/a", value=value)])
    assert apply_json_patch({}, decode_json_patch(body)) == {"a": value}


@settings(deadline=None)
@given(
    value=st.dictionaries(st.sampled_from(["a", "b"]), json_values),
    operations=st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": paths},
            optional={"value": json_values, "from": paths},
        ),
        max_size=3,
    ),
)
def test_any_patch_of_any_document_is_applied_or_refused(value: Json, operations: list[Json]) -> None:
    with contextlib.suppress(Refusal):
        apply_json_patch(value, decode_json_patch(msgspec.json.encode(operations)))
