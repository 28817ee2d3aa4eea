"""Names, labels, annotations, finalizers and owner references."""

from __future__ import annotations

import pytest

from devcluster.metadata import ANNOTATIONS_LIMIT, created_causes
from kube.cluster import Json
from kube.resources import COMPOSITIONS
from tests.unit.devcluster.factories import composition, kind_of, new_store, refusal

OWNER: Json = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "name": "web", "uid": "u"}

VALID: dict[str, Json] = {
    "a name of one letter": {"name": "a"},
    "a name with dots and dashes": {"name": "a.b-c.d1"},
    "the longest name": {"name": "a" * 253},
    "a label without a prefix": {"labels": {"Web_1.x": "Value_1.x"}},
    "a label with a prefix": {"labels": {"eno.azure.io/recovery": ""}},
    "the longest label": {"labels": {"a" * 63: "v" * 63, f"{'p' * 253}/{'a' * 63}": ""}},
    "an annotation with anything in it": {"annotations": {"a/b": "any\nthing"}},
    "an annotation in capitals before the slash": {"annotations": {"EXAMPLE.com/b": ""}},
    "annotations of exactly the limit": {"annotations": {"a": "x" * (ANNOTATIONS_LIMIT - 1)}},
    "a finalizer": {"finalizers": ["eno.azure.io/cleanup", "orphan"]},
    "one controller among owners": {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v"}]},
}

INVALID: dict[str, tuple[Json, list[str]]] = {
    "no name": ({"name": ""}, ["metadata.name"]),
    "a name in capitals": ({"name": "Web"}, ["metadata.name"]),
    "a name that ends with a dash": ({"name": "web-"}, ["metadata.name"]),
    "a name with two dots": ({"name": "a..b"}, ["metadata.name"]),
    "a name that is too long": ({"name": "a" * 254}, ["metadata.name"]),
    "a bad generateName": ({"generateName": "Web_"}, ["metadata.generateName"]),
    "a label key with a blank": ({"labels": {"a b": ""}}, ["metadata.labels"]),
    "a label key with two slashes": ({"labels": {"a/b/c": ""}}, ["metadata.labels"]),
    "a label key with an empty prefix": ({"labels": {"/a": ""}}, ["metadata.labels"]),
    "a label key that is too long": ({"labels": {"a" * 64: ""}}, ["metadata.labels"]),
    "a label value with a dash in front": ({"labels": {"a": "-x"}}, ["metadata.labels"]),
    "a label value that is too long": ({"labels": {"a": "x" * 64}}, ["metadata.labels"]),
    "an annotation key with a blank": ({"annotations": {"a b": ""}}, ["metadata.annotations"]),
    "annotations above the limit": ({"annotations": {"a": "x" * ANNOTATIONS_LIMIT}}, ["metadata.annotations"]),
    "a finalizer with a blank": ({"finalizers": ["a b"]}, ["metadata.finalizers"]),
    "an owner without anything": (
        {"ownerReferences": [{}]},
        [f"metadata.ownerReferences.{name}" for name in ("apiVersion", "kind", "name", "uid")],
    ),
    "two controllers": (
        {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]},
        ["metadata.ownerReferences"],
    ),
}


@pytest.mark.parametrize("meta", VALID.values(), ids=VALID)
def test_valid_metadata(meta: Json) -> None:
    assert created_causes({"name": "web", **meta}) == []


@pytest.mark.parametrize(("meta", "fields"), INVALID.values(), ids=INVALID)
def test_invalid_metadata(meta: Json, fields: list[str]) -> None:
    assert [cause.field for cause in created_causes({"name": "web", **meta})] == fields


def test_invalid_labels_refuse_an_update_but_old_ones_do_not() -> None:
    store = new_store()
    kind = kind_of(store, COMPOSITIONS)
    store.create(kind, "default", composition(meta={"labels": {"a": "b"}}))
    with refusal(422, "Invalid"):
        store.patch(kind, "default", "web", lambda body: body["metadata"]["labels"].update(a="-") or body)
