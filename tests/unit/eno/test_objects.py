"""Views: what is tolerated, what is refused, and nothing lost in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from eno.errors import MalformedObject
from eno.objects import Composition, ResourceSlice
from eno.times import format_time, parse_time
from tests.support.factories import composition_json, slice_json, synthesis


@pytest.mark.parametrize(
    ("references", "names"),
    [
        pytest.param(None, (), id="null"),
        pytest.param([], (), id="empty"),
        pytest.param([{"name": "a"}, None, {}, {"name": ""}, {"name": "b"}], ("a", None, None, None, "b"), id="holes"),
    ],
)
def test_null_and_nameless_references_are_kept_as_holes(references: Any, names: tuple[str | None, ...]) -> None:
    current = {**synthesis(), "resourceSlices": references}
    view = Composition.from_json(composition_json(current=current))
    assert view.current is not None
    assert view.current.slice_names == names


def test_absent_fields_are_absent() -> None:
    view = Composition.from_json({"metadata": {"name": "a"}})
    assert (view.current, view.in_flight, view.previous, view.synthesizer, view.opted_in) == (
        None,
        None,
        None,
        "",
        False,
    )
    empty = ResourceSlice.from_json({"metadata": {"name": "a"}, "spec": None, "status": None})
    assert (empty.resources, empty.states, empty.owner, empty.synthesis_uuid) == ((), (), None, "")


def test_unknown_fields_do_not_hurt() -> None:
    obj = composition_json(current={**synthesis(), "results": [{"message": "x"}], "new": {"deep": [1]}})
    assert Composition.from_json({**obj, "extra": 1}).current is not None


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        pytest.param({"kind": "Composition"}, "Composition: metadata", id="no metadata"),
        pytest.param(composition_json(current={"uuid": 3}), "apps/shop: status.currentSynthesis.uuid", id="uuid"),
        pytest.param(composition_json(current={"synthesized": "soon"}), "currentSynthesis.synthesized", id="time"),
        pytest.param(
            composition_json(current={"tombstoneRecoveryStatus": {"status": "true"}}),
            "tombstoneRecoveryStatus.status",
            id="a text is no boolean",
        ),
        pytest.param(
            composition_json(current={"tombstoneRecoveryRequired": "false"}), "tombstoneRecoveryRequired", id="required"
        ),
        pytest.param({"metadata": {"name": "a", "labels": {"b": 1}}}, "metadata.labels.b", id="label"),
    ],
)
def test_a_malformed_object_is_named_with_the_first_bad_field(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        Composition.from_json(obj)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "owned"),
    [
        pytest.param({}, True, id="controller, kind and group"),
        pytest.param({"controller": False}, False, id="not the controller"),
        pytest.param({"kind": "Symphony"}, False, id="another kind"),
        pytest.param({"apiVersion": "example.com/v1"}, False, id="another group"),
        pytest.param({"apiVersion": "eno.azure.io/v2"}, True, id="another version"),
    ],
)
def test_the_owner_is_the_controlling_composition(change: dict[str, Any], owned: bool) -> None:
    obj = slice_json("s")
    obj["metadata"]["ownerReferences"][0] |= change
    assert (ResourceSlice.from_json(obj).owner is not None) is owned


@pytest.mark.parametrize(
    ("in_flight", "current", "latest"),
    [({"uuid": "b"}, {"uuid": "a"}, "b"), (None, {"uuid": "a"}, "a"), (None, None, ""), ({"uuid": "b"}, None, "b")],
)
def test_the_latest_uuid_is_in_flight_else_current(in_flight: Any, current: Any, latest: str) -> None:
    view = Composition.from_json(composition_json(current=current, inFlightSynthesis=in_flight))
    assert view.latest_uuid == latest


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01T11:00:00Z", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("2026-03-01t13:00:00+02:00", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("2026-03-01T11:00:00z", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("2026-03-01T11:00:00.123456789Z", datetime(2026, 3, 1, 11, 0, 0, 123456, tzinfo=UTC)),
    ],
)
def test_times_are_rfc_3339(text: str, instant: datetime) -> None:
    assert parse_time(text) == instant
    assert format_time(parse_time(text)) == "2026-03-01T11:00:00Z"


def test_times_are_written_in_utc() -> None:
    assert format_time(datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01T11:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-01",
        "2026-03-01T11:00:00",
        "2026-W09-7T11:00:00Z",
        "20260301T110000Z",
        "2026-03-01T11:00:00Z and more",
    ],
)
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "year"),
    [("0001-01-01T00:00:00+05:00", 1970), ("0001-01-01T00:00:00Z", 1970), ("9999-12-31T23:59:59-05:00", 9000)],
)
def test_an_absurd_time_in_an_object_is_bounded_so_that_sums_with_it_exist(text: str, year: int) -> None:
    view = Composition.from_json(composition_json(current=synthesis(initialized=text)))
    assert view.current is not None
    assert view.current.initialized is not None
    assert view.current.initialized.year == year


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "1969-12-31T23:59:59Z"])
def test_an_absurd_time_in_an_annotation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lies outside of 1970 to 9000"):
        parse_time(text)
