"""What a candidate makes of a Lease, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import UsageError
from kube.cluster import Json
from kube.election import (
    LONGEST_DURATION,
    UNREADABLE,
    Claim,
    Lost,
    Record,
    Renew,
    Seen,
    StandBy,
    Term,
    Timing,
    Verdict,
    blank,
    decide,
    held,
    observed,
    pause,
    released,
)

ME, OTHER = "me", "other"
TIMING = Timing()
LEADING = Term.begun(100.0, TIMING)
WALL = datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)


def lease(holder: Any = OTHER, duration: Any = 15, *, version: str = "1", **spec: Any) -> Json:
    fields = {"holderIdentity": holder, "leaseDurationSeconds": duration, **spec}
    return {"metadata": {"name": "a", "uid": "u", "resourceVersion": version}, "spec": fields}


def judged(
    found: Json | None, *, before: Json | None = None, since: float = 100.0, now: float, term: Term | None = None
) -> Verdict:
    """The verdict on a Lease that was last seen as `before`, at `since`."""
    seen = None if before is None else Seen(Record.of(before), since)
    record = None if found is None else Record.of(found)
    return decide(ME, record, observed(seen, record, now), term, now, TIMING)


FOLLOWING: dict[str, tuple[dict[str, Any], Verdict]] = {
    "there is none": ({"found": None, "now": 100}, Claim("there is none")),
    "nobody holds it": ({"found": lease(""), "now": 100}, Claim("nobody holds it")),
    "it was made without a holder": ({"found": lease(None), "now": 100}, Claim("nobody holds it")),
    "one holds it without having led: the answer was lost": ({"found": lease(ME), "now": 100}, Renew()),
    "it is seen for the first time, however old it says it is": (
        {"found": lease(renewTime="2001-01-01T00:00:00.000000Z"), "now": 100},
        StandBy(115, OTHER),
    ),
    "it did not change for a moment less than its duration": (
        {"found": lease(), "before": lease(), "now": 114.999},
        StandBy(115, OTHER),
    ),
    "it did not change for as long as its duration": (
        {"found": lease(), "before": lease(), "now": 115},
        Claim("it expired in the hands of other"),
    ),
    "it was renewed in between": (
        {"found": lease(renewTime="b"), "before": lease(renewTime="a"), "now": 114},
        StandBy(129, OTHER),
    ),
    "its holder promised less than oneself would": (
        {"found": lease(duration=3), "before": lease(duration=3), "now": 103},
        Claim("it expired in the hands of other"),
    ),
    "its holder promised more": (
        {"found": lease(duration=60), "before": lease(duration=60), "now": 159},
        StandBy(160, OTHER),
    ),
    "its holder promised nothing that is a duration": (
        {"found": lease(duration="soon"), "before": lease(duration="soon"), "now": 114},
        StandBy(115, OTHER),
    ),
    "its holder promised years": (
        {"found": lease(duration=10**9), "before": lease(duration=10**9), "now": 100 + LONGEST_DURATION},
        Claim("it expired in the hands of other"),
    ),
    "only its labels changed": (
        {"found": lease(version="2"), "before": lease(version="1"), "now": 115},
        Claim("it expired in the hands of other"),
    ),
    "it is another Lease of that name": (
        {"found": lease() | {"metadata": {"uid": "v"}}, "before": lease(), "now": 114},
        StandBy(129, OTHER),
    ),
    "it is gone, and its holder may not have noticed": (
        {"found": None, "before": lease(), "now": 114},
        StandBy(129, OTHER),
    ),
    "it is gone, and nobody held it": ({"found": None, "before": lease(""), "now": 101}, Claim("it was deleted")),
    "its holder is no text": ({"found": lease(7), "now": 100}, StandBy(115, UNREADABLE)),
    "its holder is no text and did nothing": (
        {"found": lease(7), "before": lease(7), "now": 115},
        Claim(f"it expired in the hands of {UNREADABLE}"),
    ),
}


@pytest.mark.parametrize(("case", "expected"), FOLLOWING.values(), ids=FOLLOWING)
def test_whoever_does_not_lead(case: dict[str, Any], expected: Verdict) -> None:
    assert judged(**case) == expected


def test_a_lease_that_is_gone_is_claimed_once_that_was_seen_for_its_whole_duration() -> None:
    first = observed(Seen(Record.of(lease()), 100), None, 110)
    later = observed(first, None, 124)
    assert decide(ME, None, later, None, 124, TIMING) == StandBy(125, OTHER)
    assert decide(ME, None, later, None, 125, TIMING) == Claim("it was deleted")


LEADING_CASES: dict[str, tuple[dict[str, Any], Verdict]] = {
    "it is as it was written": ({"found": lease(ME), "now": 102}, Renew()),
    "the last moment": ({"found": lease(ME), "now": 109.999}, Renew()),
    "the renew deadline, though nobody else has taken it": (
        {"found": lease(ME), "now": 110},
        Lost("it was not renewed for 10 s"),
    ),
    "somebody else took it": ({"found": lease(OTHER), "now": 101}, Lost("other holds it")),
    "somebody made it unreadable": ({"found": lease(7), "now": 101}, Lost(f"{UNREADABLE} holds it")),
    "somebody deleted it": ({"found": None, "now": 101}, Claim("it was deleted")),
    "somebody deleted it, and it is too late": ({"found": None, "now": 110}, Lost("it was not renewed for 10 s")),
    "somebody emptied it": ({"found": lease(None), "now": 101}, Claim("its holder was removed")),
}


@pytest.mark.parametrize(("case", "expected"), LEADING_CASES.values(), ids=LEADING_CASES)
def test_whoever_leads(case: dict[str, Any], expected: Verdict) -> None:
    assert judged(**case, before=lease(ME), term=LEADING) == expected


SHAPES: dict[str, tuple[Any, str, float | None]] = {
    "no spec": (None, "", None),
    "a spec that is a list": ([], "", None),
    "an empty spec": ({}, "", None),
    "no duration": ({"holderIdentity": OTHER}, OTHER, None),
    "a duration of nothing": ({"holderIdentity": OTHER, "leaseDurationSeconds": 0}, OTHER, None),
    "a duration in words": ({"holderIdentity": OTHER, "leaseDurationSeconds": "15"}, OTHER, None),
    "a duration beyond all numbers": (
        {"holderIdentity": OTHER, "leaseDurationSeconds": 10**400},
        OTHER,
        LONGEST_DURATION,
    ),
    "a duration that is true": ({"holderIdentity": OTHER, "leaseDurationSeconds": True}, OTHER, None),
    "a time that is none": ({"holderIdentity": OTHER, "leaseDurationSeconds": 5, "renewTime": "soon"}, OTHER, 5),
    "a holder that is a list": ({"holderIdentity": [OTHER]}, UNREADABLE, None),
}


@pytest.mark.parametrize(("spec", "holder", "duration"), SHAPES.values(), ids=SHAPES)
def test_a_lease_of_any_shape_is_read(spec: Any, holder: str, duration: float | None) -> None:
    record = Record.of({"metadata": None, "spec": spec})
    assert (record.holder, record.duration) == (holder, duration)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("holderIdentity", "leaseDurationSeconds", "leaseTransitions", "acquireTime", "renewTime", "strategy")


@given(JSON_VALUES | st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES), JSON_VALUES)
def test_whatever_a_lease_holds_a_candidate_can_judge_and_take_it(spec: Any, metadata: Any) -> None:
    found = {"metadata": metadata, "spec": spec}
    assert isinstance(judged(found, now=100), Claim | Renew | StandBy)
    taken = held(found, ME, TIMING, WALL)
    assert Record.of(taken).holder == ME
    assert taken["metadata"] == metadata or metadata != metadata  # NaN
    assert Record.of(released(taken, WALL)).holder == ""


def test_taking_it_over_counts_and_keeps_what_is_not_ours() -> None:
    found = lease(leaseTransitions=4, strategy="OldestEmulationVersion", acquireTime="a", renewTime="b")
    taken = held(found, ME, TIMING, WALL)
    assert taken["metadata"] == found["metadata"]
    assert taken["spec"] == {
        "holderIdentity": ME,
        "leaseDurationSeconds": 15,
        "leaseTransitions": 5,
        "strategy": "OldestEmulationVersion",
        "acquireTime": "2026-01-31T12:00:00.000001Z",
        "renewTime": "2026-01-31T12:00:00.000001Z",
    }


def test_renewing_changes_the_time_of_the_renewal_alone() -> None:
    found = lease(ME, leaseTransitions=4, acquireTime="a", renewTime="b")
    assert held(found, ME, TIMING, WALL)["spec"] == found["spec"] | {"renewTime": "2026-01-31T12:00:00.000001Z"}


def test_the_first_holder_is_no_transition() -> None:
    assert held(blank("ns", "a"), ME, TIMING, WALL)["spec"]["leaseTransitions"] == 0


@pytest.mark.parametrize("found", [-1, True, "4", None])
def test_a_count_of_transitions_that_is_none_begins_anew(found: Any) -> None:
    assert held(lease(leaseTransitions=found), ME, TIMING, WALL)["spec"]["leaseTransitions"] == 1


def test_a_duration_is_rounded_up_to_the_integer_that_a_lease_holds() -> None:
    spec = held(blank("ns", "a"), ME, Timing(1.5, 1.0, 0.2), WALL)["spec"]
    assert spec["leaseDurationSeconds"] == 2


def test_a_released_lease_is_as_client_go_leaves_it() -> None:
    spec = released(lease(ME, leaseTransitions=4), WALL)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 4)


PAUSES: dict[str, tuple[dict[str, Any], float]] = {
    "the retry period": ({"draw": 0.0}, 2.0),
    "spread upwards": ({"draw": 0.5}, 2.2),
    "the server asks for longer": ({"draw": 0.0, "asked": 30}, 30.0),
    "the server asks for an hour": ({"draw": 0.0, "asked": 3600}, 60.0),
    "the server asks for less": ({"draw": 0.0, "asked": 1}, 2.0),
    "a leader with time left": ({"draw": 0.0, "left": 8}, 2.0),
    "a leader goes when its term ends": ({"draw": 0.0, "left": 0.5}, 0.5),
    "a leader whose term has ended": ({"draw": 0.0, "left": -3}, 0.0),
    "a leader that is asked for longer has one more try": ({"draw": 0.0, "left": 8, "asked": 30}, 6.0),
}


@pytest.mark.parametrize(("case", "expected"), PAUSES.values(), ids=PAUSES)
def test_the_pause_until_the_next_look(case: dict[str, Any], expected: float) -> None:
    assert pause(TIMING, **case) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("duration", "renew_deadline", "retry_period"),
    [(10, 10, 2), (15, 2.4, 2), (15, 10, 0), (601, 10, 2), (float("nan"), 10, 2)],
)
def test_times_that_could_make_two_leaders_or_none_are_refused(
    duration: float, renew_deadline: float, retry_period: float
) -> None:
    with pytest.raises(UsageError, match="lease times"):
        Timing(duration, renew_deadline, retry_period)
