"""Manifest heads, identities, and comparing that errs on the side of "wanted"."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import MalformedManifest, UsageError
from eno.identity import ResourceId, Wanted, parse_head
from tests.support.factories import head, manifest, patch_manifest

DISABLED = "eno.azure.io/disable-reconciliation"
OVERRIDES = "eno.azure.io/overrides"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "truncated", id="empty"),
        pytest.param("{", "truncated", id="not JSON"),
        pytest.param("[]", "array", id="not an object"),
        pytest.param("null", "null", id="null"),
        pytest.param('{"kind":"A","metadata":{"name":"x"}}', "apiVersion", id="no apiVersion"),
        pytest.param('{"apiVersion":"v1","metadata":{"name":"x"}}', "kind", id="no kind"),
        pytest.param('{"apiVersion":"v1","kind":"","metadata":{"name":"x"}}', "kind", id="empty kind"),
        pytest.param('{"apiVersion":"v1","kind":"A"}', "metadata", id="no metadata"),
        pytest.param('{"apiVersion":"v1","kind":"A","metadata":{}}', "missing", id="no name"),
        pytest.param(
            '{"apiVersion":"v1","kind":"A","metadata":{"generateName":"x-"}}', "missing", id="only generateName"
        ),
        pytest.param('{"apiVersion":"a/","kind":"A","metadata":{"name":"x"}}', "missing", id="empty version"),
        pytest.param('{"apiVersion":"/v1","kind":"A","metadata":{"name":"x"}}', "apiVersion", id="empty group"),
        pytest.param('{"apiVersion":"a/b/c","kind":"A","metadata":{"name":"x"}}', "apiVersion", id="two slashes"),
        pytest.param(
            '{"apiVersion":"v1","kind":"A","metadata":{"name":"x","labels":{"a":1}}}', "labels", id="label not a string"
        ),
        pytest.param(
            '{"apiVersion":"v1","kind":"A","metadata":{"name":"x","annotations":{"a":null}}}',
            "annotations",
            id="annotation not a string",
        ),
        pytest.param('{"apiVersion":"v1","kind":"A","metadata":{"name":"x"}} {}', "trailing", id="two documents"),
        pytest.param('{"apiVersion":"v1","kind":"A","metadata":{"name":"\\ud800"}}', "truncated", id="lone surrogate"),
        pytest.param("\ud800", "utf-8", id="text that is not Unicode"),
        pytest.param(
            '{"apiVersion":"v1","kind":"A","metadata":{"name":"x"},"z":' + "[" * 100_000 + "]" * 100_000 + "}",
            "nested too deeply",
            id="nested too deeply",
        ),
        pytest.param(
            '{"apiVersion":"eno.azure.io/v1","kind":"Patch","metadata":{"name":"x"}}',
            "missing",
            id="Patch without a patch",
        ),
        pytest.param(
            '{"apiVersion":"eno.azure.io/v1","kind":"Patch","metadata":{"name":"x"},"patch":{"kind":"A"}}',
            "missing",
            id="Patch without a target version",
        ),
        pytest.param(
            '{"apiVersion":"eno.azure.io/v1","kind":"Patch","metadata":{"name":"x"},"patch":{"apiVersion":"v1"}}',
            "missing",
            id="Patch without a target kind",
        ),
    ],
)
def test_a_manifest_that_cannot_be_identified_is_malformed(text: str, says: str) -> None:
    with pytest.raises(MalformedManifest, match=says):
        parse_head(text)


def test_a_head_holds_identity_version_labels_and_annotations() -> None:
    parsed = head("Deployment", "web", api_version="apps/v1", labels={"a": "b"}, annotations={"c": "d"})
    assert parsed.id == ResourceId("apps", "Deployment", "shop", "web")
    assert (parsed.version, parsed.labels, parsed.annotations, parsed.is_patch) == ("v1", {"a": "b"}, {"c": "d"}, False)


def test_the_identity_of_a_patch_is_its_target() -> None:
    parsed = parse_head(patch_manifest("Deployment", "web", "apps/v1"))
    assert (parsed.id, parsed.version, parsed.is_patch) == (ResourceId("apps", "Deployment", "shop", "web"), "v1", True)


@pytest.mark.parametrize("patch", ['[{"op":"add"}]', '"text"', "7", "null"])
def test_other_kinds_may_have_a_patch_of_any_shape(patch: str) -> None:
    text = f'{{"apiVersion":"v1","kind":"Patch","metadata":{{"name":"x"}},"patch":{patch}}}'
    assert parse_head(text).id.kind == "Patch"


@pytest.mark.parametrize(
    ("annotations", "managed"),
    [
        pytest.param({}, True, id="plain"),
        pytest.param({DISABLED: "true"}, False, id="disabled"),
        pytest.param({DISABLED: "false"}, True, id="not disabled"),
        pytest.param({DISABLED: "True"}, True, id="only exactly true disables"),
        pytest.param({OVERRIDES: json.dumps([{"path": f"metadata.{DISABLED}"}])}, False, id="disabled by an override"),
        pytest.param({OVERRIDES: '[{"path":"eno.azure.io\\/disable-reconciliation"}]'}, False, id="escaped override"),
        pytest.param({OVERRIDES: f"not JSON but names {DISABLED}"}, False, id="in doubt not managed"),
        pytest.param({OVERRIDES: '[{"path":"self.spec.replicas"}]'}, True, id="another override"),
        pytest.param({OVERRIDES: "[" * 100_000}, True, id="an override that is nested too deeply"),
    ],
)
def test_what_eno_was_told_to_leave_alone_is_not_managed(annotations: dict[str, str], managed: bool) -> None:
    assert head(annotations=annotations).managed is managed


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_any_text_is_a_head_or_malformed(text: str) -> None:
    with contextlib.suppress(MalformedManifest):
        assert parse_head(text).id.name


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "apiVersion": json_values,
            "kind": json_values | st.just("Patch"),
            "metadata": json_values | st.fixed_dictionaries({"name": json_values}, optional={"labels": json_values}),
            "patch": json_values,
        },
    )
)
def test_any_document_is_a_head_or_malformed(document: dict[str, object]) -> None:
    try:
        parsed = parse_head(json.dumps(document))
    except MalformedManifest:
        return
    assert parsed.id.name == document["metadata"]["name"]  # type: ignore[index]


@given(st.builds(ResourceId, st.text(), st.text(), st.text(), st.text()))
def test_the_identity_codec_is_lossless(identity: ResourceId) -> None:
    assert ResourceId.decode(identity.encode()) == identity


@given(st.text() | st.text(alphabet="a/%2Ff5"))
def test_decoding_takes_only_what_encoding_makes(text: str) -> None:
    try:
        identity = ResourceId.decode(text)
    except UsageError:
        return
    assert identity.encode() == text


CONFIG = ResourceId("", "ConfigMap", "shop", "web")


@pytest.mark.parametrize(
    ("current", "asked", "wanted"),
    [
        pytest.param(CONFIG, CONFIG, True, id="equal"),
        pytest.param(CONFIG, CONFIG._replace(name="other"), False, id="another name"),
        pytest.param(CONFIG, CONFIG._replace(kind="Secret"), False, id="another kind"),
        pytest.param(CONFIG, CONFIG._replace(group="x.io"), False, id="another group"),
        pytest.param(CONFIG, CONFIG._replace(namespace="b"), False, id="another namespace"),
        pytest.param(CONFIG, CONFIG._replace(namespace=""), True, id="asked without a namespace"),
        pytest.param(CONFIG._replace(namespace=""), CONFIG, True, id="current without a namespace"),
        pytest.param(
            ResourceId("", "Namespace", "a", "x"), ResourceId("", "Namespace", "b", "x"), True, id="cluster-scoped kind"
        ),
        pytest.param(
            ResourceId("policy", "PodSecurityPolicy", "a", "x"),
            ResourceId("extensions", "PodSecurityPolicy", "b", "x"),
            True,
            id="cluster-scoped kind under its older group",
        ),
        pytest.param(
            ResourceId("x.io", "Namespace", "a", "x"),
            ResourceId("x.io", "Namespace", "b", "x"),
            False,
            id="same kind in a group of somebody else",
        ),
        *(
            pytest.param(ResourceId(new, kind, "a", "x"), ResourceId(old, kind, "a", "x"), True, id=f"{old} {kind}")
            for old, kind, new in [
                ("extensions", "Ingress", "networking.k8s.io"),
                ("extensions", "NetworkPolicy", "networking.k8s.io"),
                ("extensions", "Deployment", "apps"),
                ("extensions", "DaemonSet", "apps"),
                ("extensions", "ReplicaSet", "apps"),
                ("extensions", "PodSecurityPolicy", "policy"),
                ("", "Event", "events.k8s.io"),
            ]
        ),
        pytest.param(
            ResourceId("apps", "StatefulSet", "a", "x"),
            ResourceId("extensions", "StatefulSet", "a", "x"),
            False,
            id="extensions is no alias for every kind",
        ),
    ],
)
def test_comparing_errs_on_the_side_of_wanted(current: ResourceId, asked: ResourceId, wanted: bool) -> None:
    assert (asked in Wanted([current])) is wanted
    assert (current in Wanted([asked])) is wanted, "comparing is symmetric"


def test_an_identity_reads_well() -> None:
    assert str(head("Deployment", api_version="apps/v1").id) == "Deployment.apps shop/web"
    assert str(head("Namespace", "shop", "").id) == "Namespace shop"


def test_names_may_hold_separators() -> None:
    odd = ResourceId("rbac.authorization.k8s.io", "ClusterRole", "", "system:a_b.c/d%2F")
    assert ResourceId.decode(odd.encode()) == odd


def test_a_manifest_factory_is_what_the_parser_reads() -> None:
    assert parse_head(manifest(name="x")).id == ResourceId("", "ConfigMap", "shop", "x")


@pytest.mark.parametrize(
    ("namespaces", "asked", "wanted"),
    [
        pytest.param(["a", "b"], "a", True, id="the first of two"),
        pytest.param(["a", "b"], "b", True, id="the second of two"),
        pytest.param(["a", "b", "c"], "c", True, id="the third"),
        pytest.param(["a", "b"], "c", False, id="none of them"),
        pytest.param(["a", ""], "c", True, id="an open one among them"),
    ],
)
def test_a_name_that_is_wanted_in_several_namespaces_is_wanted_in_each(
    namespaces: list[str], asked: str, wanted: bool
) -> None:
    several = Wanted(CONFIG._replace(namespace=each) for each in namespaces)
    assert (CONFIG._replace(namespace=asked) in several) is wanted
