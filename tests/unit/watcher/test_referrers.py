"""References read backwards, against a plain model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watcher.keys import Key, Kind
from watcher.referrers import Referrers

KEYS = [Key(Kind.SLICE, "prod", name) for name in "abcdefghijkl"]
STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(KEYS), st.lists(st.sampled_from(KEYS), unique=True)), max_size=20
)


@given(STEPS)
def test_referrers_are_those_that_were_added_and_not_removed(steps: list[tuple[bool, Key, list[Key]]]) -> None:
    referrers, model = Referrers(), {key: set[Key]() for key in KEYS}
    for added, referrer, targets in steps:
        (referrers.add if added else referrers.remove)(referrer, targets)
        for target in targets:
            (model[target].add if added else model[target].discard)(referrer)
    assert {key: referrers.of(key) for key in KEYS} == model


def test_nothing_is_left_of_what_nobody_refers_to_any_more() -> None:
    referrers = Referrers()
    for action in (referrers.add, referrers.remove):
        for referrer in KEYS:
            action(referrer, KEYS)
    assert not any(vars(referrers).values())


def test_the_answer_is_a_copy() -> None:
    referrers = Referrers()
    for referrer in KEYS:
        referrers.add(referrer, KEYS)
    referrers.of(KEYS[0]).clear()
    assert referrers.of(KEYS[0]) == set(KEYS)
