"""A server whose history was rewound: when it is asked for its version, and what its answer leads to."""

from __future__ import annotations

import pytest

from eno import errors
from kube.reflector import is_behind
from tests.support.reflecting import END, WATCH_ERROR, Check, Silence, Step, event, page, play

VERSIONS: dict[str, tuple[str, str, bool]] = {
    "the same": ("17", "17", False),
    "ahead": ("18", "17", False),
    "ahead by a digit": ("100", "99", False),
    "behind": ("16", "17", True),
    "behind by a digit": ("99", "100", True),
    "behind beyond 64 bits": ("9" * 5000, "1" + "0" * 5000, True),
    "no number": ("abc", "17", False),
    "we are at no number": ("16", "zebra", False),
    "a leading zero": ("016", "17", False),
    "digits of another script": ("١٦", "17", False),
    "nothing": ("", "17", False),
    "negative": ("-5", "17", False),
}


@pytest.mark.parametrize(("server", "ours", "expected"), VERSIONS.values(), ids=VERSIONS)
def test_versions_are_compared_only_where_both_are_decimal(server: str, ours: str, expected: bool) -> None:
    assert is_behind(server, ours) is expected


UNVOUCHED: dict[str, list[Step]] = {
    "broke": [event("MODIFIED", "a", "90"), Silence(30), errors.Unreachable(WATCH_ERROR, reason="Broken")],
    "went silent": [Silence(310), errors.TimedOut(WATCH_ERROR)],
    "told something before it went silent": [
        event("MODIFIED", "a", "90"),
        Silence(310),
        errors.TimedOut(WATCH_ERROR),
    ],
    "was refused": [errors.ServerError(WATCH_ERROR, status=503)],
    "ended before its time": [event("MODIFIED", "a", "90"), Silence(60)],
    "ended at once": [],
    "told nothing": END,
}


@pytest.mark.parametrize("watch", UNVOUCHED.values(), ids=UNVOUCHED)
def test_after_a_watch_that_vouches_for_nothing_a_server_with_a_rewound_history_is_listed(watch: list[Step]) -> None:
    run = play(page("a", version="90"), watch, Check("17"), page("b", version="18"), END)
    assert [call.partition(" for")[0] for call in run.calls] == ["list", "watch 90", "check", "list", "watch 18"]
    assert run.sink.known == {"b": "1"}
    assert run.reflector.stats.rewinds == 1


@pytest.mark.parametrize("watch", UNVOUCHED.values(), ids=UNVOUCHED)
@pytest.mark.parametrize("version", ["90", "91", "1000", "zebra"])
def test_a_server_that_has_reached_the_version_is_watched_on(watch: list[Step], version: str) -> None:
    run = play(page("a", version="90"), watch, Check(version), END)
    assert [call.partition(" for")[0] for call in run.calls] == ["list", "watch 90", "check", "watch 90"]
    assert (run.reflector.stats.checks, run.reflector.stats.rewinds) == (1, 0)


def test_where_bookmarks_come_an_idle_stream_is_never_checked() -> None:
    idle: list[Step] = [Silence(13), event("BOOKMARK", "", "10"), Silence(2)]
    run = play(page("a"), *[idle] * 20, watch_timeout=15.0)
    assert run.script.checks == 0


def test_a_stream_without_bookmarks_is_checked_once_per_watch_and_not_listed() -> None:
    run = play(page("a"), *[[Silence(15)]] * 20, watch_timeout=15.0)
    assert run.script.checks == 19
    assert run.script.lists_at == [1000.0]


def test_a_check_that_fails_is_waited_out_before_the_next_watch() -> None:
    broken = errors.Forbidden("list", status=403)
    run = play(page("a"), [Silence(60)], Check(broken), Check("10"), END)
    assert run.world.waits == [0.5]
    assert run.calls[-3:] == ["check", "check", "watch 10 for 300"]


def test_a_rewind_that_is_found_soon_after_a_list_waits_for_the_next_list() -> None:
    run = play(page("a"), [Silence(0.1), errors.Unreachable(WATCH_ERROR)], Check("3"), page("b", version="4"), END)
    assert run.script.lists_at == [1000.0, 1001.0]


def test_after_an_outage_the_list_comes_first_since_the_new_history_may_have_overtaken() -> None:
    broken, refused = errors.Unreachable(WATCH_ERROR, reason="Broken"), errors.Unreachable("x", reason="NoConnection")
    run = play(page("a", version="90"), [Silence(60), broken], Check(refused), refused, page("b", version="500"), END)
    assert run.calls[-4:] == ["check", "list", "list", "watch 500 for 300"]
    assert run.sink.known == {"b": "1"}


def test_a_contact_between_two_failures_is_no_outage() -> None:
    broken: list[Step] = [errors.Unreachable(WATCH_ERROR, reason="Broken")]
    run = play(page("a"), broken, Check("10"), broken, Check("10"), END)
    assert run.script.lists_at == [1000.0]
