"""The rows of *Streams*, on a scripted server and a virtual clock."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any, cast

import pytest

from eno import errors
from kube.cluster import Cluster, Json, Page
from kube.reflector import HEALTHY_WATCH, RELIST_GAP, Reflector, needs_relist
from tests.support.reflecting import (
    END,
    QUERY,
    WATCH_ERROR,
    Names,
    Script,
    Silence,
    Step,
    World,
    event,
    obj,
    page,
    play,
)


def test_a_list_is_followed_by_a_watch_from_the_lists_own_version() -> None:
    run = play(page("a", "b", version="10"), END)
    assert run.calls == ["list", "watch 10 for 300"]
    assert run.sink.log == ["replace a,b @10"]
    assert run.reflector.synced
    assert run.world.waits == []


def test_events_change_the_cache_and_the_next_watch_resumes_after_the_last() -> None:
    run = play(
        page("a", "b"),
        [event("MODIFIED", "a", "11"), event("ADDED", "c", "12"), event("DELETED", "b", "13"), *END],
        END,
    )
    assert run.sink.known == {"a": "11", "c": "12"}
    assert run.calls[-1] == "watch 13 for 300"


def test_a_bookmark_moves_the_version_and_no_object() -> None:
    run = play(page("a"), [event("BOOKMARK", "", "50"), *END], END)
    assert run.sink.known == {"a": "1"}
    assert run.calls[-1] == "watch 50 for 300"
    assert (run.reflector.stats.bookmarks, run.reflector.stats.events) == (1, 0)


def test_an_object_is_never_the_source_of_the_version_after_a_list() -> None:
    run = play(Page([obj("a", "999")], "10"), END)
    assert run.calls[-1] == "watch 10 for 300"


def test_versions_are_opaque_and_may_go_backwards() -> None:
    run = play(page("a", version="9000"), [event("MODIFIED", "a", "17"), *END], END)
    assert run.calls[-1] == "watch 17 for 300"
    run = play(page("a", version="zebra"), END)
    assert run.calls[-1] == "watch zebra for 300"


def test_pages_are_passed_on_together_after_the_last() -> None:
    run = play(page("a", token="t1"), page("b", token="t2"), page("c"), END)
    assert run.calls[:3] == ["list", "list t1", "list t2"]
    assert run.sink.log == ["replace a,b,c @10"]


def test_pages_of_different_snapshots_are_watched_from_the_oldest() -> None:
    run = play(page("a", version="10", token="t"), page("b", version="12"), END)
    assert run.calls[-1] == "watch 10 for 300"


PARTIAL_LISTS: dict[str, errors.ApiError] = {
    "an expired continue token": errors.Expired("list", status=410),
    "a broken connection": errors.Unreachable("list", reason="Broken"),
    "a server error": errors.ServerError("list", status=500),
    "a page that is no page": errors.BadResponse("list", reason="NoItems"),
    "lost permissions": errors.Forbidden("list", status=403),
}


@pytest.mark.parametrize("error", PARTIAL_LISTS.values(), ids=PARTIAL_LISTS)
def test_a_list_that_breaks_midway_starts_over_and_is_never_used(error: errors.ApiError) -> None:
    run = play(page("a", token="t"), error, page("b", version="20"), END)
    assert run.calls == ["list", "list t", "list", "watch 20 for 300"]
    assert run.sink.log == ["replace b @20"]


@pytest.mark.parametrize("error", PARTIAL_LISTS.values(), ids=PARTIAL_LISTS)
def test_a_failed_relist_leaves_the_cache_as_it_was(error: errors.ApiError) -> None:
    run = play(page("a", "b"), errors.Expired("watch"), page("a", token="t"), error)
    assert run.sink.known == {"a": "1", "b": "1"}
    assert run.reflector.synced


def test_a_list_that_is_stopped_midway_is_not_passed_on() -> None:
    run = play(page("a", token="t"))
    assert run.sink.log == []
    assert not run.reflector.synced


EXPIRED = {
    "as a status": errors.Expired(WATCH_ERROR, status=410, reason="Expired"),
    "as an event in the stream": [
        event("MODIFIED", "a", "11"),
        errors.Expired(WATCH_ERROR, status=410),
    ],
}


@pytest.mark.parametrize("gone", EXPIRED.values(), ids=EXPIRED)
def test_an_expired_version_is_answered_by_a_list(gone: Any) -> None:
    run = play(page("a"), gone, page("b", version="20"), END)
    assert run.calls == ["list", "watch 10 for 300", "list", "watch 20 for 300"]
    assert run.sink.known == {"b": "1"}
    assert run.reflector.stats.expired == 1


def test_a_server_that_always_says_expired_sees_at_most_one_list_per_second() -> None:
    expired = errors.Expired(WATCH_ERROR, status=410)
    run = play(*[page("a"), expired] * 12, draw=lambda: 0.0)
    gaps = [later - earlier for earlier, later in pairwise(run.script.lists_at)]
    assert min(gaps) >= RELIST_GAP
    assert gaps == sorted(gaps)
    assert gaps[-1] == 30.0


@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_relists_are_spread_by_jitter(draw: float) -> None:
    expired = errors.Expired(WATCH_ERROR, status=410)
    run = play(page("a"), [Silence(50), expired], page("a"), END, draw=lambda: draw)
    assert run.world.waits == [pytest.approx(0.5 + draw / 2, abs=0.001)]


BROKEN: dict[str, Any] = {
    "500": errors.ServerError(WATCH_ERROR, status=500),
    "503": errors.ServerError(WATCH_ERROR, status=503),
    "an error event in the stream": [errors.ServerError(WATCH_ERROR, status=500)],
    "refused": errors.Unreachable(WATCH_ERROR, reason="NoConnection"),
    "reset": [errors.Unreachable(WATCH_ERROR, reason="Broken")],
    "a garbage line": [errors.BadResponse(WATCH_ERROR, reason="NotJSON")],
    "no answer": errors.TimedOut(WATCH_ERROR, reason="Timeout"),
    "unauthorized": errors.Unauthorized(WATCH_ERROR, status=401),
    "forbidden": errors.Forbidden(WATCH_ERROR, status=403),
    "an end at once": [],
    "an end after nothing but a bookmark": [event("BOOKMARK", "", "10")],
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_watch_backs_off_and_resumes_from_the_last_version(broken: Any) -> None:
    run = play(page("a"), broken, broken, broken, END)
    assert run.calls == ["list", *["watch 10 for 300"] * 4]
    assert run.world.waits == [0.5, 1.0, 2.0]
    assert run.reflector.stats.errors == 3
    assert run.sink.known == {"a": "1"}


def test_a_silent_watch_is_counted_as_a_stall_and_reopened() -> None:
    silent: list[Step] = [Silence(310), errors.TimedOut(WATCH_ERROR, reason="Timeout")]
    run = play(page("a"), silent, END)
    assert run.reflector.stats.stalls == 1
    assert run.calls == ["list", "watch 10 for 300", "watch 10 for 290"]
    assert run.world.waits == [0.5]


def test_throttling_is_waited_out_as_long_as_the_server_asks() -> None:
    throttled = errors.Throttled(WATCH_ERROR, status=429, retry_after=17.0)
    run = play(page("a"), throttled, END)
    assert run.world.waits == [17.0]
    assert run.calls[-1] == "watch 10 for 300"


def test_a_throttled_list_is_waited_out_too() -> None:
    run = play(errors.Throttled("list", status=429, retry_after=17.0), page("a"), END)
    assert run.world.waits == [17.0]
    assert run.sink.log == ["replace a @10"]


def test_an_orderly_end_of_a_watch_is_resumed_without_a_pause() -> None:
    run = play(page("a"), END, [event("ADDED", "b", "11")], [Silence(HEALTHY_WATCH)], END)
    assert run.world.waits == []
    assert run.reflector.stats.errors == 0


def test_a_healthy_watch_ends_the_row_of_failures() -> None:
    broken = errors.Unreachable(WATCH_ERROR, reason="Broken")
    healthy: list[Step] = [event("MODIFIED", "a", "11"), broken]
    run = play(page("a"), broken, broken, healthy, healthy, END)
    assert run.world.waits == [0.5, 1.0, 0.5, 0.5]


def test_a_successful_list_alone_does_not_end_the_row_of_failures() -> None:
    expired = errors.Expired(WATCH_ERROR, status=410)
    run = play(page("a"), expired, page("a"), expired, page("a"), expired, page("a"), END)
    assert run.world.waits == [1.0, 1.0, 2.0]


NEEDS_RELIST: dict[str, tuple[errors.ApiError, bool, bool]] = {
    "expired": (errors.Expired("x"), True, True),
    "the kind is gone": (errors.NotFound("x"), True, True),
    "the request is refused": (errors.Refused("x"), True, True),
    "the request is invalid": (errors.Invalid("x"), True, True),
    "throttled": (errors.Throttled("x"), False, False),
    "a server error": (errors.ServerError("x"), False, True),
    "unreachable": (errors.Unreachable("x"), False, True),
    "silent": (errors.TimedOut("x"), False, True),
    "garbage": (errors.BadResponse("x"), False, False),
    "unauthorized": (errors.Unauthorized("x"), False, False),
    "forbidden": (errors.Forbidden("x"), False, False),
}


@pytest.mark.parametrize(("error", "at_once", "_"), NEEDS_RELIST.values(), ids=NEEDS_RELIST)
def test_only_what_condemns_the_version_asks_for_a_list(error: errors.ApiError, at_once: bool, _: bool) -> None:
    assert needs_relist(error, None) is at_once
    assert needs_relist(error, errors.Forbidden("y")) is at_once


@pytest.mark.parametrize(("error", "_", "in_a_row"), NEEDS_RELIST.values(), ids=NEEDS_RELIST)
def test_so_does_an_outage_which_is_two_failures_to_meet_a_server(
    error: errors.ApiError, _: bool, in_a_row: bool
) -> None:
    assert needs_relist(error, errors.Unreachable("y")) is in_a_row
    assert needs_relist(error, errors.ServerError("y")) is in_a_row


def test_a_full_list_comes_round_even_if_every_watch_is_fine() -> None:
    run = play(page("a"), END, END, page("a", "b", version="20"), END)
    assert run.calls == [
        "list",
        "watch 10 for 300",
        "watch 10 for 300",
        "list",
        "watch 20 for 300",
    ]
    assert run.sink.known == {"a": "1", "b": "1"}


def test_a_full_list_comes_round_even_if_no_watch_works() -> None:
    broken: list[Step] = [Silence(4), errors.ServerError(WATCH_ERROR, status=500)]
    run = play(page("a"), *[broken] * 5, page("b"), END, relist_interval=35.0)
    assert run.sink.known == {"b": "1"}


def test_a_full_list_interrupts_a_watch_that_never_ends() -> None:
    endless: list[Step] = [
        Silence(400),
        event("MODIFIED", "a", "11"),
        Silence(400),
        event("MODIFIED", "a", "12"),
        event("MODIFIED", "a", "13"),
    ]
    run = play(page("a"), endless, page("a", version="20"), END)
    assert run.calls[2] == "list"
    assert run.sink.log.count("changed a") == 2
    assert run.script.closed == 2


def test_a_watch_that_is_cut_short_for_a_relist_is_no_failure() -> None:
    run = play(page("a"), [Silence(2)], page("a"), END, relist_interval=2.0)
    assert run.calls[1] == "watch 10 for 2"
    assert run.reflector.stats.errors == 0


def test_full_lists_of_several_reflectors_drift_apart() -> None:
    run = play(page("a"), [Silence(300)], END, draw=lambda: 0.999)
    assert run.calls == ["list", "watch 10 for 300", "watch 10 for 241"]


def test_every_watch_is_closed_however_it_ends() -> None:
    broken: list[Step] = [event("ADDED", "b", "11"), errors.Unreachable(WATCH_ERROR)]
    run = play(page("a"), broken, END, [event("ADDED", "c", "12")])
    assert run.script.closed == 3


def test_nothing_is_passed_on_after_the_stop() -> None:
    run = play(page("a"), [event("ADDED", "b", "11"), event("ADDED", "c", "12")])
    assert run.sink.log == ["replace a @10"]
    assert run.script.closed == 1


def test_an_error_after_the_stop_is_the_end_and_not_a_failure() -> None:
    run = play(page("a"), errors.Unreachable(WATCH_ERROR, reason="Broken"))
    assert run.world.waits == []
    assert run.reflector.stats.errors == 0


def test_what_is_in_the_way_is_shown_until_it_is_gone() -> None:
    forbidden = errors.Forbidden("list", status=403)
    run = play(forbidden, forbidden, errors.Unreachable("list"))
    assert run.reflector.stats.last_error is forbidden
    assert run.reflector.stats.last_contact is None
    assert not run.reflector.synced
    run = play(forbidden, page("a"), END)
    assert run.reflector.stats.last_error is None


def test_contact_lists_and_events_are_dated() -> None:
    run = play(page("a"), [Silence(30), event("MODIFIED", "a", "11"), Silence(40)], END)
    stats = run.reflector.stats
    assert (stats.last_list, stats.last_event, stats.last_contact) == (1000.0, 1030.0, 1370.0)
    assert (stats.lists, stats.watches, stats.events) == (1, 2, 1)


def test_a_wait_says_what_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        play(errors.Forbidden("list secrets kube-system", status=403), page("a"), END)
    (record,) = caplog.records
    assert record.__dict__["action"] == "reflector.wait"
    assert "list secrets kube-system: 403" in record.getMessage()


def test_a_bug_in_the_sink_ends_the_reflector() -> None:
    class Broken(Names):
        def changed(self, obj: Json) -> None:
            raise KeyError(obj["metadata"]["name"])

    world = World()
    script = Script(world, [page("a"), [event("ADDED", "b", "11")], END])
    reflector = Reflector(cast(Cluster, script), QUERY, Broken(), clock=world.clock)
    with pytest.raises(KeyError):
        reflector.run(world)
    assert script.closed == 1
