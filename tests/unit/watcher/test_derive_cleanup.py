"""Which slices a cleanup is asked to look at: what metadata tells."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eno.objects import CLEANUP_FINALIZER, OVERFLOW_LABEL
from eno.scope import Scope
from eno.times import format_time
from kube.cluster import Json
from runtime.messages import MAX_SLICES, CleanupMessage
from tests.support.factories import STAMP
from tests.unit.watcher.factories import NOW, SCOPE, composition, decision, resource_slice, synthesis
from watcher.derive import NOTHING, SLICES_PER_MESSAGE, Derived, cleanup, derive, gate
from watcher.keys import Kind
from watcher.records import CompositionRecord, SliceRecord, Subject, read

SELECTING = SCOPE.model_copy(update={"label_selector": "a=b"})
SELECTED = {"labels": {"a": "b"}}
DELETING: dict[str, Any] = {"deletionTimestamp": STAMP, "finalizers": [CLEANUP_FINALIZER]}


def at(**delta: float) -> str:
    return format_time(NOW + timedelta(**delta))


def subject(owner: Json | None, *slices: Json, scope: Scope = SCOPE) -> Subject:
    found = None if owner is None else read(Kind.COMPOSITION, owner, scope)
    assert found is None or isinstance(found, CompositionRecord)
    records = [read(Kind.SLICE, each, scope) for each in slices]
    return Subject(found, tuple(each for each in records if isinstance(each, SliceRecord)))


def a_composition(**fields: Any) -> Json:
    """Refers to `s-1` only."""
    return composition(**fields)


def asked_about(derived: Derived) -> list[str]:
    return [name for task in derived.tasks if isinstance(task, CleanupMessage) for name in task.slices]


def in_flight(**fields: Any) -> Json:
    return {"uuid": "next", "initialized": at(), **fields}


ASKED: dict[str, tuple[Json | None, dict[str, Any], Scope]] = {
    "not referenced": (a_composition(), {}, SCOPE),
    "not referenced, nobody opted in": (a_composition(opt_in=None), {}, SCOPE),
    "its composition is gone": (None, {}, SCOPE),
    "of a composition that was recreated": (a_composition(uid="uid-2"), {}, SCOPE),
    "of a composition that is selected": (a_composition(**SELECTED), {}, SELECTING),
    "far older than the synthesis in flight": (
        a_composition(in_flight=in_flight()),
        {"creationTimestamp": at(minutes=-11)},
        SCOPE,
    ),
    "the synthesis in flight was canceled": (
        a_composition(in_flight=in_flight(canceled=at())),
        {"creationTimestamp": at(minutes=-1)},
        SCOPE,
    ),
    "terminating, not referenced": (a_composition(), DELETING, SCOPE),
    "terminating, its composition is gone": (None, DELETING, SCOPE),
    "terminating, its composition is gone, a selector": (None, DELETING, SELECTING),
    "terminating, referenced by previous alone": (
        a_composition(current=synthesis(slices=()), previous=synthesis("old", slices=("s-2",))),
        DELETING,
        SCOPE,
    ),
    "terminating, current is reconciled": (
        a_composition(current=synthesis(slices=("s-2",), reconciled=STAMP)),
        DELETING,
        SCOPE,
    ),
    "terminating, nobody controls it": (None, {"owner": None, "owner_uid": "", **DELETING}, SCOPE),
    "terminating, however young": (a_composition(), {**DELETING, "creationTimestamp": at()}, SCOPE),
}

LEFT_ALONE: dict[str, tuple[Json | None, dict[str, Any], Scope]] = {
    "referenced by current": (a_composition(current=synthesis(slices=("s-2",))), {}, SCOPE),
    "referenced by previous": (a_composition(previous=synthesis("old", slices=("s-2",))), {}, SCOPE),
    "referenced by the namesake": (a_composition(uid="uid-2", current=synthesis(slices=("s-2",))), {}, SCOPE),
    "a synthesis is in flight": (
        a_composition(in_flight=in_flight()),
        {"creationTimestamp": at(minutes=-10)},
        SCOPE,
    ),
    "a synthesis is in flight since nobody knows when": (
        a_composition(in_flight=in_flight(initialized=None)),
        {"creationTimestamp": at(days=-1)},
        SCOPE,
    ),
    "its composition is gone, a selector": (None, {}, SELECTING),
    "only a namesake is alive, a selector": (a_composition(uid="uid-2", **SELECTED), {}, SELECTING),
    "of a composition that is not selected": (a_composition(), {}, SELECTING),
    "terminating, of a composition that is not selected": (a_composition(), DELETING, SELECTING),
    "nobody knows when it was created": (a_composition(), {"creationTimestamp": None}, SCOPE),
    "terminating, current is not reconciled": (a_composition(current=synthesis(slices=("s-2",))), DELETING, SCOPE),
    "terminating, held by others alone": (a_composition(), {**DELETING, "finalizers": ["example.org/hold"]}, SCOPE),
}


@pytest.mark.parametrize(("owner", "fields", "scope"), ASKED.values(), ids=ASKED.keys())
def test_cleanup_is_asked_about_a_slice(owner: Json | None, fields: dict[str, Any], scope: Scope) -> None:
    derived = cleanup(subject(owner, resource_slice("s-2", **fields), scope=scope), NOW, scope)
    (message,) = derived.tasks
    current = owner["status"].get("currentSynthesis", {}) if owner else {}
    nobody = fields.get("owner", "web") is None
    assert message == CleanupMessage(
        namespace="prod",
        name="" if nobody else "web",
        uid="" if nobody else "uid-1",
        synthesis_uuid=current.get("uuid", ""),
        slices=("s-2",),
        scope=scope,
    )
    assert derived.look_again is None


@pytest.mark.parametrize(("owner", "fields", "scope"), LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_cleanup_is_not_asked_about_a_slice(owner: Json | None, fields: dict[str, Any], scope: Scope) -> None:
    assert cleanup(subject(owner, resource_slice("s-2", **fields), scope=scope), NOW, scope) == NOTHING


def test_a_slice_that_nobody_controls_is_left_alone_and_reported() -> None:
    found = cleanup(subject(None, resource_slice("s-2", owner=None, owner_uid="")), NOW, SCOPE)
    assert found == Derived(findings=("no composition controls ResourceSlice prod/s-2",))


def test_a_young_slice_is_looked_at_again_when_it_is_older_than_5_s() -> None:
    young = resource_slice("s-2", creationTimestamp=at(seconds=-2))
    younger = resource_slice("s-3", creationTimestamp=at(seconds=-1))
    seen = subject(a_composition(), young, younger)
    derived = cleanup(seen, NOW, SCOPE)
    assert derived.tasks == ()
    assert derived.look_again == NOW + timedelta(seconds=3) + timedelta.resolution
    later = cleanup(seen, derived.look_again, SCOPE)
    assert asked_about(later) == ["s-2"]
    assert later.look_again == NOW + timedelta(seconds=4) + timedelta.resolution


def test_a_slice_whose_owner_no_message_can_carry_keeps_no_other_from_going() -> None:
    pieces = [resource_slice("s-2", owner_uid="a b"), resource_slice("s-3")]
    derived = cleanup(subject(a_composition(), *pieces), NOW, SCOPE)
    assert asked_about(derived) == ["s-3"]
    (finding,) = derived.findings
    assert finding.startswith("message of sexton.cleanup about ResourceSlice prod/s-2: uid: ")


def test_of_several_waits_the_one_that_ends_first_counts() -> None:
    """A slice is missing since 2 s, and another one, which nothing refers to, is 1 s old."""
    current = synthesis(slices=("gone",), synthesized=at(seconds=-2))
    young = resource_slice("s-2", creationTimestamp=at(seconds=-1))
    seen = subject(composition(current=current), young)
    waits = [rule(seen, NOW, SCOPE).look_again for rule in (gate, cleanup)]
    assert waits == [NOW + timedelta(seconds=3), NOW + timedelta(seconds=4) + timedelta.resolution]
    assert derive(seen, NOW, SCOPE).look_again == NOW + timedelta(seconds=3)


def test_a_young_slice_does_not_keep_others_from_going() -> None:
    young = resource_slice("s-2", creationTimestamp=at())
    derived = cleanup(subject(a_composition(), young, resource_slice("s-3")), NOW, SCOPE)
    assert asked_about(derived) == ["s-3"]
    assert derived.look_again is not None


def test_overflow_is_asked_about_and_looked_at_again_after_5_s() -> None:
    overflow = resource_slice("s-2", labels={OVERFLOW_LABEL: "true"})
    derived = cleanup(subject(a_composition(), overflow), NOW, SCOPE)
    assert asked_about(derived) == ["s-2"]
    assert derived.look_again == NOW + timedelta(seconds=5)


def test_published_overflow_is_like_any_slice_that_current_refers_to() -> None:
    overflow = resource_slice("s-1", labels={OVERFLOW_LABEL: "true"})
    assert cleanup(subject(a_composition(), overflow), NOW, SCOPE) == NOTHING


def test_there_is_one_task_per_owner_uid() -> None:
    slices = [resource_slice(name, owner_uid=uid) for name, uid in (("b", "2"), ("a", "1"), ("c", "2"))]
    derived = cleanup(subject(a_composition(), *slices), NOW, SCOPE)
    assert [(task.uid, task.slices) for task in derived.tasks if isinstance(task, CleanupMessage)] == [
        ("1", ("a",)),
        ("2", ("b", "c")),
    ]
    assert len({task.key for task in derived.tasks}) == 2


def test_slices_that_it_names_but_others_control_are_the_business_of_those() -> None:
    other = resource_slice("s-2", owner="other", owner_uid="uid-9")
    mixed = a_composition(current=synthesis(slices=("s-1",)), in_flight=synthesis("next", slices=("s-2",)))
    assert cleanup(subject(mixed, other), NOW, SCOPE) == NOTHING


def test_a_message_names_no_more_slices_than_a_task_can_do_and_terminating_ones_first() -> None:
    many = [resource_slice(f"s-{number:04d}") for number in range(2, SLICES_PER_MESSAGE + 50)]
    last = resource_slice("s-9999", **DELETING)
    names = asked_about(cleanup(subject(a_composition(), *many, last), NOW, SCOPE))
    assert len(names) == SLICES_PER_MESSAGE <= MAX_SLICES
    assert names[0] == "s-9999"


def test_what_is_decided_and_ready_calls_for_no_cleanup_of_what_it_refers_to() -> None:
    current = synthesis(tombstoneRecoveryStatus=decision(), ready=STAMP, reconciled=STAMP)
    assert cleanup(subject(a_composition(current=current), resource_slice("s-1")), NOW, SCOPE) == NOTHING
