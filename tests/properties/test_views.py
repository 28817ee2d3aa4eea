"""Views of API objects and the watcher's records: of anything at all, a value or MalformedObject."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from eno.errors import MalformedObject
from eno.objects import Composition, ObjectView, ResourceSlice
from eno.packing import overflow_difference, overflow_slice
from eno.scope import Scope
from tests.properties.strategies import JSON, TEXTS, distorted, is_utc, json_values, repeatable, tried
from tests.support.factories import composition, composition_json, decided, inventory, manifest, slice_json, synthesis
from watcher.keys import Kind
from watcher.records import Unreadable, read

Json = dict[str, Any]

COMPOSITION = composition_json(
    current=synthesis(slices=["a", None], tombstoneRecoveryStatus=decided(), ready="2026-03-01T11:00:00Z"),
    inFlightSynthesis=synthesis("u3"),
    previousSynthesis=synthesis("u1", slices=["b"]),
    simplified={"status": "Ready", "error": ""},
    metadata={"labels": {"a": "b"}, "finalizers": ["x"], "generation": 3, "deletionTimestamp": "2026-03-01T11:00:00Z"},
)
SLICE = slice_json(
    "a",
    [manifest(), (manifest(name="gone"), True)],
    states=[{"reconciled": True, "ready": "2026-03-01T11:00:00Z", "deleted": False, "reconciliationError": "x"}],
    creationTimestamp="2026-03-01T11:00:00Z",
    labels={"eno.azure.io/tombstone-recovery": "true"},
)
SECRET = inventory([])[0]
OBJECTS: dict[Kind, Json] = {Kind.COMPOSITION: COMPOSITION, Kind.SLICE: SLICE, Kind.INVENTORY: SECRET}
VIEWS: dict[Kind, type[ObjectView]] = {
    Kind.COMPOSITION: Composition,
    Kind.SLICE: ResourceSlice,
    Kind.INVENTORY: ObjectView,
}
KINDS = st.sampled_from(sorted(OBJECTS))
SCOPES = st.sampled_from(
    [Scope(composition_namespace="apps", recovery_namespace="apps", recovery_enabled=True), Scope(label_selector="a=b")]
)
KEYS = st.sampled_from(["metadata", "status", "spec", "name", "currentSynthesis", "resources", "kind", "labels"])
TIMES = (
    JSON
    | st.integers(-(10**20), 10**20)
    | st.sampled_from(
        [
            "0001-01-01T00:00:00Z",
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            "9" * 400,
            "inf",
            "1e308",
            1e308,
        ]
    )
)


def view(kind: Kind, obj: Json) -> ObjectView | None:
    found = tried(lambda: VIEWS[kind].from_json(obj), MalformedObject)
    return None if isinstance(found, MalformedObject) else found


@repeatable(600)
@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), distorted(OBJECTS[kind]))))
def test_an_object_with_one_place_distorted_is_a_view_or_malformed(found: tuple[Kind, Json]) -> None:
    view(*found)


@repeatable()
@given(KINDS, st.dictionaries(KEYS, json_values(KEYS | TEXTS)))
def test_any_object_is_a_view_or_malformed(kind: Kind, obj: Json) -> None:
    view(kind, obj)


@repeatable()
@given(TIMES)
@example("0001-01-01T00:00:00+23:59")
def test_a_time_of_any_shape_is_an_instant_within_the_bounds_or_malformed(time: Any) -> None:
    found = view(Kind.SLICE, {"metadata": {"name": "a", "creationTimestamp": time}})
    assert found is None or found.created is None or is_utc(found.created)


@repeatable()
@given(KINDS, st.integers(1, 3000), st.sampled_from(["spec", "status", "metadata"]))
def test_no_nesting_is_too_deep_for_a_view(kind: Kind, depth: int, where: str) -> None:
    nested: Any = {}
    for _ in range(depth):
        nested = {"metadata": nested, "status": [nested]} if depth < 10 else {"currentSynthesis": nested}
    view(kind, {**OBJECTS[kind], where: nested})


@repeatable(400)
@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), distorted(OBJECTS[kind]))), SCOPES)
def test_whatever_the_watcher_is_sent_is_a_record_or_stands_for_an_unreadable_object(
    found: tuple[Kind, Json], scope: Scope
) -> None:
    kind, obj = found
    record = read(kind, obj, scope)
    if isinstance(record, Unreadable):
        assert record.reason
        assert "\n" not in record.reason
    else:
        assert record.key.name
        assert record.uid
        assert all(key.name or kind is Kind.INVENTORY for key in record.refers_to)
    assert isinstance(hash(record.key), int)


@repeatable()
@given(KINDS, st.dictionaries(KEYS, json_values(KEYS | TEXTS)), SCOPES)
def test_any_object_is_a_record_or_stands_for_an_unreadable_one(kind: Kind, obj: Json, scope: Scope) -> None:
    record = read(kind, obj, scope)
    assert isinstance(record, Unreadable) or record.uid


@repeatable()
@given(st.data())
def test_a_distorted_overflow_slice_is_the_intended_one_only_when_nothing_that_counts_differs(
    data: st.DataObject,
) -> None:
    intended = overflow_slice(composition(), (manifest(name="lost"),))
    distorted_ = data.draw(distorted(intended))
    try:
        existing = ResourceSlice.from_json(distorted_)
    except MalformedObject:
        return
    wanted = ResourceSlice.from_json(intended)
    assert overflow_difference(existing, intended) is not None or existing.spec == wanted.spec
