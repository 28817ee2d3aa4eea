"""Label selectors as the API server understands them, and scopes made of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import UsageError
from eno.scope import Scope
from eno.selectors import LabelSelector
from tests.support.factories import composition


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ("", {}, True),
        ("  ", {"a": "b"}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a = b", {"a": "b"}, True),
        ("a=b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c)", {"a": "d"}, False),
        ("a in (b)", {}, False),
        ("a notin (b,c)", {"a": "d"}, True),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a=b,c!=d", {"a": "b"}, True),
        ("a=b,x in (y,z),!q", {"a": "b", "x": "z"}, True),
        ("a=b,x in (y,z),!q", {"a": "b", "x": "z", "q": ""}, False),
        ("example.com/part-of=shop", {"example.com/part-of": "shop"}, True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert LabelSelector.parse(selector).matches(labels) is selected


@pytest.mark.parametrize(
    "selector",
    [
        "=",
        "a=b=c",
        "a in",
        "a in b",
        "a in (b",
        ",",
        "a,",
        "a b",
        "-a",
        "a=-b",
        "a=b c",
        "/a=b",
        "A/B/c",
        "a in ((b))",
        "a>1",
    ],
)
def test_a_selector_that_cannot_be_parsed_is_refused_in_one_line(selector: str) -> None:
    with pytest.raises(UsageError, match=r"label selector .* cannot be parsed; write") as caught:
        LabelSelector.parse(selector)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=30) | st.text(alphabet="ab=!,() in", max_size=12))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert LabelSelector.parse(text).matches({}) in (True, False)


SCOPE = Scope(composition_namespace="apps", recovery_namespace="apps", recovery_enabled=True)


@pytest.mark.parametrize(
    ("scope", "watch", "recovery"),
    [
        pytest.param({}, None, None, id="inside"),
        pytest.param({"composition_namespace": ""}, None, None, id="all namespaces"),
        pytest.param({"composition_namespace": "b"}, "outside b", "outside b", id="another namespace is watched"),
        pytest.param({"recovery_namespace": "b"}, None, "outside the recovery namespace b", id="not to be recovered"),
        pytest.param({"recovery_enabled": False}, None, "disabled", id="recovery is disabled"),
        pytest.param({"label_selector": "a=b"}, "do not match a=b", "do not match a=b", id="labels do not match"),
    ],
)
def test_a_composition_is_in_scope_when_namespace_labels_and_switches_agree(
    scope: dict[str, object], watch: str | None, recovery: str | None
) -> None:
    changed = SCOPE.model_copy(update=scope)
    for expected, found in [
        (watch, changed.outside_watch(composition())),
        (recovery, changed.outside_recovery(composition())),
    ]:
        assert found is None if expected is None else (found is not None and found.endswith(expected))
