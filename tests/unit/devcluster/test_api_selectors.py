"""Label and field selectors, with kube-apiserver's grammar and words."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.builtin import CONFIG_MAPS
from devcluster.selectors import parse_fields, parse_labels
from devcluster.statuses import Refusal
from kube.resources import COMPOSITIONS, EVENTS, NAMESPACES, SECRETS, Resource
from tests.unit.devcluster.factories import kind_of, new_store, refusal

OBJECTS: dict[str, dict[str, str]] = {
    "c0": {"i": "0", "odd": "n"},
    "c1": {"i": "1", "odd": "y"},
    "c2": {"i": "2", "odd": "n"},
    "bare": {},
    "empty": {"odd": ""},
}

MATCHES: dict[str, list[str]] = {
    "": ["c0", "c1", "c2", "bare", "empty"],
    "odd=y": ["c1"],
    "odd==y": ["c1"],
    " odd = y ": ["c1"],
    "odd!=y": ["c0", "c2", "bare", "empty"],
    "odd": ["c0", "c1", "c2", "empty"],
    "!odd": ["bare"],
    "odd=": ["empty"],
    "odd in (y,n)": ["c0", "c1", "c2"],
    "odd in ( y , n )": ["c0", "c1", "c2"],
    "odd in (y,)": ["c1", "empty"],
    "odd in ()": ["empty"],
    "odd notin (y)": ["c0", "c2", "bare", "empty"],
    "i>0": ["c1", "c2"],
    "i<1": ["c0"],
    "odd=n,i=2": ["c2"],
    "odd in (y,n),i!=0": ["c1", "c2"],
    "in in (in)": [],
    "notin": [],
}


@pytest.mark.parametrize(("text", "expected"), MATCHES.items(), ids=list(MATCHES))
def test_a_label_selector_selects(text: str, expected: list[str]) -> None:
    requirements = parse_labels(text)
    found = [name for name, labels in OBJECTS.items() if all(item.matches(labels) for item in requirements)]
    assert found == expected


MALFORMED: dict[str, str] = {
    "odd in (y": "unable to parse requirement: found '', expected: ',' or ')'",
    "i gt 2": "unable to parse requirement: found 'gt', expected: in, notin, =, ==, !=, gt, lt",
    "odd=y i=1": "found 'i', expected: ',' or 'end of string'",
    ",": "found ',', expected: !, identifier, or 'end of string'",
    "odd,": "found '', expected: identifier after ','",
    "!": "unable to parse requirement: found '', expected: identifier",
    "=x": "found '=', expected: !, identifier, or 'end of string'",
    "odd in y": "unable to parse requirement: found 'y' expected: '('",
    "odd=%": 'unable to parse requirement: values[0][odd]: Invalid value: "%": a valid label',
    "-a=b": 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist',
    "x/y/z=b": 'unable to parse requirement: <nil>: Invalid value: "x/y/z": a valid label key',
    "i>x": "unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer",
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.items(), ids=list(MALFORMED))
def test_a_malformed_label_selector_is_a_bad_request(text: str, message: str) -> None:
    with refusal(400, "BadRequest") as error:
        parse_labels(text)
    assert error.value.message.startswith(message)


@settings(deadline=None)
@given(st.text(alphabet="ab/!=<>(), inot.-_%", max_size=12))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    with contextlib.suppress(Refusal):
        assert all(item.matches({"a": "b"}) in (True, False) for item in parse_labels(text))


FIELDS: dict[str, tuple[Resource, str, tuple[tuple[str, bool, str], ...]]] = {
    "a name": (CONFIG_MAPS, "metadata.name=a", (("metadata.name", True, "a"),)),
    "a name, spelled otherwise": (CONFIG_MAPS, "metadata.name==a", (("metadata.name", True, "a"),)),
    "not a name": (CONFIG_MAPS, "metadata.name!=a", (("metadata.name", False, "a"),)),
    "a namespace": (COMPOSITIONS, "metadata.namespace=a", (("metadata.namespace", True, "a"),)),
    "a trailing comma": (CONFIG_MAPS, "metadata.name=a,", (("metadata.name", True, "a"),)),
    "an escaped comma": (CONFIG_MAPS, r"metadata.name=a\,b", (("metadata.name", True, "a,b"),)),
    "the type of a Secret": (SECRETS, "type=Opaque", (("type", True, "Opaque"),)),
    "what an Event is about": (EVENTS, "involvedObject.uid=u", (("involvedObject.uid", True, "u"),)),
    "the phase of a namespace": (NAMESPACES, "status.phase=Active", (("status.phase", True, "Active"),)),
}


@pytest.mark.parametrize(("resource", "text", "expected"), FIELDS.values(), ids=FIELDS)
def test_a_field_selector_is_read(resource: Resource, text: str, expected: tuple[tuple[str, bool, str], ...]) -> None:
    assert parse_fields(kind_of(new_store(), resource), text) == expected


WRONG_FIELDS: dict[str, tuple[Resource, str, str]] = {
    "no operator": (CONFIG_MAPS, "metadata.name", "can't understand 'metadata.name'"),
    "an operator of labels": (CONFIG_MAPS, "metadata.name>a", "can't understand 'metadata.name>a'"),
    "an unknown field": (CONFIG_MAPS, "spec.x=1", '"spec.x" is not a known field selector: only'),
    "an unknown field of a custom resource": (COMPOSITIONS, "spec.x=1", "field label not supported: spec.x"),
    "an unknown field of an Event": (EVENTS, "spec.x=1", "field label not supported: spec.x"),
}


@pytest.mark.parametrize(("resource", "text", "message"), WRONG_FIELDS.values(), ids=WRONG_FIELDS)
def test_a_field_that_cannot_be_selected_is_a_bad_request(resource: Resource, text: str, message: str) -> None:
    with refusal(400, "BadRequest") as error:
        parse_fields(kind_of(new_store(), resource), text)
    assert message in error.value.message
