"""Where tombstones go, byte by byte, and what an overflow slice is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import PlanRejected
from eno.objects import ResourceSlice
from eno.packing import Plan, fit_name, overflow_difference, overflow_slice, pack
from tests.support.factories import UUID, composition, resource_slice

LOADED = [{"reconciled": True}]


def placed(plan: Plan) -> tuple[list[tuple[str, tuple[str, ...]]], tuple[tuple[str, ...], ...]]:
    return [(each.slice.name, each.tombstones) for each in plan.appends], plan.overflows


@pytest.mark.parametrize(
    ("tombstones", "slices", "appends", "overflows"),
    [
        pytest.param([], [("a", "xx")], [], (), id="nothing to do"),
        pytest.param(["1", "2"], [("a", "")], [("a", ("1", "2"))], (), id="into the first slice"),
        pytest.param(["12345"], [("a", "xxxxx")], [("a", ("12345",))], (), id="exactly at the limit fits"),
        pytest.param(["123456"], [("a", "xxxxx")], [], (("123456",),), id="one byte over does not"),
        pytest.param(
            ["12345", "12", "1"],
            [("a", "xxxxxxxx"), ("b", "xxxx")],
            [("a", ("12",)), ("b", ("12345", "1"))],
            (),
            id="first fit, in order",
        ),
        pytest.param(["1"], [("a", "xx"), ("b", "x")], [("a", ("1",))], (), id="the first of two that fit"),
        pytest.param(["1"], [("a", "x" * 11)], [], (("1",),), id="a slice over the limit takes nothing"),
        pytest.param(["1"], [], [], (("1",),), id="no slice at all"),
        pytest.param(
            ["123456", "1234", "12345", "123"],
            [],
            [],
            (("123456", "1234"), ("12345", "123")),
            id="overflow is filled next-fit",
        ),
        pytest.param(["ü" * 5, "x"], [("a", "")], [("a", ("ü" * 5,))], (("x",),), id="bytes count, not characters"),
    ],
)
def test_tombstones_are_packed_first_fit_then_next_fit(
    tombstones: list[str],
    slices: list[tuple[str, str]],
    appends: list[tuple[str, tuple[str, ...]]],
    overflows: tuple[tuple[str, ...], ...],
) -> None:
    existing = [resource_slice(name, [text] if text else []) for name, text in slices]
    assert placed(pack(tombstones, existing, limit=10)) == (appends, overflows)


def test_a_slice_that_was_loaded_already_takes_no_append() -> None:
    existing = [resource_slice("loaded", ["x"], states=LOADED), resource_slice("new", ["x"], states=[])]
    assert placed(pack(["1"], existing, limit=10)) == ([("new", ("1",))], ())


def test_one_tombstone_over_the_limit_rejects_the_whole_plan() -> None:
    with pytest.raises(PlanRejected, match="11 bytes does not fit a slice of 10"):
        pack(["1", "x" * 11], [resource_slice("a")], limit=10)


@given(
    st.lists(st.text(alphabet="aü", min_size=1, max_size=5), max_size=20),
    st.lists(st.tuples(st.text(alphabet="aü", max_size=8), st.booleans()), max_size=4),
)
def test_every_tombstone_has_one_place_and_no_slice_is_filled_over_the_limit(
    tombstones: list[str], slices: list[tuple[str, bool]]
) -> None:
    existing = [
        resource_slice(f"s{index}", [text], states=LOADED if loaded else None)
        for index, (text, loaded) in enumerate(slices)
    ]
    plan = pack(tombstones, existing, limit=10)
    everything = [text for step in (*(each.tombstones for each in plan.appends), *plan.overflows) for text in step]
    assert sorted(everything) == sorted(tombstones)
    for each in plan.appends:
        assert not each.slice.states
        assert sum(len(text.encode()) for text in (each.slice.resources[0].manifest, *each.tombstones)) <= 10
    for batch in plan.overflows:
        assert sum(len(text.encode()) for text in batch) <= 10


@given(
    st.lists(st.integers(1, 6).map(lambda size: "x" * size), max_size=12),
    st.lists(st.integers(0, 10), max_size=3),
    st.data(),
)
def test_after_a_crash_between_two_writes_the_rest_of_the_plan_is_the_same(
    tombstones: list[str], occupied: list[int], data: st.DataObject
) -> None:
    numbered = [f"{index:02}{text}" for index, text in enumerate(tombstones)]
    contents = {f"s{index}": [("x" * size, False)] for index, size in enumerate(occupied)}
    plan = pack(numbered, [resource_slice(name, texts) for name, texts in contents.items()], limit=10)
    done = plan.appends[: data.draw(st.integers(0, len(plan.appends)))]
    for each in done:
        contents[each.slice.name] += [(text, True) for text in each.tombstones]
    written = {text for each in done for text in each.tombstones}
    rest = [text for text in numbered if text not in written]
    again = pack(rest, [resource_slice(name, texts) for name, texts in contents.items()], limit=10)
    assert placed(again) == (placed(plan)[0][len(done) :], plan.overflows)


def test_an_overflow_slice_is_owned_marked_and_protected() -> None:
    subject = composition()
    body = overflow_slice(subject, ["{}"])
    assert re.fullmatch(r"shop-[0-9a-f]{16}-[0-9a-f]{32}", body["metadata"]["name"])
    assert body["metadata"]["labels"] == {
        "eno.azure.io/tombstone-recovery": "true",
        "eno.azure.io/synthesis-uuid": UUID,
    }
    assert body["metadata"]["finalizers"] == ["eno.azure.io/cleanup"]
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "eno.azure.io/v1",
            "kind": "Composition",
            "name": "shop",
            "uid": subject.uid,
            "controller": True,
        }
    ]
    assert body["spec"] == {"synthesisUUID": UUID, "resources": [{"manifest": "{}", "deleted": True}]}


def test_the_name_of_an_overflow_slice_depends_on_uid_uuid_and_contents_only() -> None:
    def name(batch: list[str], **fields: object) -> str:
        text: str = overflow_slice(composition(**fields), batch)["metadata"]["name"]
        return text

    assert name(["a", "b"]) == name(["a", "b"], annotations={"x": "y"})
    distinct = {name(["a", "b"]), name(["ab"]), name(["b", "a"]), name(["a", "b"], uid="other")}
    assert len(distinct) == 4


@pytest.mark.parametrize(
    ("prefix", "suffix", "expected"),
    [
        pytest.param("a" * 253, "-x", "a" * 251 + "-x", id="cut"),
        pytest.param("a" * 251, "-x", "a" * 251 + "-x", id="exactly fits"),
        pytest.param("a" * 250 + ".b", "-x", "a" * 250 + "-x", id="a trailing dot goes"),
        pytest.param("a" * 249 + "-.b", "-x", "a" * 249 + "-x", id="all trailing separators go"),
        pytest.param("short", "-x", "short-x", id="short"),
    ],
)
def test_names_are_cut_to_253_characters(prefix: str, suffix: str, expected: str) -> None:
    assert fit_name(prefix, suffix) == expected


def test_an_existing_slice_counts_as_ours_only_when_identical() -> None:
    body = overflow_slice(composition(), ["{}"])
    stored = ResourceSlice.from_json({**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}})
    assert overflow_difference(stored, body) is None

    def with_metadata(**fields: object) -> ResourceSlice:
        return ResourceSlice.from_json({**body, "metadata": {**body["metadata"], **fields}})

    other_owner = [{**body["metadata"]["ownerReferences"][0], "uid": "other"}]
    assert overflow_difference(with_metadata(ownerReferences=other_owner), body) == "it has another owner"
    assert overflow_difference(with_metadata(ownerReferences=[]), body) == "it has another owner"
    assert overflow_difference(with_metadata(labels={}), body) == "it lacks the label eno.azure.io/tombstone-recovery"
    assert overflow_difference(with_metadata(deletionTimestamp="2026-01-01T00:00:00Z"), body) == "it is terminating"
    altered = ResourceSlice.from_json({**body, "spec": {**body["spec"], "resources": []}})
    assert overflow_difference(altered, body) == "its content differs"
