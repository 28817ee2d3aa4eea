"""Guards of streams: what a list or a watch may be taken for, and when it is begun anew."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_REFLECTOR = "tests/unit/kube/test_reflector.py"
_REFLECTOR_REWIND = "tests/unit/kube/test_reflector_rewind.py"
_STREAMS = "tests/unit/kube/test_streams.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a watch whose version expired is followed by a list",
        "kube.reflector:needs_relist",
        "isinstance(error, Expired | NotFound | NotServed | Terminal)",
        "isinstance(error, NotFound | NotServed | Terminal)",
        f"{_REFLECTOR}::test_a_failed_relist_leaves_the_cache_as_it_was[an expired continue token]",
    ),
    Guard(
        "a watch that is refused is not asked for again for ever",
        "kube.reflector:needs_relist",
        "Expired | NotFound | NotServed | Terminal",
        "Expired",
        f"{_REFLECTOR}::test_only_what_condemns_the_version_asks_for_a_list[the kind is gone]",
    ),
    Guard(
        "after an outage the list comes first",
        "kube.reflector:needs_relist",
        "return all(isinstance(each, Unreachable | ServerError) for each in (error, before))",
        "return False",
        f"{_REFLECTOR}::test_so_does_an_outage_which_is_two_failures_to_meet_a_server[a server error]",
    ),
    Guard(
        "one broken watch is no outage",
        "kube.reflector:needs_relist",
        "(error, before)",
        "(error,)",
        f"{_REFLECTOR}::test_a_broken_watch_backs_off_and_resumes_from_the_last_version[500]",
    ),
    Guard(
        "versions that cannot be compared say nothing",
        "kube.reflector:is_behind",
        "if not (_COMPARABLE.fullmatch(server) and _COMPARABLE.fullmatch(ours)):",
        "if False:",
        f"{_REFLECTOR_REWIND}::test_versions_are_compared_only_where_both_are_decimal[we are at no number]",
    ),
    Guard(
        "versions are compared as numbers",
        "kube.reflector:is_behind",
        "(len(server), server) < (len(ours), ours)",
        "server < ours",
        f"{_REFLECTOR_REWIND}::test_versions_are_compared_only_where_both_are_decimal[ahead by a digit]",
    ),
    Guard(
        "a full list comes round whatever the watches do",
        "kube.reflector:Reflector._round",
        "if self._clock() >= self._relist_at:",
        "if not self._version:",
        f"{_REFLECTOR}::test_a_failed_relist_leaves_the_cache_as_it_was[an expired continue token]",
    ),
    Guard(
        "a version that nothing vouches for is checked",
        "kube.reflector:Reflector._round",
        "elif not self._vouched:",
        "elif False:",
        f"{_REFLECTOR}::test_a_broken_watch_backs_off_and_resumes_from_the_last_version[500]",
    ),
    Guard(
        "an error after the stop is no failure",
        "kube.reflector:Reflector._round",
        "if stop.is_set():",
        "if False:",
        f"{_REFLECTOR}::test_an_error_after_the_stop_is_the_end_and_not_a_failure",
    ),
    Guard(
        "a list is passed on only when it was read to its end",
        "kube.reflector:Reflector._list",
        "if not token:",
        "if True:",
        f"{_REFLECTOR}::test_pages_are_passed_on_together_after_the_last",
    ),
    Guard(
        "a list that is stopped midway is not passed on",
        "kube.reflector:Reflector._list",
        "while not stop.is_set():",
        "while True:",
        f"{_REFLECTOR}::test_a_list_that_is_stopped_midway_is_not_passed_on",
    ),
    Guard(
        "the watch begins at the version of the first page",
        "kube.reflector:Reflector._list",
        "version = version or page.resource_version",
        "version = page.resource_version",
        f"{_REFLECTOR}::test_pages_of_different_snapshots_are_watched_from_the_oldest",
    ),
    Guard(
        "full lists of several reflectors drift apart",
        "kube.reflector:Reflector._replace",
        " * (1 - self._draw() / 10)",
        "",
        f"{_REFLECTOR}::test_full_lists_of_several_reflectors_drift_apart",
    ),
    Guard(
        "a rewound history is listed again",
        "kube.reflector:Reflector._check",
        "rewound = is_behind(page.resource_version, self._version)",
        "rewound = False",
        (
            f"{_REFLECTOR_REWIND}::test_after_a_watch_that_vouches_for_nothing_a_server_with_a_rewound_history_is_listed"
            "[broke]"
        ),
    ),
    Guard(
        "a list because of a rewind keeps its distance from the one before",
        "kube.reflector:Reflector._check",
        "max(0.0, self._listed_at + RELIST_GAP - self._clock())",
        "0.0",
        f"{_REFLECTOR_REWIND}::test_a_rewind_that_is_found_soon_after_a_list_waits_for_the_next_list",
    ),
    Guard(
        "a watch that tells nothing vouches for nothing",
        "kube.reflector:Reflector._watch",
        "self._vouched = False",
        "pass",
        (
            f"{_REFLECTOR_REWIND}::test_after_a_watch_that_vouches_for_nothing_a_server_with_a_rewound_history_is_listed"
            "[told nothing]"
        ),
    ),
    Guard(
        "a watch that ended before its time vouches for nothing",
        "kube.reflector:Reflector._watch",
        "self._vouched and lasted >= remaining",
        "self._vouched",
        (
            f"{_REFLECTOR_REWIND}::test_after_a_watch_that_vouches_for_nothing_a_server_with_a_rewound_history_is_listed"
            "[ended before its time]"
        ),
    ),
    Guard(
        "a watch ends when the full list is due",
        "kube.reflector:Reflector._watch",
        "min(self._watch_timeout, self._relist_at - started)",
        "self._watch_timeout",
        f"{_REFLECTOR}::test_a_silent_watch_is_counted_as_a_stall_and_reopened",
    ),
    Guard(
        "every watch is closed however it ends",
        "kube.reflector:Reflector._watch",
        "_close(stream)",
        "pass",
        f"{_REFLECTOR}::test_every_watch_is_closed_however_it_ends",
    ),
    Guard(
        "a watch that ends at once is not opened again at once",
        "kube.reflector:Reflector._watch",
        "if not healthy and not stop.is_set():",
        "if False:",
        f"{_REFLECTOR}::test_a_broken_watch_backs_off_and_resumes_from_the_last_version[an end at once]",
    ),
    Guard(
        "a healthy watch ends the row of failures",
        "kube.reflector:Reflector._watch",
        "self._failures = 0 if healthy else self._failures",
        "pass",
        f"{_REFLECTOR}::test_a_healthy_watch_ends_the_row_of_failures",
    ),
    Guard(
        "nothing is passed on after the stop",
        "kube.reflector:Reflector._follow",
        "if stop.is_set():",
        "if False:",
        f"{_REFLECTOR}::test_nothing_is_passed_on_after_the_stop",
    ),
    Guard(
        "a full list interrupts a watch that never ends",
        "kube.reflector:Reflector._follow",
        "if self._clock() >= self._relist_at:",
        "if False:",
        f"{_REFLECTOR}::test_a_full_list_interrupts_a_watch_that_never_ends",
    ),
    Guard(
        "the next watch resumes after the last event",
        "kube.reflector:Reflector._deliver",
        "self._version = version",
        "pass",
        f"{_REFLECTOR}::test_events_change_the_cache_and_the_next_watch_resumes_after_the_last",
    ),
    Guard(
        "an event vouches for the version",
        "kube.reflector:Reflector._deliver",
        "self._vouched = True",
        "pass",
        f"{_REFLECTOR_REWIND}::test_where_bookmarks_come_an_idle_stream_is_never_checked",
    ),
    Guard(
        "nothing vouches for a version after a failure",
        "kube.reflector:Reflector._failed",
        "self._vouched = False",
        "pass",
        (
            f"{_REFLECTOR_REWIND}::test_after_a_watch_that_vouches_for_nothing_a_server_with_a_rewound_history_is_listed"
            "[told something before it went silent]"
        ),
    ),
    Guard(
        "failures in a row wait longer each time",
        "kube.reflector:Reflector._failed",
        "self._failures += 1",
        "self._failures = 1",
        f"{_REFLECTOR}::test_a_server_that_always_says_expired_sees_at_most_one_list_per_second",
    ),
    Guard(
        "lists never start in quicker succession than one a second",
        "kube.reflector:Reflector._failed",
        "delay = max(delay, self._listed_at + RELIST_GAP - now)",
        "pass",
        f"{_REFLECTOR}::test_a_server_that_always_says_expired_sees_at_most_one_list_per_second",
    ),
    Guard(
        "what is in the way is shown only until it is gone",
        "kube.reflector:Reflector._note",
        "last_error=None, ",
        "",
        f"{_REFLECTOR}::test_a_broken_watch_backs_off_and_resumes_from_the_last_version[500]",
    ),
    Guard(
        "a line without an end is not collected for ever",
        "kube.streams:lines",
        "if len(pending) > LINE_LIMIT:",
        "if False:",
        f"{_STREAMS}::test_a_line_without_an_end_is_not_collected_for_ever",
    ),
    Guard(
        "a stream that ends inside an event is a broken connection",
        "kube.streams:lines",
        "if pending.strip():",
        "if False:",
        f"{_STREAMS}::test_a_stream_that_ends_inside_an_event_is_a_broken_connection",
    ),
    Guard(
        "blank lines are no events",
        "kube.streams:lines",
        " if line.strip())",
        ")",
        f"{_STREAMS}::test_blank_lines_are_nothing",
    ),
    Guard(
        "a line that is no event is not believed",
        "kube.streams:event_from",
        "if not isinstance(kind, str) or not isinstance(obj, dict):",
        "if False:",
        f"{_STREAMS}::test_a_line_that_is_no_event_is_a_bad_response[no type]",
    ),
    Guard(
        "an event of another kind is not believed",
        "kube.streams:event_from",
        "check_kind(request, obj)",
        "pass",
        f"{_STREAMS}::test_a_line_that_is_no_event_is_a_bad_response[an object of another kind]",
    ),
    Guard(
        "an error inside a stream is raised",
        "kube.streams:event_from",
        "raise error_from_event(request.operation, obj)",
        "return None",
        f"{_STREAMS}::test_an_error_event_is_raised_after_the_events_before_it[obj0-Expired]",
    ),
    Guard(
        "an unknown type of event does no harm",
        "kube.streams:event_from",
        "return None",
        'raise BadResponse(request.operation, reason="NoEvent", message=kind)',
        f"{_STREAMS}::test_an_unknown_event_type_is_skipped_and_the_watch_goes_on",
    ),
    Guard(
        "an event to which no watch can return is not believed",
        "kube.streams:_versioned",
        "if not isinstance(version, str) or not version:",
        "if False:",
        f"{_STREAMS}::test_a_line_that_is_no_event_is_a_bad_response[an object without a version]",
    ),
)
