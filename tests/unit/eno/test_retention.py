"""What may go: one table per reason to keep a slice, and the order in which they speak."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from eno.objects import Composition, ResourceSlice
from eno.retention import (
    OVERFLOW_PAUSE,
    Asked,
    Case,
    Delete,
    Keep,
    Release,
    made_in_flight,
    out_of_proven_scope,
    out_of_scope,
    ownerless,
    protected_overflow,
    referenced,
    released_already,
    slice_fate,
    still_to_be_reconciled,
    watcher_saw_another_owner,
    watcher_saw_another_synthesis,
    young,
)
from eno.scope import Scope
from eno.times import format_time
from tests.support.factories import NOW, STAMP, UID, UUID, Json, composition, decided, resource_slice, synthesis

DELETING = {"deletionTimestamp": STAMP}
OVERFLOW = {"labels": {"eno.azure.io/tombstone-recovery": "true"}, "stamp": UUID}


def at(**delta: float) -> str:
    """An instant relative to NOW, as in an object."""
    return format_time(NOW + timedelta(**delta))


def a_slice(**fields: Any) -> ResourceSlice:
    """Old, controlled by the composition of the factories, called `a`."""
    return resource_slice("a", **{"creationTimestamp": at(hours=-1), **fields})


def a_composition(**fields: Any) -> Composition:
    """Alive and decided, referring to no slice."""
    current = {"tombstoneRecoveryStatus": decided(), **fields.pop("current", {})}
    return composition(current=synthesis(**current), **fields)


def a_case(
    each: ResourceSlice | None = None, owner: Composition | None = None, *, gone: bool = False, **fields: Any
) -> Case:
    """A slice that nothing needs, unless the arguments say otherwise."""
    found = None if gone else owner or a_composition()
    return Case(**{"slice": each or a_slice(), "composition": found, "now": NOW, "scope": Scope(), **fields})


def in_flight(uuid: str = "next", **fields: Any) -> Json:
    """A synthesis that runs; it began now."""
    return {"uuid": uuid, "initialized": at(), **fields}


def kept(reason: Callable[[Case], Keep | None], case: Case) -> bool:
    return reason(case) is not None


def test_a_slice_that_nothing_needs_is_deleted() -> None:
    assert slice_fate(a_case()) == Delete("nothing needs it")
    assert slice_fate(a_case(gone=True)) == Delete("nothing needs it"), "its composition is gone"


def test_a_terminating_slice_that_nothing_waits_for_is_released() -> None:
    expected = Release("it is terminating and nothing waits for it")
    assert slice_fate(a_case(a_slice(**DELETING))) == expected
    assert slice_fate(a_case(a_slice(**DELETING), gone=True)) == expected
    assert slice_fate(a_case(a_slice(owner=None, **DELETING), gone=True)) == expected, "without an owner, too"


@pytest.mark.parametrize(
    ("scope", "labels", "expected"),
    [
        pytest.param({}, {}, False, id="all namespaces"),
        pytest.param({"composition_namespace": "apps"}, {}, False, id="its namespace"),
        pytest.param({"composition_namespace": "other"}, {}, True, id="another namespace"),
        pytest.param({"label_selector": "a=b"}, {"a": "b"}, False, id="selected labels"),
        pytest.param({"label_selector": "a=b"}, {"a": "c"}, True, id="other labels"),
    ],
)
def test_a_slice_out_of_scope_is_left_alone(scope: dict[str, Any], labels: dict[str, str], expected: bool) -> None:
    owner = a_composition(metadata={"labels": labels})
    for each in (a_slice(), a_slice(**DELETING)):
        case = a_case(each, owner, scope=Scope(**scope))
        assert kept(out_of_scope, case) is expected
        assert isinstance(slice_fate(case), Keep) is expected


def test_a_slice_of_another_namespace_is_left_alone_although_its_composition_is_gone() -> None:
    for each in (a_slice(), a_slice(**DELETING)):
        assert kept(out_of_scope, a_case(each, gone=True, scope=Scope(composition_namespace="other")))


@pytest.mark.parametrize(
    ("each", "asked", "expected"),
    [
        pytest.param(a_slice(), Asked(UID, UUID), False, id="the same owner"),
        pytest.param(a_slice(), Asked("another", UUID), True, id="another owner"),
        pytest.param(a_slice(), Asked("", UUID), True, id="no owner was seen"),
        pytest.param(a_slice(owner=None), Asked(UID, UUID), True, id="it has no owner any more"),
        pytest.param(a_slice(owner=None), Asked("", UUID), False, id="no owner, as was seen"),
        pytest.param(a_slice(), None, False, id="nobody asked"),
    ],
)
def test_what_the_watcher_saw_has_to_agree_about_the_owner(
    each: ResourceSlice, asked: Asked | None, expected: bool
) -> None:
    assert kept(watcher_saw_another_owner, a_case(each, asked=asked)) is expected


@pytest.mark.parametrize(
    ("owner", "asked", "expected"),
    [
        pytest.param(a_composition(), UUID, False, id="the same synthesis"),
        pytest.param(a_composition(), "older", True, id="another synthesis"),
        pytest.param(a_composition(), "", True, id="none was seen, now there is one"),
        pytest.param(composition(current=None), "", False, id="none, as was seen"),
        pytest.param(composition(current=None), UUID, True, id="one was seen, now there is none"),
        pytest.param(None, "", False, id="gone, as was seen"),
        pytest.param(None, UUID, True, id="gone since"),
        pytest.param(a_composition(uid="another"), UUID, False, id="of the namesake, whatever its UID"),
        pytest.param(a_composition(uid="another"), "older", True, id="another one of the namesake"),
    ],
)
def test_what_the_watcher_saw_has_to_agree_about_the_synthesis(
    owner: Composition | None, asked: str, expected: bool
) -> None:
    case = a_case(owner=owner, gone=owner is None, asked=Asked(UID, asked))
    assert kept(watcher_saw_another_synthesis, case) is expected
    assert not kept(watcher_saw_another_synthesis, a_case(owner=owner, gone=owner is None)), "nobody asked"


@pytest.mark.parametrize(
    ("finalizers", "expected"),
    [
        pytest.param(["eno.azure.io/cleanup"], False, id="ours"),
        pytest.param(["example.org/hold", "eno.azure.io/cleanup"], False, id="ours among others"),
        pytest.param(["example.org/hold"], True, id="only those of others"),
        pytest.param([], True, id="none"),
    ],
)
def test_only_our_finalizer_is_ours_to_remove(finalizers: list[str], expected: bool) -> None:
    case = a_case(a_slice(finalizers=finalizers, **DELETING))
    assert kept(released_already, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(a_composition(current={"slices": ["a"]}), True, id="referenced by current, not reconciled"),
        pytest.param(
            a_composition(current={"slices": ["a"], "reconciled": STAMP}), False, id="referenced by current, reconciled"
        ),
        pytest.param(
            a_composition(current={"slices": ["a"]}, uid="another"), True, id="referenced by current of the namesake"
        ),
        pytest.param(a_composition(current={"slices": ["b", None]}), False, id="not referenced"),
        pytest.param(
            a_composition(previousSynthesis=synthesis("old", slices=["a"])), False, id="referenced by previous alone"
        ),
        pytest.param(
            a_composition(current={"slices": ["a"]}, metadata=DELETING), True, id="needed for the deletion, still"
        ),
        pytest.param(composition(current=None), False, id="no current synthesis"),
        pytest.param(None, False, id="composition gone"),
    ],
)
def test_a_terminating_slice_is_kept_while_current_needs_it(owner: Composition | None, expected: bool) -> None:
    case = a_case(a_slice(**DELETING), owner, gone=owner is None)
    assert kept(still_to_be_reconciled, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected


REFERENCE = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "name": "shop", "uid": UID, "controller": True}


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        pytest.param([REFERENCE], False, id="a controlling Composition"),
        pytest.param([{**REFERENCE, "apiVersion": "eno.azure.io/v2"}], False, id="of another version"),
        pytest.param([], True, id="no reference"),
        pytest.param([{**REFERENCE, "controller": False}], True, id="a reference that is not the controller"),
        pytest.param([{**REFERENCE, "kind": "Symphony"}], True, id="another kind"),
        pytest.param([{**REFERENCE, "apiVersion": "example.org/v1"}], True, id="another group"),
        pytest.param([{**REFERENCE, "apiVersion": "v1"}], True, id="the core group"),
    ],
)
def test_a_slice_without_a_controlling_composition_is_left_alone(references: list[Json], expected: bool) -> None:
    case = a_case(a_slice(ownerReferences=references), gone=True)
    assert kept(ownerless, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected
    assert isinstance(slice_fate(a_case(a_slice(ownerReferences=references, **DELETING), gone=True)), Release)


@pytest.mark.parametrize(
    ("owner", "selector", "expected"),
    [
        pytest.param(None, "", False, id="composition gone, no selector"),
        pytest.param(None, "a!=b", True, id="composition gone, a selector"),
        pytest.param(a_composition(), "a!=b", False, id="composition alive, a selector"),
        pytest.param(a_composition(uid="another"), "a!=b", True, id="only a namesake is alive, a selector"),
        pytest.param(a_composition(uid="another"), "", False, id="only a namesake is alive, no selector"),
    ],
)
def test_where_scope_cannot_be_proved_nothing_is_deleted_only_released(
    owner: Composition | None, selector: str, expected: bool
) -> None:
    scope = Scope(label_selector=selector)
    case = a_case(owner=owner, gone=owner is None, scope=scope)
    assert kept(out_of_proven_scope, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected
    assert isinstance(slice_fate(a_case(a_slice(**DELETING), owner, gone=owner is None, scope=scope)), Release)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(a_composition(current={"slices": ["b", "a"]}), True, id="by current"),
        pytest.param(a_composition(previousSynthesis=synthesis("old", slices=["a"])), True, id="by previous"),
        pytest.param(a_composition(current={"slices": ["a"]}, uid="another"), True, id="by the namesake's current"),
        pytest.param(
            a_composition(previousSynthesis=synthesis("old", slices=["a"]), uid="another"),
            True,
            id="by the namesake's previous",
        ),
        pytest.param(a_composition(current={"slices": ["a"]}, metadata=DELETING), True, id="by one that is deleting"),
        pytest.param(a_composition(current={"slices": ["b", None, ""]}), False, id="null and nameless are skipped"),
        pytest.param(composition(current=None), False, id="no synthesis"),
        pytest.param(None, False, id="composition gone"),
    ],
)
def test_a_slice_that_is_referenced_is_kept(owner: Composition | None, expected: bool) -> None:
    case = a_case(owner=owner, gone=owner is None)
    assert kept(referenced, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected


@pytest.mark.parametrize(
    ("each", "synthesis", "expected"),
    [
        pytest.param({"stamp": UUID}, in_flight(), True, id="stamped with the older UUID"),
        pytest.param({"stamp": "next"}, in_flight(), True, id="stamped with its own UUID"),
        pytest.param(
            {"stamp": "next", "creationTimestamp": at(days=-1)}, in_flight(), True, id="its own UUID, however old"
        ),
        pytest.param({"stamp": ""}, in_flight(), True, id="a first synthesis: not stamped"),
        pytest.param({}, in_flight(initialized=None), True, id="nobody knows when it began"),
        pytest.param({}, in_flight(initialized=at(minutes=9)), True, id="Eno's clock 9 minutes ahead"),
        pytest.param(
            {"creationTimestamp": at(minutes=-10)}, in_flight(), True, id="created exactly 10 minutes before it"
        ),
        pytest.param(
            {"creationTimestamp": at(minutes=-10, seconds=-1)}, in_flight(), False, id="created earlier than that"
        ),
        pytest.param({"creationTimestamp": None}, in_flight(), True, id="nobody knows when it was created"),
        pytest.param({"stamp": "next"}, in_flight(canceled=at()), False, id="canceled"),
        pytest.param({}, None, False, id="none in flight"),
    ],
)
def test_a_slice_that_a_running_synthesis_may_have_made_is_kept(
    each: dict[str, Any], synthesis: Json | None, expected: bool
) -> None:
    each = {"creationTimestamp": at(minutes=-1), **each}
    case = a_case(a_slice(**each), a_composition(**({"inFlightSynthesis": synthesis} if synthesis else {})))
    assert kept(made_in_flight, case) is expected
    assert isinstance(slice_fate(case), Keep) is expected


def test_a_namesakes_synthesis_made_none_of_the_slices_of_another_owner() -> None:
    recent = a_slice(creationTimestamp=at(minutes=-1))
    assert kept(made_in_flight, a_case(recent, a_composition(inFlightSynthesis=in_flight())))
    assert not kept(made_in_flight, a_case(recent, a_composition(uid="another", inFlightSynthesis=in_flight())))


UNDECIDED: Json = {"current": {"tombstoneRecoveryStatus": None}}


@pytest.mark.parametrize(
    ("each", "owner", "expected"),
    [
        pytest.param(OVERFLOW, UNDECIDED, True, id="not published yet"),
        pytest.param({**OVERFLOW, "labels": {}}, UNDECIDED, False, id="an ordinary slice, unmarked"),
        pytest.param(
            {**OVERFLOW, "labels": {"eno.azure.io/tombstone-recovery": "True"}}, UNDECIDED, False, id="marked otherwise"
        ),
        pytest.param({**OVERFLOW, "stamp": "older"}, UNDECIDED, False, id="superseded"),
        pytest.param(OVERFLOW, {}, False, id="finished without it"),
        pytest.param(OVERFLOW, {**UNDECIDED, "opted_in": False}, False, id="opted out"),
        pytest.param(OVERFLOW, {**UNDECIDED, "metadata": DELETING}, False, id="deleting"),
        pytest.param(OVERFLOW, {**UNDECIDED, "uid": "another"}, False, id="of another owner"),
        pytest.param(
            OVERFLOW,
            {"current": {"tombstoneRecoveryStatus": None, "tombstoneRecoveryRequired": False}},
            False,
            id="no recovery is required",
        ),
        pytest.param(
            OVERFLOW,
            {"current": {"tombstoneRecoveryStatus": {**decided(), "status": False}}},
            True,
            id="a retriable decision is no end",
        ),
        pytest.param(
            OVERFLOW, {"current": {"tombstoneRecoveryStatus": decided(uuid="older")}}, True, id="decided for another"
        ),
    ],
)
def test_overflow_that_is_not_published_yet_is_kept(
    each: dict[str, Any], owner: dict[str, Any], expected: bool
) -> None:
    case = a_case(a_slice(**each), a_composition(**owner))
    assert protected_overflow(case) == (
        Keep("its recovery has not published it yet", NOW + OVERFLOW_PAUSE) if expected else None
    )
    assert isinstance(slice_fate(case), Keep) is expected


def test_overflow_is_protected_by_an_inferred_requirement_too() -> None:
    owner = a_composition(current={"tombstoneRecoveryStatus": None, "tombstoneRecoveryRequired": None})
    assert not kept(protected_overflow, a_case(a_slice(**OVERFLOW), owner))
    assert kept(protected_overflow, a_case(a_slice(**OVERFLOW), owner, infer_required=True))


@pytest.mark.parametrize(
    ("age", "expected"),
    [(-60, True), (0, True), (5, True), (5.000001, False), (3600, False)],
    ids=["created in the future", "just created", "exactly 5 s", "a moment more than 5 s", "an hour"],
)
def test_a_slice_is_kept_until_it_is_older_than_5_s(age: float, expected: bool) -> None:
    created = NOW - timedelta(seconds=60)
    now = created + timedelta(seconds=age)
    found = young(a_case(a_slice(creationTimestamp=format_time(created)), now=now))
    assert (found is not None) is expected
    if found is not None:
        assert found.until == created + timedelta(seconds=5, microseconds=1), "the rest of it"
        assert young(a_case(a_slice(creationTimestamp=format_time(created)), now=found.until)) is None


def test_a_slice_without_a_creation_time_is_kept() -> None:
    assert young(a_case(a_slice(creationTimestamp=None))) == Keep("it has no creationTimestamp")


YOUNG_SLICE = {"creationTimestamp": at()}


def test_a_wait_is_only_for_what_nothing_else_keeps() -> None:
    owner = a_composition(current={"slices": ["a"]})
    assert slice_fate(a_case(a_slice(**YOUNG_SLICE), owner)) == Keep("the current synthesis references it")
    assert isinstance(slice_fate(a_case(a_slice(**YOUNG_SLICE))), Keep)
