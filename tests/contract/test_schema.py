"""Structural schemas: what a CustomResourceDefinition keeps, prunes, fills in and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube.cluster import Json
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tests.contract.kinds import COMPOSITIONS, PREFIX, PROBES, RESOURCE_SLICES, definitions, probe
from tests.contract.refusals import ALREADY_EXISTS, INVALID, NOT_FOUND
from tests.contract.space import Space

INVALID_VALUE, WRONG_TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"
REQUIRED, UNSUPPORTED = "FieldValueRequired", "FieldValueNotSupported"
TOO_LONG, TOO_MANY, DUPLICATE = "FieldValueTooLong", "FieldValueTooMany", "FieldValueDuplicate"

FREE: Json = {"free": {"x": [{"y": None}]}}

KEPT: list[tuple[str, Json, Json]] = [
    ("an unknown field is pruned", {"unknown": 1}, {}),
    ("an unknown field of an object is pruned", {"named": {"name": "n", "x": 1}}, {"named": {"name": "n"}}),
    ("an unknown field of an element is pruned", {"items": [{"x": 1}]}, {"items": [{}]}),
    ("unknown fields are preserved where the schema says so", FREE, FREE),
    ("null is absence", {"text": None}, {}),
    ("null stays where it is allowed", {"maybe": None}, {"maybe": None}),
    ("an empty array stays", {"items": []}, {"items": []}),
    ("an empty object stays", {"words": {}}, {"words": {}}),
    ("an empty string stays", {"text": ""}, {"text": ""}),
    ("false stays", {"flag": False}, {"flag": False}),
    ("zero stays", {"count": 0}, {"count": 0}),
    ("a whole fraction becomes an integer", {"ratio": 2.0}, {"ratio": 2}),
    ("a fraction stays", {"ratio": 0.25}, {"ratio": 0.25}),
    ("a port may be a number", {"port": 80}, {"port": 80}),
    ("a port may be a name", {"port": "http"}, {"port": "http"}),
    ("a null member of a map of strings is dropped", {"words": {"a": None, "b": "c"}}, {"words": {"b": "c"}}),
    ("a time keeps its zone", {"when": "2026-01-01T00:00:00+02:00"}, {"when": "2026-01-01T00:00:00+02:00"}),
]


@pytest.mark.parametrize(("spec", "kept"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT])
def test_a_schema_keeps(space: Space, spec: Json, kept: Json) -> None:
    assert space.probe(**spec)["spec"] == kept | {"size": "medium"}


REFUSED: list[tuple[str, Json, tuple[str, str]]] = [
    ("a number for a string", {"text": 1}, ("spec.text", WRONG_TYPE)),
    ("a string for an integer", {"count": "1"}, ("spec.count", WRONG_TYPE)),
    ("a fraction for an integer", {"count": 1.5}, ("spec.count", WRONG_TYPE)),
    ("a string for a number", {"ratio": "1"}, ("spec.ratio", WRONG_TYPE)),
    ("a string for a boolean", {"flag": "true"}, ("spec.flag", WRONG_TYPE)),
    ("an object for an array", {"list": {"a": 1}}, ("spec.list", WRONG_TYPE)),
    ("an array for an object", {"named": []}, ("spec.named", WRONG_TYPE)),
    ("a number in an array of strings", {"list": ["a", 1]}, ("spec.list[1]", WRONG_TYPE)),
    ("null in an array of strings", {"list": ["a", None]}, ("spec.list[1]", WRONG_TYPE)),
    ("null in an array of objects", {"items": [None]}, ("spec.items[0]", WRONG_TYPE)),
    ("a number in a map of strings", {"words": {"a": 1}}, ("spec.words.a", WRONG_TYPE)),
    ("a boolean for a port", {"port": True}, ("spec.port", WRONG_TYPE)),
    ("a missing required member", {"named": {}}, ("spec.named.name", REQUIRED)),
    ("a required member that is null", {"named": {"name": None}}, ("spec.named.name", REQUIRED)),
    ("a value outside an enumeration", {"color": "blue"}, ("spec.color", UNSUPPORTED)),
    ("above a maximum", {"count": 11}, ("spec.count", INVALID_VALUE)),
    ("below a minimum", {"count": -1}, ("spec.count", INVALID_VALUE)),
    ("on an exclusive minimum", {"ratio": 0}, ("spec.ratio", INVALID_VALUE)),
    ("a time that is none", {"when": "yesterday"}, ("spec.when", WRONG_TYPE)),
    ("a time without a zone", {"when": "2026-01-01T00:00:00"}, ("spec.when", WRONG_TYPE)),
    ("a date alone", {"when": "2026-01-01"}, ("spec.when", WRONG_TYPE)),
    ("an empty time", {"when": ""}, ("spec.when", WRONG_TYPE)),
    ("against a pattern", {"code": "AB"}, ("spec.code", INVALID_VALUE)),
    ("too short", {"code": "a"}, ("spec.code", INVALID_VALUE)),
    ("too long", {"code": "abcde"}, ("spec.code", TOO_LONG)),
    ("too many elements", {"list": ["a"] * 4}, ("spec.list", TOO_MANY)),
    ("too few elements", {"list": []}, ("spec.list", INVALID_VALUE)),
    ("an element of a set twice", {"set": ["a", "b", "a"]}, ("spec.set[2]", DUPLICATE)),
    ("a key of a map list twice", {"map": [{"key": "a"}, {"key": "a"}]}, ("spec.map[1]", DUPLICATE)),
    ("a missing key of a map list", {"map": [{"value": "a"}]}, ("spec.map[0].key", REQUIRED)),
]


@pytest.mark.parametrize(("spec", "cause"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_schema_refuses(space: Space, spec: Json, cause: tuple[str, str]) -> None:
    created = space.probe("there")
    refused = space.refused(lambda h: h.create(PROBES, probe("new", **spec)))
    assert (refused.summary, refused.reply.causes) == (INVALID, [cause])
    refused = space.refused(lambda h: h.update(PROBES, created | {"spec": spec}, "there"))
    assert (refused.summary, refused.reply.causes) == (INVALID, [cause])


def test_a_value_of_another_type_can_be_wrong_as_a_value_too(space: Space) -> None:
    refused = space.refused(lambda h: h.create(PROBES, probe(color=1, map=["a", "b"])))
    assert refused.reply.causes == [
        ("spec.color", UNSUPPORTED),
        ("spec.color", WRONG_TYPE),
        ("spec.map[0]", INVALID_VALUE),
        ("spec.map[0]", WRONG_TYPE),
        ("spec.map[1]", WRONG_TYPE),
    ]


def test_a_text_that_is_too_long_is_not_matched(space: Space) -> None:
    refused = space.refused(lambda h: h.create(PROBES, probe(code="ABCDE")))
    assert refused.reply.causes == [("spec.code", TOO_LONG)]


def test_an_array_passes_for_a_time(space: Space) -> None:
    """Nobody asked for this, but a client may meet it."""
    assert space.probe(when=["a", 1])["spec"]["when"] == ["a", 1]


def test_true_is_not_one(space: Space) -> None:
    space.probe(free={"a": 1})
    patched = space.merge_patch(PROBES, {"spec": {"free": {"a": True}}})
    assert (patched["spec"]["free"], patched["metadata"]["generation"]) == ({"a": True}, 2)


def test_everything_that_is_wrong_is_named(space: Space) -> None:
    spec: Json = {"count": 11, "color": "blue", "named": {}, "items": [{"manifest": 1}, {"deleted": "no"}]}
    refused = space.refused(lambda h: h.create(PROBES, probe(**spec)))
    assert refused.reply.causes == [
        ("spec.color", UNSUPPORTED),
        ("spec.count", INVALID_VALUE),
        ("spec.items[0].manifest", WRONG_TYPE),
        ("spec.items[1].deleted", WRONG_TYPE),
        ("spec.named.name", REQUIRED),
    ]


def test_a_default_is_filled_in_and_can_be_overridden(space: Space) -> None:
    assert space.probe("a")["spec"] == {"size": "medium"}
    assert space.probe("b", size="large")["spec"] == {"size": "large"}
    assert space.merge_patch(PROBES, {"spec": {"size": None}}, "b")["spec"] == {"size": "medium"}


def test_unknown_fields_outside_the_schema_are_pruned(space: Space) -> None:
    created = space.create(PROBES, probe() | {"data": {"x": 1}})
    assert created.keys() == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize(
    ("validation", "code", "warns"),
    [("Strict", 400, False), ("Warn", 201, True), ("Ignore", 201, False), ("", 201, True), ("Invented", 422, False)],
)
@pytest.mark.parametrize(
    ("resource", "body", "unknown"),
    [
        (PROBES, probe("a", unknown=1), "spec.unknown"),
        (SECRETS, {"metadata": {"name": "a"}, "unknown": 1}, "unknown"),
        (PROBES, probe("a") | {"metadata": {"name": "a", "unknown": 1}}, "metadata.unknown"),
    ],
    ids=["of a custom kind", "of a built-in kind", "of the metadata"],
)
def test_field_validation_decides_about_unknown_fields(
    space: Space, resource: Any, body: Json, unknown: str, validation: str, code: int, warns: bool
) -> None:
    query = f"fieldValidation={validation}" if validation else ""
    reply = space.ask("POST", resource, query=query, body=json.dumps(body).encode())
    assert reply.code == code
    assert (f'unknown field \\"{unknown}\\"' in reply.headers.get("warning", "")) is warns
    if validation == "Strict":
        assert f'strict decoding error: unknown field "{unknown}"' in reply.message


@pytest.mark.parametrize("resource", [PROBES, SECRETS], ids=lambda kind: str(kind.kind))
def test_a_field_that_comes_twice_is_refused_strictly(space: Space, resource: Any) -> None:
    head = f'{{"apiVersion":"{resource.api_version}","kind":"{resource.kind}",'
    body = (head + '"metadata":{"name":"a","labels":{"x":"1","x":"2"}}}').encode()
    reply = space.ask("POST", resource, query="fieldValidation=Strict", body=body)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert 'duplicate field "metadata.labels.x"' in reply.message
    assert space.ask("POST", resource, body=body).json["metadata"]["labels"] == {"x": "2"}


def test_an_invalid_object_stays_as_it_is_when_only_a_part_is_mended(space: Space) -> None:
    space.probe(count=1)
    bad = {"spec": {"count": 11, "color": "blue"}}
    space.refused(lambda h: h.merge_patch(PROBES, bad))
    half = space.refused(lambda h: h.merge_patch(PROBES, {"spec": {"count": 2, "color": "blue"}}))
    assert half.reply.causes == [("spec.color", UNSUPPORTED)]


def test_a_slice_takes_manifests_and_prunes_the_rest(space: Space) -> None:
    entries: list[Json] = [{"manifest": "{}", "deleted": True, "invented": 1}, {"manifest": "{}"}]
    body: Json = {"apiVersion": RESOURCE_SLICES.api_version, "kind": "ResourceSlice", "metadata": {"name": "a"}}
    created = space.create(RESOURCE_SLICES, body | {"spec": {"synthesisUUID": "u", "resources": entries}})
    assert created["spec"]["resources"] == [{"manifest": "{}", "deleted": True}, {"manifest": "{}"}]
    add = {"op": "add", "path": "/spec/resources/-", "value": {"manifest": "{}", "deleted": "yes"}}
    refused = space.refused(lambda h: h.json_patch(RESOURCE_SLICES, add))
    assert refused.reply.causes == [("spec.resources[2].deleted", WRONG_TYPE)]


def test_a_null_entry_of_a_slice_is_refused(space: Space) -> None:
    body: Json = {"apiVersion": RESOURCE_SLICES.api_version, "kind": "ResourceSlice", "metadata": {"name": "a"}}
    refused = space.refused(lambda h: h.create(RESOURCE_SLICES, body | {"spec": {"resources": [None]}}))
    assert refused.reply.causes == [("spec.resources[0]", WRONG_TYPE)]


def test_null_entries_of_a_status_are_refused(space: Space) -> None:
    """An entry of `resourceSlices` without a name is possible, one that is null is not."""
    body: Json = {"apiVersion": COMPOSITIONS.api_version, "kind": "Composition", "metadata": {"name": "a"}}
    space.create(COMPOSITIONS, body)
    slices = {"status": {"currentSynthesis": {"uuid": "u", "resourceSlices": [{"name": "s"}, None]}}}
    refused = space.refused(lambda h: h.merge_patch(COMPOSITIONS, slices, subresource="status"))
    assert refused.reply.causes == [("status.currentSynthesis.resourceSlices[1]", WRONG_TYPE)]
    slices["status"]["currentSynthesis"]["resourceSlices"][1] = {}  # type: ignore[index]
    patched = space.merge_patch(COMPOSITIONS, slices, subresource="status")
    assert patched["status"]["currentSynthesis"]["resourceSlices"] == [{"name": "s"}, {}]


def test_a_definition_that_is_there_is_taken(space: Space) -> None:
    definition = next(definitions())
    refused = space.refused(lambda h: h.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition))
    assert refused.summary == ALREADY_EXISTS


def test_a_definition_is_established(space: Space) -> None:
    found = space.cluster.get(CUSTOM_RESOURCE_DEFINITIONS, None, PROBES.qualified)
    established = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert established == {"NamesAccepted": "True", "Established": "True"}
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["spec"]["names"] == {
        "plural": "probes",
        "singular": "probe",
        "kind": "Probe",
        "listKind": "ProbeList",
    }


def test_a_definition_needs_the_right_name_and_one_stored_version(space: Space) -> None:
    definition = next(definitions())
    wrong = definition | {"metadata": {"name": f"others.{PREFIX}.example.com"}}
    refused = space.refused(lambda h: h.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, wrong))
    assert (refused.summary, ("metadata.name", INVALID_VALUE) in refused.reply.causes) == (INVALID, True)


def test_what_was_never_defined_is_not_found(space: Space) -> None:
    reply = space.server.get(f"/apis/{PREFIX}-other.example.com/v1/others")
    assert (reply.code, reply.status) == (404, {})
    assert space.refused(lambda h: h.cluster.get(CUSTOM_RESOURCE_DEFINITIONS, None, "x.y")).summary == NOT_FOUND
