"""What names, labels, annotations, finalizers and owners may look like."""

from __future__ import annotations

from typing import Any

import pytest

from kube.cluster import Json
from kube.resources import LEASES, NAMESPACES, SECRETS, Resource
from tests.contract.kinds import PREFIX, PROBES, probe, with_metadata
from tests.contract.refusals import INVALID
from tests.contract.space import Space

INVALID_VALUE = "FieldValueInvalid"
KINDS = pytest.mark.parametrize("kind", [PROBES, SECRETS, LEASES], ids=lambda kind: str(kind.kind))


def body(kind: Resource, **metadata: object) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a", **metadata}}


def owner(**members: object) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": "u", **members}


@KINDS
@pytest.mark.parametrize("name", ["a", "0", "a-b", "a.b", "a" * 253, "1.2-3"])
def test_a_dns_subdomain_is_a_name(space: Space, kind: Resource, name: str) -> None:
    assert space.create(kind, body(kind, name=name))["metadata"]["name"] == name


@KINDS
@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", ".a", "a.", "a..b", "a b", "ä", "a" * 254, "a\n"])
def test_anything_else_is_none(space: Space, kind: Resource, name: str) -> None:
    refused = space.refused(lambda h: h.create(kind, body(kind, name=name)))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("metadata.name", INVALID_VALUE)])


@KINDS
@pytest.mark.parametrize("base", ["A", "a_", ".a", "-"])
def test_what_a_name_is_generated_from_is_looked_at_too(space: Space, kind: Resource, base: str) -> None:
    refused = space.refused(lambda h: h.create(kind, with_metadata(body(kind), name=None, generateName=base)))
    assert refused.summary == INVALID
    assert ("metadata.generateName", INVALID_VALUE) in refused.reply.causes


@KINDS
@pytest.mark.parametrize(
    ("member", "value"),
    [
        pytest.param("labels", {"a": ""}, id="an empty label"),
        pytest.param("labels", {"example.com/A_b.c-1": "A_b.c-1"}, id="a label with a domain"),
        pytest.param("labels", {"a" * 63: "b" * 63}, id="a label of 63 characters"),
        pytest.param("labels", {f"{'a' * 253}/b": "c"}, id="a label with a domain of 253 characters"),
        pytest.param("annotations", {"Example.com/A": " <anything> ä\n"}, id="an annotation"),
        pytest.param("annotations", {"a": "x" * 262_143}, id="annotations of 256 KiB"),
        pytest.param("finalizers", ["example.com/a", "example.com/a"], id="a finalizer twice"),
        pytest.param("finalizers", ["foregroundDeletion"], id="a finalizer of deletion"),
        pytest.param("ownerReferences", [owner(), owner(uid="v", controller=True)], id="owners"),
    ],
)
def test_metadata_are_accepted(space: Space, kind: Resource, member: str, value: Any) -> None:
    assert space.create(kind, body(kind, **{member: value}))["metadata"][member] == value


@KINDS
@pytest.mark.parametrize(
    ("member", "value", "field"),
    [
        pytest.param("labels", {"a": "b c"}, "labels", id="a label with a space"),
        pytest.param("labels", {"a": "-b"}, "labels", id="a label with a dash in front"),
        pytest.param("labels", {"a": "b" * 64}, "labels", id="a label of 64 characters"),
        pytest.param("labels", {"": "b"}, "labels", id="an empty label key"),
        pytest.param("labels", {"a/b/c": "d"}, "labels", id="a label key with two slashes"),
        pytest.param("labels", {"/b": "d"}, "labels", id="a label key without a domain"),
        pytest.param("labels", {"a/": "d"}, "labels", id="a label key without a name"),
        pytest.param("labels", {"A/b": "d"}, "labels", id="a label key with a domain in capitals"),
        pytest.param("labels", {"a" * 64: "b"}, "labels", id="a label key of 64 characters"),
        pytest.param("annotations", {"a b": ""}, "annotations", id="an annotation key with a space"),
        pytest.param("annotations", {"a/b/c": ""}, "annotations", id="an annotation key with two slashes"),
        pytest.param("finalizers", ["a b/c"], "finalizers", id="a finalizer with a space"),
        pytest.param("finalizers", ["orphan", "foregroundDeletion"], "finalizers", id="both finalizers of deletion"),
        pytest.param("ownerReferences", [owner(uid="")], "ownerReferences.uid", id="an owner without a uid"),
        pytest.param("ownerReferences", [owner(name="")], "ownerReferences.name", id="an owner without a name"),
        pytest.param("ownerReferences", [owner(kind="")], "ownerReferences.kind", id="an owner without a kind"),
        pytest.param(
            "ownerReferences", [owner(apiVersion="")], "ownerReferences.apiVersion", id="an owner without a version"
        ),
        pytest.param(
            "ownerReferences",
            [owner(controller=True), owner(uid="v", controller=True)],
            "ownerReferences",
            id="two controllers",
        ),
    ],
)
def test_metadata_are_refused(space: Space, kind: Resource, member: str, value: Any, field: str) -> None:
    space.create(kind, body(kind, name="there"))
    refused = space.refused(lambda h: h.create(kind, body(kind, **{member: value})))
    assert (refused.summary, refused.reply.causes) == (INVALID, [(f"metadata.{field}", INVALID_VALUE)])
    refused = space.refused(lambda h: h.merge_patch(kind, {"metadata": {member: value}}, "there"))
    assert (refused.summary, refused.reply.causes) == (INVALID, [(f"metadata.{field}", INVALID_VALUE)])


@KINDS
def test_annotations_of_more_than_256_kib_are_refused(space: Space, kind: Resource) -> None:
    annotations = {"a": "x" * 131_072, "b": "x" * 131_071}
    refused = space.refused(lambda h: h.create(kind, body(kind, annotations=annotations)))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("metadata.annotations", "FieldValueTooLong")])


@pytest.mark.parametrize("name", ["a.b", "a" * 64, "A"], ids=["with a dot", "of 64 characters", "in capitals"])
def test_the_name_of_a_namespace_is_a_dns_label(space: Space, name: str) -> None:
    named = {"metadata": {"name": f"{PREFIX}{name}"}}
    refused = space.refused(lambda h: h.cluster.create(NAMESPACES, None, named))
    assert refused.summary == INVALID
    assert ("metadata.name", INVALID_VALUE) in refused.reply.causes


@pytest.mark.parametrize(
    "metadata",
    [{"labels": None, "annotations": None}, {"labels": {}, "finalizers": []}],
    ids=["null", "empty"],
)
def test_nothing_is_not_kept(space: Space, metadata: Json) -> None:
    created = space.create(PROBES, probe() | {"metadata": {"name": "a", **metadata}})
    assert not metadata.keys() & created["metadata"].keys()


def test_a_null_label_becomes_an_empty_one(space: Space) -> None:
    """Go decodes it so."""
    created = space.create(PROBES, with_metadata(probe(), labels={"a": None}))
    assert created["metadata"]["labels"] == {"a": ""}


def test_null_elements_become_empty_ones(space: Space) -> None:
    nulls = with_metadata(probe(), finalizers=[None], ownerReferences=[None])
    refused = space.refused(lambda h: h.create(PROBES, nulls))
    members = {field.removeprefix("metadata.") for field, _ in refused.reply.causes}
    assert members == {"finalizers", *(f"ownerReferences.{name}" for name in ("apiVersion", "kind", "name", "uid"))}


def test_a_kind_that_is_no_text_is_none(space: Space) -> None:
    space.probe()
    refused = space.refused(lambda h: h.json_patch(PROBES, {"op": "replace", "path": "/kind", "value": 1}))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("patch", INVALID_VALUE)])


def test_a_built_in_kind_keeps_the_generation_it_was_created_with(space: Space) -> None:
    created = space.create(SECRETS, body(SECRETS, generation=3))
    assert created["metadata"]["generation"] == 3
    assert space.merge_patch(SECRETS, {"metadata": {"generation": 4}})["metadata"]["generation"] == 3
