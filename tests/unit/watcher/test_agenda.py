"""The agenda: many events are one look, and later instants are kept to."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.watcher.factories import NOW
from watcher.agenda import Agenda, Look
from watcher.keys import Key, Kind

A, B, C = (Key(Kind.COMPOSITION, "prod", name) for name in "abc")
SECOND = timedelta(seconds=1)


def test_a_thousand_events_for_one_object_are_one_look() -> None:
    agenda = Agenda()
    for _ in range(1000):
        agenda.look([A], changed=True)
    assert agenda.take(NOW) == Look(A, True)
    assert agenda.take(NOW) is None


def test_keys_keep_the_order_in_which_they_became_due() -> None:
    agenda = Agenda()
    for key in (A, B, A, C, A):
        agenda.look([key], changed=False)
    assert [agenda.take(NOW) for _ in "abc"] == [Look(A, False), Look(B, False), Look(C, False)]


def test_an_event_during_a_look_makes_the_key_due_again() -> None:
    agenda = Agenda()
    agenda.look([A], changed=True)
    agenda.take(NOW)
    agenda.look([A], changed=True)
    assert agenda.take(NOW) == Look(A, True)


def test_a_change_is_not_forgotten_when_a_look_without_one_follows() -> None:
    agenda = Agenda()
    agenda.look([A], changed=True)
    agenda.look([A], changed=False)
    assert agenda.take(NOW) == Look(A, True)


def test_a_change_is_not_forgotten_when_its_instant_comes_as_well() -> None:
    agenda = Agenda()
    agenda.look_at(A, NOW)
    agenda.look([A], changed=True)
    assert agenda.take(NOW) == Look(A, True)
    assert agenda.take(NOW) is None


def test_nobody_waits_while_something_is_due() -> None:
    agenda = Agenda()
    agenda.look([A], changed=True)
    began = time.monotonic()
    agenda.wait(2.0)
    assert time.monotonic() - began < 1.5


def test_a_later_instant_is_kept_to_and_is_no_change() -> None:
    agenda = Agenda()
    agenda.look_at(A, NOW + SECOND)
    assert agenda.take(NOW) is None
    assert agenda.take(NOW + SECOND) == Look(A, False)
    assert agenda.take(NOW + 2 * SECOND) is None


def test_the_last_instant_given_counts() -> None:
    agenda = Agenda()
    agenda.look_at(A, NOW)
    agenda.look_at(A, NOW + SECOND)
    agenda.look_at(B, NOW)
    agenda.look_at(B, None)
    assert agenda.take(NOW) is None
    assert agenda.take(NOW + SECOND) == Look(A, False)
    assert agenda.take(NOW + 2 * SECOND) is None


def test_a_clock_that_is_set_back_stretches_no_wait() -> None:
    agenda = Agenda()
    agenda.look_at(A, NOW + SECOND)
    assert agenda.take(NOW) is None
    assert agenda.take(NOW - timedelta(days=1)) == Look(A, False)


def test_replaced_instants_do_not_pile_up() -> None:
    agenda = Agenda()
    agenda.look_at(B, NOW + 4998 * SECOND)
    for second in range(5000):
        agenda.look_at(A, NOW + second * SECOND)
    assert len(agenda._heap) < 2048
    assert agenda.take(NOW + 4998 * SECOND) == Look(B, False)
    assert agenda.take(NOW + 4998 * SECOND) is None
    assert agenda.take(NOW + 4999 * SECOND) == Look(A, False)


def test_a_waiting_loop_wakes_up_for_a_look() -> None:
    agenda = Agenda()
    waiter = threading.Thread(target=agenda.wait, args=(60.0,))
    waiter.start()
    agenda.look([A], changed=True)
    waiter.join(10.0)
    assert not waiter.is_alive()


STEPS = st.lists(
    st.tuples(st.sampled_from([A, B, C]), st.one_of(st.none(), st.integers(0, 20)), st.booleans()), max_size=30
)


@given(STEPS)
def test_every_key_comes_up_at_its_instant_and_only_then(steps: list[tuple[Key, int | None, bool]]) -> None:
    agenda, due, later = Agenda(), set(), {}
    for key, seconds, now in steps:
        if now:
            agenda.look([key], changed=True)
            due.add(key)
        else:
            agenda.look_at(key, None if seconds is None else NOW + seconds * SECOND)
            later[key] = seconds
    for second in range(21):
        due |= {key for key, at in later.items() if at == second}
        taken = set()
        while look := agenda.take(NOW + second * SECOND):
            taken.add(look.key)
        assert taken == due
        due = set()
