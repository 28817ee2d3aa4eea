"""What is remembered of an object, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from eno.objects import OVERFLOW_LABEL, SYNTHESIS_UUID_LABEL
from kube.cluster import Json
from tests.support.sizes import size
from tests.unit.watcher.factories import SCOPE, composition, decision, resource_slice, synthesis
from watcher.keys import Key, Kind
from watcher.records import CompositionRecord, Record, SliceRecord, Unreadable, read


def record_of_composition(**changes: Any) -> CompositionRecord:
    found = read(Kind.COMPOSITION, composition(**changes), SCOPE)
    assert isinstance(found, CompositionRecord)
    return found


def record_of_slice(**changes: Any) -> SliceRecord:
    found = read(Kind.SLICE, resource_slice(**changes), SCOPE)
    assert isinstance(found, SliceRecord)
    return found


OBJECTS = 1000


def decoded(kind: Kind, body: Json) -> Record | Unreadable:
    """From JSON text, so that no string is shared that a real watcher would not share."""
    return read(kind, json.loads(json.dumps(body)), SCOPE)


def decoded_composition(number: int) -> Record | Unreadable:
    """A converged composition: two syntheses with two slices each, and names of usual length."""
    name, uuid = f"a-composition-{number:05d}", str(uuid4())
    current = synthesis(uuid, slices=(f"{name}-4hj7k", f"{name}-9xk2p"), tombstoneRecoveryStatus=decision(uuid))
    previous = synthesis(str(uuid4()), slices=(f"{name}-ff2s8", f"{name}-z7d6q"))
    body = composition(name, uid=f"uid-of-{name}", version=123456789, current=current, previous=previous)
    return decoded(Kind.COMPOSITION, body)


def decoded_slice(number: int) -> Record | Unreadable:
    name = f"a-composition-{number:05d}"
    body = resource_slice(f"{name}-4hj7k", owner=name, owner_uid=f"uid-of-{name}", uid=str(uuid4()), version=123456789)
    return decoded(Kind.SLICE, body)


def footprint(decode: Callable[[int], Record | Unreadable], *others: Record | Unreadable) -> float:
    """Bytes that one of many objects adds, beside what it shares with `others`."""
    seen: set[int] = set()
    for other in others:
        size(other, seen)
    records = [decode(number) for number in range(OBJECTS)]
    return sum(size(record, seen) for record in records) / len(records)


def test_a_slice_costs_at_most_half_a_kibibyte_beside_its_owner() -> None:
    owners = [decoded_composition(number) for number in range(OBJECTS)]
    assert footprint(decoded_slice, *owners) <= 512


def test_a_composition_with_the_names_of_its_slices_costs_little_more_than_a_kibibyte() -> None:
    assert footprint(decoded_composition) <= 1280


def test_a_composition_refers_to_the_slices_of_all_its_syntheses_once() -> None:
    found = record_of_composition(
        in_flight=synthesis("3", slices=("s-3",)),
        current=synthesis("2", slices=("s-2", "s-1")),
        previous=synthesis("1", slices=("s-1",)),
    )
    assert found.refers_to == tuple(Key(Kind.SLICE, "prod", name) for name in ("s-1", "s-2", "s-3"))


def test_null_and_nameless_references_are_kept_but_refer_to_nothing() -> None:
    references = [None, {}, {"name": ""}, {"name": "s-1"}]
    found = record_of_composition(current=synthesis(resourceSlices=references))
    assert found.current is not None
    assert found.current.slice_names == (None, None, None, "s-1")
    assert [key.name for key in found.refers_to] == ["s-1"]


def test_a_slice_refers_to_the_composition_that_controls_it() -> None:
    assert record_of_slice(owner="web").refers_to == (Key(Kind.COMPOSITION, "prod", "web"),)
    assert record_of_slice(owner=None).refers_to == ()


def test_overflow_is_told_by_the_marker_label() -> None:
    overflow = record_of_slice(labels={OVERFLOW_LABEL: "true", SYNTHESIS_UUID_LABEL: "u"})
    assert (overflow.overflow, overflow.synthesis_uuid) == (True, "u")
    assert not record_of_slice(labels={OVERFLOW_LABEL: "yes"}).overflow


MALFORMED: dict[str, Any] = {
    "no metadata": {},
    "metadata is a list": {"metadata": []},
    "no name": {"metadata": {"namespace": "prod", "uid": "u"}},
    "no namespace": {"metadata": {"name": "web", "uid": "u"}},
    "no uid": {"metadata": {"namespace": "prod", "name": "web"}},
    "labels that are no strings": {"metadata": {"namespace": "prod", "name": "web", "uid": "u", "labels": {"a": 1}}},
    "a time that is none": {
        "metadata": {"namespace": "prod", "name": "web", "uid": "u", "creationTimestamp": "yesterday"}
    },
}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("obj", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_object_is_unreadable_for_one_line_of_reason(kind: Kind, obj: Any) -> None:
    found = read(kind, obj, SCOPE)
    assert isinstance(found, Unreadable)
    assert found.key.kind is kind
    assert "\n" not in found.reason
