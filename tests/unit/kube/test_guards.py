"""Guarded patches, checked by what an independent RFC 6902 implementation makes of them."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import MalformedObject
from kube import guards
from kube.cluster import Json, JsonPatch

UID, VERSION = "uid-1", "42"


def thing(*, annotations: Any = None, finalizers: Any = None, **fields: Any) -> Json:
    metadata: Json = {"name": "a", "uid": UID, "resourceVersion": VERSION}
    if annotations is not None:
        metadata["annotations"] = annotations
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    return {"kind": "Thing", "metadata": metadata, **fields}


def apply(patch: JsonPatch | None, obj: Json) -> Json:
    assert patch is not None
    before = copy.deepcopy(obj)
    result: Json = jsonpatch.apply_patch(obj, list(patch))
    assert obj == before
    return result


def changed(obj: Json, path: guards.Path, value: Any) -> Json:
    result = copy.deepcopy(obj)
    place: Any = result
    for token in path[:-1]:
        place = place[token]
    place[path[-1]] = value
    return result


PATCHES = {
    "setting the first annotation": lambda obj: guards.set_annotation(obj, "a/b", "v"),
    "removing a finalizer": lambda obj: guards.remove_finalizer(obj, "ours"),
    "appending resources": lambda obj: guards.append_resources(obj, [{"manifest": "{}"}]),
    "publishing a status": lambda obj: guards.status_patch(obj, put={("status", "ready"): "now"}),
}


@pytest.mark.parametrize("build", PATCHES.values(), ids=PATCHES)
@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_every_patch_fails_on_another_state_and_on_another_object(build: Any, field: str) -> None:
    obj = thing(finalizers=["ours"])
    patch = build(obj)
    apply(patch, obj)
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        apply(patch, changed(obj, ("metadata", field), "another"))


@pytest.mark.parametrize("build", PATCHES.values(), ids=PATCHES)
@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_an_object_that_cannot_be_guarded_is_not_patched(build: Any, field: str, value: Any) -> None:
    with pytest.raises(MalformedObject, match=f"Thing: metadata.{field} is missing"):
        build(changed(thing(finalizers=["ours"]), ("metadata", field), value))


def test_the_tests_come_before_every_change() -> None:
    patch = guards.set_annotation(thing(), "a", "v")
    assert [operation["op"] for operation in patch] == ["test", "test", "add", "add"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), ""),
        (("a", "b"), "/a/b"),
        (("metadata", "annotations", "eno.azure.io/x"), "/metadata/annotations/eno.azure.io~1x"),
        (("~1", "~", "/"), "/~01/~0/~1"),
        (("", "0", 0, "-"), "//0/0/-"),
    ],
)
def test_a_pointer_escapes_tilde_before_slash(path: guards.Path, expected: str) -> None:
    assert guards.pointer(path) == expected


@given(st.text(), st.text())
def test_an_annotation_key_of_any_characters_is_set_under_exactly_that_key(key: str, value: str) -> None:
    obj = thing(annotations={"other": "kept"})
    result = apply(guards.set_annotation(obj, key, value), obj)
    assert result["metadata"]["annotations"] == {"other": "kept", key: value}


ANNOTATIONS = {
    "no annotations at all": (None, {"k": "v"}),
    "an empty map": ({}, {"k": "v"}),
    "others are kept": ({"a": "b"}, {"a": "b", "k": "v"}),
    "an old value is replaced": ({"k": "old"}, {"k": "v"}),
}


@pytest.mark.parametrize(("before", "after"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_setting_an_annotation(before: Any, after: Json) -> None:
    obj = thing(annotations=before)
    assert apply(guards.set_annotation(obj, "k", "v"), obj)["metadata"]["annotations"] == after


FINALIZERS = {
    "the only one": (["ours"], []),
    "the first": (["ours", "b"], ["b"]),
    "in the middle": (["a", "ours", "b"], ["a", "b"]),
    "the last": (["a", "ours"], ["a"]),
}


@pytest.mark.parametrize(("before", "after"), FINALIZERS.values(), ids=FINALIZERS)
def test_only_our_finalizer_is_removed(before: list[str], after: list[str]) -> None:
    obj = thing(finalizers=before)
    assert apply(guards.remove_finalizer(obj, "ours"), obj)["metadata"]["finalizers"] == after


@pytest.mark.parametrize("finalizers", [None, [], ["a"], "ours"])
def test_a_finalizer_that_is_not_there_needs_no_patch(finalizers: Any) -> None:
    assert guards.remove_finalizer(thing(finalizers=finalizers), "ours") is None


def test_a_finalizer_list_that_shifted_is_not_touched() -> None:
    obj = thing(finalizers=["a", "ours"])
    patch = guards.remove_finalizer(obj, "ours")
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        apply(patch, changed(obj, ("metadata", "finalizers"), ["ours", "b"]))


RESOURCES = {
    "an array": ({"resources": [{"manifest": "1"}]}, [{"manifest": "1"}]),
    "an empty array": ({"resources": []}, []),
    "a null array": ({"resources": None}, []),
    "no array": ({}, []),
    "no spec": (None, []),
}


@pytest.mark.parametrize(("spec", "kept"), RESOURCES.values(), ids=RESOURCES)
def test_appended_resources_follow_the_ones_that_were_there(spec: Json | None, kept: list[Json]) -> None:
    obj = thing() if spec is None else thing(spec=spec)
    entries = [{"manifest": "2", "deleted": True}, {"manifest": "3", "deleted": True}]
    assert apply(guards.append_resources(obj, entries), obj)["spec"]["resources"] == [*kept, *entries]


SYNTHESIS: guards.Path = ("status", "currentSynthesis")

STATUSES = {
    "no status yet": ({}, {"status": {"currentSynthesis": {"ready": "now", "reason": "r"}}}),
    "a null parent": (
        {"status": {"currentSynthesis": None}},
        {"status": {"currentSynthesis": {"ready": "now", "reason": "r"}}},
    ),
    "siblings are kept": (
        {"status": {"x": 1, "currentSynthesis": {"uuid": "u", "ready": "before"}}},
        {"status": {"x": 1, "currentSynthesis": {"uuid": "u", "ready": "now", "reason": "r"}}},
    ),
    "half of it is there": (
        {"status": {"currentSynthesis": {"ready": "now"}}},
        {"status": {"currentSynthesis": {"ready": "now", "reason": "r"}}},
    ),
}


@pytest.mark.parametrize(("before", "after"), STATUSES.values(), ids=STATUSES)
def test_status_fields_are_set_together(before: Json, after: Json) -> None:
    obj = thing(**before)
    patch = guards.status_patch(obj, put={(*SYNTHESIS, "ready"): "now", (*SYNTHESIS, "reason"): "r"})
    assert apply(patch, obj) == thing(**after)


def test_a_status_that_already_says_so_needs_no_patch() -> None:
    obj = thing(status={"currentSynthesis": {"ready": "now"}})
    gone = (*SYNTHESIS, "reconciled")
    assert guards.status_patch(obj, put={(*SYNTHESIS, "ready"): "now"}, clear=[gone]) is None


def test_clearing_removes_only_what_is_there() -> None:
    obj = thing(status={"currentSynthesis": {"ready": None, "uuid": "u"}})
    patch = guards.status_patch(obj, put={}, clear=[(*SYNTHESIS, "ready"), (*SYNTHESIS, "reconciled")])
    assert apply(patch, obj)["status"] == {"currentSynthesis": {"uuid": "u"}}


def test_an_absent_field_set_to_null_is_a_change() -> None:
    obj = thing(status={})
    assert apply(guards.status_patch(obj, put={("status", "x"): None}), obj)["status"] == {"x": None}


def test_a_condition_of_the_caller_is_tested_too() -> None:
    obj = thing(status={"currentSynthesis": {"uuid": "u"}})
    uuid = (*SYNTHESIS, "uuid")
    patch = guards.status_patch(obj, put={(*SYNTHESIS, "ready"): "now"}, expect={uuid: "u"})
    apply(patch, obj)
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        apply(patch, changed(obj, uuid, "another"))


def test_an_entry_of_an_array_is_never_made_up() -> None:
    obj = thing(status={"resources": [None]})
    patch = guards.status_patch(obj, put={("status", "resources", 0, "ready"): True})
    with pytest.raises(jsonpatch.JsonPointerException):
        apply(patch, obj)


def test_a_field_inside_an_array_entry_is_set_in_place() -> None:
    obj = thing(status={"resources": [{"ready": False}, {}]})
    patch = guards.status_patch(obj, put={("status", "resources", 1, "ready"): True})
    assert apply(patch, obj)["status"]["resources"] == [{"ready": False}, {"ready": True}]


def test_the_plain_operations_are_what_they_are_called() -> None:
    path: guards.Path = ("a/b", 0)
    assert guards.add(path, 1) == {"op": "add", "path": "/a~1b/0", "value": 1}
    assert guards.replace(path, 1) == {"op": "replace", "path": "/a~1b/0", "value": 1}
    assert guards.remove(path) == {"op": "remove", "path": "/a~1b/0"}
    assert guards.test(path, 1) == {"op": "test", "path": "/a~1b/0", "value": 1}
