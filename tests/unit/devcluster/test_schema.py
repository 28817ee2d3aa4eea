"""Structural schemas: pruning, defaults, refusals, and that the fast path never disagrees with the slow one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster import schema
from kube.cluster import Json
from tests.unit.devcluster.factories import WIDGETS, kind_of, refusal, widget, widget_store

SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 10},
        "ratio": {"type": "number"},
        "color": {"type": "string", "enum": ["red", "green"]},
        "when": {"type": "string", "format": "date-time"},
        "word": {"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 4},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "absent": {"type": "string", "nullable": True},
        "filled": {"type": "string", "default": "as told"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "x": {"type": "integer"}}},
        },
        "flag": {"type": "boolean"},
    },
}

REFUSED: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "a missing member": ({}, [("spec.size", "FieldValueRequired")]),
    "below the minimum": ({"size": 0}, [("spec.size", "FieldValueInvalid")]),
    "above the maximum": ({"size": 11}, [("spec.size", "FieldValueInvalid")]),
    "a fraction for an integer": ({"size": 1.5}, [("spec.size", "FieldValueTypeInvalid")]),
    "a string for an integer": ({"size": "3"}, [("spec.size", "FieldValueTypeInvalid")]),
    "true for an integer": ({"size": True}, [("spec.size", "FieldValueTypeInvalid")]),
    "a string for a number": ({"size": 1, "ratio": "1"}, [("spec.ratio", "FieldValueTypeInvalid")]),
    "a value outside the enum": ({"size": 1, "color": "blue"}, [("spec.color", "FieldValueNotSupported")]),
    "a time that is a word": ({"size": 1, "when": "now"}, [("spec.when", "FieldValueTypeInvalid")]),
    "a text too short": ({"size": 1, "word": "a"}, [("spec.word", "FieldValueInvalid")]),
    "a text too long": ({"size": 1, "word": "aaaaa"}, [("spec.word", "FieldValueTooLong")]),
    "a text that does not match": ({"size": 1, "word": "bb"}, [("spec.word", "FieldValueInvalid")]),
    "too few elements": ({"size": 1, "list": []}, [("spec.list", "FieldValueInvalid")]),
    "too many elements": ({"size": 1, "list": ["a", "b", "c"]}, [("spec.list", "FieldValueTooMany")]),
    "wrong elements": (
        {"size": 1, "list": [1, None]},
        [("spec.list[0]", "FieldValueTypeInvalid"), ("spec.list[1]", "FieldValueTypeInvalid")],
    ),
    "an object for an array": ({"size": 1, "list": {}}, [("spec.list", "FieldValueTypeInvalid")]),
    "a wrong value of a map": ({"size": 1, "map": {"a": 1}}, [("spec.map.a", "FieldValueTypeInvalid")]),
    "neither integer nor string": ({"size": 1, "port": True}, [("spec.port", "FieldValueTypeInvalid")]),
    "twice in a set": ({"size": 1, "set": ["a", "a"]}, [("spec.set[1]", "FieldValueDuplicate")]),
    "twice the same key": (
        {"size": 1, "keyed": [{"name": "a", "x": 1}, {"name": "a", "x": 2}]},
        [("spec.keyed[1]", "FieldValueDuplicate")],
    ),
    "a string for a boolean": ({"size": 1, "flag": "true"}, [("spec.flag", "FieldValueTypeInvalid")]),
    "several at once": (
        {"size": "x", "color": "blue", "flag": 1},
        [
            ("spec.color", "FieldValueNotSupported"),
            ("spec.flag", "FieldValueTypeInvalid"),
            ("spec.size", "FieldValueTypeInvalid"),
        ],
    ),
    "no object": ("x", [("spec", "FieldValueTypeInvalid")]),
}


@pytest.mark.parametrize(("spec", "causes"), REFUSED.values(), ids=REFUSED)
def test_what_breaks_the_schema_is_invalid(spec: Any, causes: list[tuple[str, str]]) -> None:
    store = widget_store(SPEC)
    with refusal(422, "Invalid") as error:
        store.create(kind_of(store, WIDGETS), "default", widget(spec))
    found = error.value.body["details"]["causes"]
    assert [(cause["field"], cause["reason"]) for cause in found] == causes


KEPT: dict[str, tuple[Json, Json]] = {
    "a whole float is an integer": ({"size": 3.0}, {"size": 3}),
    "a fraction for a number": ({"size": 1, "ratio": 1.25}, {"size": 1, "ratio": 1.25}),
    "null where it is allowed": ({"size": 1, "absent": None}, {"size": 1, "absent": None}),
    "null elsewhere counts as absent": ({"size": 1, "color": None, "map": {"a": None}}, {"size": 1, "map": {}}),
    "null where there is a default": ({"size": 1, "filled": None}, {"size": 1}),
    "a value where there is a default": ({"size": 1, "filled": "x"}, {"size": 1, "filled": "x"}),
    "anything where anything goes": (
        {"size": 1, "free": {"a": {"b": [1, None]}}},
        {"size": 1, "free": {"a": {"b": [1, None]}}},
    ),
    "an integer for a port": ({"size": 1, "port": 80}, {"size": 1, "port": 80}),
    "a string for a port": ({"size": 1, "port": "http"}, {"size": 1, "port": "http"}),
    "unknown members are pruned": (
        {"size": 1, "zzz": 1, "keyed": [{"name": "a", "zzz": 1}]},
        {"size": 1, "keyed": [{"name": "a"}]},
    ),
}


@pytest.mark.parametrize(("spec", "expected"), KEPT.values(), ids=KEPT)
def test_what_fits_the_schema_is_kept(spec: Json, expected: Json) -> None:
    store = widget_store(SPEC)
    kind = kind_of(store, WIDGETS)
    body = store.create(kind, "default", widget(spec)).stored.decoded(kind)
    assert body["spec"] == {"filled": "as told", **expected}


TIMES: dict[str, bool] = {
    "2026-01-31T12:00:00Z": True,
    "2026-01-31T12:00:00.123456+01:00": True,
    "2026-01-31t12:00:00z": True,
    "2026-02-30T12:00:00Z": False,
    "2026-01-31T24:00:00Z": False,
    "2026-01-31T12:60:00Z": False,
    "2026-01-31 12:00:00Z": False,
    "2026-01-31T12:00:00": False,
    "2026-01-31": False,
    "20260131T120000Z": False,
    "": False,
}


@pytest.mark.parametrize(("text", "expected"), TIMES.items(), ids=list(TIMES))
def test_a_time_is_rfc_3339(text: str, expected: bool) -> None:
    assert schema.is_date_time(text) is expected


def test_a_status_without_the_subresource_is_part_of_the_object() -> None:
    store = widget_store({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, status=True)
    kind = kind_of(store, WIDGETS)
    body = store.create(kind, "default", {**widget({}), "status": {"x": 1}}).stored.decoded(kind)
    assert "status" not in body


def test_faults_that_keep_rules_from_being_evaluated_are_told() -> None:
    rules = [{"rule": "self.size > 1"}]
    store = widget_store({**SPEC, "x-kubernetes-validations": rules})
    with refusal(422, "Invalid") as error:
        store.create(kind_of(store, WIDGETS), "default", widget({}))
    assert [cause["field"] for cause in error.value.body["details"]["causes"]] == ["spec.size", "<nil>"]


NODE = schema.compile_schema(SPEC)
leaves = st.none() | st.booleans() | st.integers(-2, 12) | st.floats(-1, 11) | st.sampled_from(["aa", "red", ""])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*SPEC["properties"], "unknown"]), values, max_size=6))
def test_the_fast_path_accepts_only_what_the_slow_path_neither_changes_nor_refuses(spec: Json) -> None:
    if not schema.conforms(spec, NODE):
        return
    walked, unknown = copy.deepcopy(spec), list[str]()
    schema.prune(walked, NODE, "", unknown)
    schema.fill(walked, NODE)
    assert not unknown
    assert walked == spec
    assert schema.causes(walked, NODE) == []
