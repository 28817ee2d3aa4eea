"""Events: core/v1 ones without an eventTime are hardly looked at, those with one are."""

from __future__ import annotations

import pytest

from kube.cluster import Json
from kube.resources import EVENTS
from tests.contract.kinds import PROBES
from tests.contract.refusals import BAD_REQUEST, INVALID
from tests.contract.space import Space

NOW = "2026-01-01T00:00:00.000000Z"
MODERN: Json = {"eventTime": NOW, "action": "Test", "reportingComponent": "example.com/x", "reportingInstance": "x"}
REQUIRED, INVALID_VALUE = "FieldValueRequired", "FieldValueInvalid"


def event(space: Space, name: str = "a", **members: object) -> Json:
    about = {"apiVersion": PROBES.api_version, "kind": "Probe", "namespace": space.namespace, "name": "x", "uid": "u"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", "type": "Normal", **members}


def test_an_event_is_about_something_in_its_namespace(space: Space) -> None:
    created = space.create(EVENTS, event(space, message="hello", count=1))
    assert (created["reason"], created["message"], created["eventTime"]) == ("Tested", "hello", None)
    elsewhere = event(space, "b") | {"involvedObject": {"kind": "Probe", "name": "x", "namespace": "default"}}
    refused = space.refused(lambda h: h.create(EVENTS, elsewhere))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("involvedObject.namespace", "FieldValueInvalid")])


def test_events_are_found_by_what_they_are_about(space: Space) -> None:
    space.create(EVENTS, event(space))
    space.create(EVENTS, event(space, "b", reason="Other"))
    assert space.names(EVENTS, field_selector="involvedObject.name=x,reason=Tested") == ["a"]
    assert space.names(EVENTS, field_selector="involvedObject.uid=u") == ["a", "b"]
    assert space.names(EVENTS, field_selector="type=Warning") == []


def test_an_event_is_counted_up_by_a_patch(space: Space) -> None:
    space.create(EVENTS, event(space, count=1))
    assert space.merge_patch(EVENTS, {"count": 2})["count"] == 2


@pytest.mark.parametrize("size", [1024, 1025, 20_000])
def test_without_an_event_time_a_message_may_be_long(space: Space, size: int) -> None:
    assert len(space.create(EVENTS, event(space, message="m" * size))["message"]) == size


@pytest.mark.parametrize("name", [f"a.{'b' * 251}", f"a.{'b' * 252}", "Capital_"])
def test_without_an_event_time_any_name_will_do(space: Space, name: str) -> None:
    """The length of a name that Sexton makes up is its own affair: nobody else refuses it."""
    assert space.create(EVENTS, event(space, name))["metadata"]["name"] == name


def test_the_times_of_an_event_are_kept_in_utc(space: Space) -> None:
    times = {"firstTimestamp": "2026-01-01T00:00:00+02:00", "lastTimestamp": "2026-01-01T00:00:00.9Z"}
    created = space.create(EVENTS, event(space, **times))
    assert (created["firstTimestamp"], created["lastTimestamp"]) == ("2025-12-31T22:00:00Z", "2026-01-01T00:00:00Z")
    modern = space.create(EVENTS, event(space, "b", **MODERN | {"eventTime": "2026-01-01T00:00:00.123456+02:00"}))
    assert modern["eventTime"] == "2025-12-31T22:00:00.123456Z"


@pytest.mark.parametrize(
    ("members", "causes"),
    [
        pytest.param({"message": "m" * 1025}, [("message", INVALID_VALUE)], id="a long message"),
        pytest.param({"reason": "r" * 129}, [("reason", INVALID_VALUE)], id="a long reason"),
        pytest.param({"action": "a" * 129}, [("action", INVALID_VALUE)], id="a long action"),
        pytest.param({"action": ""}, [("action", REQUIRED)], id="no action"),
        pytest.param({"reason": ""}, [("reason", REQUIRED)], id="no reason"),
        pytest.param({"reportingInstance": "i" * 129}, [("reportingInstance", INVALID_VALUE)], id="a long instance"),
        pytest.param({"reportingInstance": ""}, [("reportingInstance", REQUIRED)], id="no instance"),
        pytest.param(
            {"reportingComponent": "a b"}, [("reportingComponent", INVALID_VALUE)], id="no name of a reporter"
        ),
        pytest.param(
            {"reportingComponent": ""},
            [("reportingComponent", INVALID_VALUE), ("reportingComponent", REQUIRED)],
            id="no reporter",
        ),
    ],
)
def test_with_an_event_time_an_event_is_looked_at(space: Space, members: Json, causes: list[tuple[str, str]]) -> None:
    space.create(EVENTS, event(space, "b", **MODERN))
    refused = space.refused(lambda h: h.create(EVENTS, event(space, **MODERN | members)))
    assert (refused.summary, refused.reply.causes) == (INVALID, causes)


@pytest.mark.parametrize(
    "members", [{"firstTimestamp": "now"}, {"eventTime": "2026-01-01T00:00:00Z"}], ids=["a time", "an event time"]
)
def test_an_event_takes_no_other_times(space: Space, members: Json) -> None:
    assert space.refused(lambda h: h.create(EVENTS, event(space, **members))).summary == BAD_REQUEST
