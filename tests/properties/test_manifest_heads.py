"""Heads of manifests, beside a plain reading of the whole document."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eno.errors import MalformedManifest
from eno.identity import Head, ResourceId, parse_head
from tests.properties.strategies import JSON, NUMBERS, TEXTS, json_values, repeatable

STRINGS = st.dictionaries(TEXTS, TEXTS, max_size=3)
HEADS = st.fixed_dictionaries(
    {"apiVersion": TEXTS | st.sampled_from(["v1", "apps/v1", "eno.azure.io/v1", "/", "a/b/c"])},
    optional={
        "kind": TEXTS | st.sampled_from(["Patch", "Deployment"]),
        "metadata": st.fixed_dictionaries(
            {"name": TEXTS},
            optional={
                "namespace": TEXTS | st.none(),
                "labels": STRINGS | st.none(),
                "annotations": STRINGS | st.none(),
            },
        ),
        "patch": JSON | st.fixed_dictionaries({"apiVersion": TEXTS, "kind": TEXTS}),
        "spec": JSON,
        "data": NUMBERS,
    },
)


def plainly(document: dict[str, Any]) -> Head | None:
    """The head by the whole document, without msgspec; None when it has none. For documents of `HEADS`."""
    target, metadata = document, document.get("metadata", {})
    is_patch = document.get("kind") == "Patch" and document["apiVersion"].rpartition("/")[0] == "eno.azure.io"
    if is_patch:
        target = document.get("patch", {})
        if not isinstance(target, dict) or not all(isinstance(target.get(k, ""), str) for k in ("apiVersion", "kind")):
            return None
    *groups, version = target.get("apiVersion", "").split("/")
    kind, name = target.get("kind"), metadata.get("name")
    if len(groups) > 1 or "" in groups:
        return None
    if not (document.get("kind") and version and kind and name):
        return None
    identity = ResourceId("".join(groups), kind, metadata.get("namespace") or "", name)
    return Head(identity, version, metadata.get("labels") or {}, metadata.get("annotations") or {}, is_patch)


def parsed(text: str) -> Head | None:
    with contextlib.suppress(MalformedManifest):
        return parse_head(text)
    return None


@repeatable(500)
@given(HEADS, st.booleans())
def test_a_head_is_what_a_reader_of_the_whole_document_finds(document: dict[str, Any], escaped: bool) -> None:
    assert parsed(json.dumps(document, ensure_ascii=escaped)) == plainly(document)


@repeatable()
@given(HEADS, HEADS)
def test_of_two_equal_keys_the_last_one_counts(first: dict[str, Any], last: dict[str, Any]) -> None:
    text = f"{json.dumps(first)[:-1]}, {json.dumps(last)[1:]}"
    assert parsed(text) in (plainly({**first, **last}), None)


@repeatable()
@given(json_values(TEXTS | st.sampled_from(["apiVersion", "kind", "metadata", "patch", "name", "labels"])))
def test_any_json_is_a_head_or_malformed(document: Any) -> None:
    found = parsed(json.dumps(document))
    assert found is None or found.id.name


@repeatable()
@given(HEADS, st.integers(0, 400), st.text(max_size=3) | st.sampled_from(["\ud800", "\\ud800", '"', "\\", "\x00"]))
def test_a_document_with_anything_cut_in_is_a_head_or_malformed(document: dict[str, Any], at: int, what: str) -> None:
    text = json.dumps(document)
    found = parsed(text[:at] + what + text[at:])
    assert found is None or found.id.name


@repeatable()
@given(HEADS, st.integers(1, 400))
def test_a_document_that_is_cut_off_is_malformed(document: dict[str, Any], left: int) -> None:
    text = json.dumps(document)
    with pytest.raises(MalformedManifest):
        parse_head(text[: min(left, len(text) - 1)])


@repeatable(30)
@given(st.sampled_from(["spec", "patch", "metadata"]), st.sampled_from(["[]", '{"a":}']), st.integers(1, 20_000))
@example("spec", "[]", 200_000)
@example("spec", '{"a":}', 200_000)
def test_no_nesting_is_too_deep_to_be_judged(where: str, brackets: str, depth: int) -> None:
    nested = f"{brackets[:-1] * depth}1{brackets[-1] * depth}"
    text = f'{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"a"}},"{where}":{nested}}}'
    found = parsed(text)
    assert found is None or found.id == ResourceId("", "Secret", "", "a")


@repeatable(50)
@given(st.sampled_from(["spec", "apiVersion", "metadata"]), st.integers(1, 10_000))
def test_no_number_is_too_long_to_be_judged(where: str, digits: int) -> None:
    found = parsed(f'{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"a"}},"{where}":{"9" * digits}}}')
    assert (found is not None) is (where == "spec")


@repeatable()
@given(st.dictionaries(st.sampled_from(["eno.azure.io/overrides", "eno.azure.io/disable-reconciliation"]), TEXTS))
def test_whatever_the_annotations_say_the_resource_is_managed_or_not(annotations: dict[str, str]) -> None:
    head = Head(ResourceId("", "Secret", "", "a"), "v1", {}, annotations)
    told = annotations.get("eno.azure.io/disable-reconciliation") == "true"
    assert head.managed in ((False,) if told else (True, False))
