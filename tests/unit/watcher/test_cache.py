"""The cache: what a change looks at, and that a list repairs whatever the events before it got wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.times import parse_time
from kube.cluster import Json
from tests.unit.watcher.factories import SCOPE, composition, decision, resource_slice, synthesis
from watcher.cache import Cache
from watcher.keys import Key, Kind
from watcher.records import Record, Subject, Unreadable, read

WEB, API = (Key(Kind.COMPOSITION, "prod", name) for name in ("web", "api"))
BROKEN: Json = {"metadata": {"namespace": "prod", "name": "web", "labels": 7}}


def piece(name: str) -> Key:
    return Key(Kind.SLICE, "prod", name)


def compositions(*objects: Json) -> list[Record | Unreadable]:
    return [read(Kind.COMPOSITION, obj, SCOPE) for obj in objects]


def slices(*objects: Json) -> list[Record | Unreadable]:
    return [read(Kind.SLICE, obj, SCOPE) for obj in objects]


def filled(comps: list[Json], pieces: list[Json]) -> Cache:
    cache = Cache()
    cache.replace(Kind.COMPOSITION, compositions(*comps))
    cache.replace(Kind.SLICE, slices(*pieces))
    return cache


def change(cache: Cache, found: list[Record | Unreadable]) -> set[Key]:
    return cache.change(found[0])


def test_the_first_list_looks_at_everything() -> None:
    cache = Cache()
    assert cache.replace(Kind.COMPOSITION, compositions(composition("web"), composition("api"))) == {WEB, API}
    assert cache.replace(Kind.SLICE, slices(resource_slice("a"), resource_slice("b", owner=None))) == {WEB, piece("b")}
    assert len(cache) == 4


def test_a_list_that_shows_nothing_new_looks_at_nothing() -> None:
    cache = filled([composition()], [resource_slice()])
    assert cache.replace(Kind.COMPOSITION, compositions(composition())) == set()
    assert cache.replace(Kind.SLICE, slices(resource_slice())) == set()


def test_a_list_looks_at_what_it_no_longer_holds() -> None:
    cache = filled([composition("web"), composition("api", current=synthesis(slices=()))], [resource_slice("a")])
    assert cache.replace(Kind.COMPOSITION, compositions(composition("web"))) == {API}
    assert cache.replace(Kind.SLICE, []) == {WEB}
    assert len(cache) == 1


def test_a_list_of_one_kind_leaves_the_other_alone() -> None:
    cache = filled([composition()], [resource_slice()])
    cache.replace(Kind.COMPOSITION, [])
    assert cache.subject(WEB) == Subject(None, cache.subject(piece("s-1")).slices)
    assert len(cache) == 1


def test_a_slice_event_looks_at_its_owner() -> None:
    cache = filled([composition(current=synthesis(slices=()))], [])
    assert change(cache, slices(resource_slice("new", owner="web"))) == {WEB}


def test_a_slice_event_looks_at_whoever_names_the_slice() -> None:
    cache = filled([composition("api", current=synthesis(slices=("shared",)))], [])
    assert change(cache, slices(resource_slice("shared", owner="web"))) == {WEB, API}
    assert cache.remove(slices(resource_slice("shared", owner="web"))[0]) == {WEB, API}


def test_a_slice_that_changes_owner_looks_at_both() -> None:
    cache = filled([], [resource_slice("a", owner="web")])
    assert change(cache, slices(resource_slice("a", owner="api"))) == {WEB, API}
    assert cache.subject(WEB).slices == ()
    assert [found.key for found in cache.subject(API).slices] == [piece("a")]


def test_a_slice_without_owner_stands_for_itself() -> None:
    cache = filled([], [])
    assert change(cache, slices(resource_slice("a", owner=None))) == {piece("a")}
    assert [found.key for found in cache.subject(piece("a")).slices] == [piece("a")]


@pytest.mark.parametrize("field", ["in_flight", "current", "previous"])
def test_a_composition_event_looks_at_slices_named_before_and_after(field: str) -> None:
    before = composition(**{"current": synthesis(slices=()), field: synthesis(slices=("old",))})
    after = composition(version=2, **{"current": synthesis(slices=()), field: synthesis(slices=("new",))})
    cache = filled([before], [resource_slice("old", owner="api"), resource_slice("new", owner=None)])
    assert change(cache, compositions(after)) == {WEB, API, piece("new")}


def test_a_look_sees_the_slices_that_are_controlled_or_named() -> None:
    named = composition(current=synthesis(slices=("foreign", "missing")))
    cache = filled([named], [resource_slice("own"), resource_slice("foreign", owner="api")])
    subject = cache.subject(WEB)
    assert subject.composition is not None
    assert [found.key.name for found in subject.slices] == ["foreign", "own"]


def test_slices_outlive_their_composition() -> None:
    cache = filled([composition()], [resource_slice("own")])
    assert cache.remove(compositions(composition())[0]) == {WEB}
    subject = cache.subject(WEB)
    assert (subject.composition, [found.key.name for found in subject.slices]) == (None, ["own"])


def test_a_late_deletion_of_the_former_object_does_not_take_the_new_one_away() -> None:
    cache = filled([composition(uid="new")], [])
    assert cache.remove(compositions(composition(uid="old"))[0]) == {WEB}
    assert cache.subject(WEB).composition is not None


def test_an_older_version_is_taken_over_too_since_versions_are_opaque() -> None:
    cache = filled([composition(version=7)], [])
    change(cache, compositions(composition(version=3)))
    found = cache.subject(WEB).composition
    assert found is not None
    assert found.resource_version == "3"


def test_an_unreadable_object_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    cache = filled([composition()], [])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            change(cache, compositions(BROKEN))
            cache.replace(Kind.COMPOSITION, compositions(BROKEN))
    assert (cache.unreadable, len(cache), len(caplog.records)) == (1, 0, 1)
    assert cache.subject(WEB) == Subject(None)


@pytest.mark.parametrize(
    "repair",
    [
        lambda cache: cache.change(*compositions(composition())),
        lambda cache: cache.remove(*compositions(BROKEN)),
        lambda cache: cache.replace(Kind.COMPOSITION, []),
        lambda cache: cache.replace(Kind.COMPOSITION, compositions(composition())),
    ],
    ids=["changed", "deleted", "gone from the list", "readable in the list"],
)
def test_an_unreadable_object_counts_until_it_is_repaired(repair: Callable[[Cache], object]) -> None:
    cache = filled([BROKEN], [])
    repair(cache)
    assert cache.unreadable == 0


def test_the_slices_of_an_unreadable_composition_are_no_orphans() -> None:
    cache = filled([BROKEN], [resource_slice()])
    assert cache.subject(WEB) == Subject(None)
    assert change(cache, compositions(composition())) == {WEB}
    assert len(cache.subject(WEB).slices) == 1


def test_an_unreadable_object_is_read_again_with_every_list() -> None:
    cache = filled([BROKEN], [])
    assert cache.replace(Kind.COMPOSITION, compositions(BROKEN)) == set()
    assert cache.replace(Kind.COMPOSITION, compositions(composition())) == {WEB}


def test_a_survey_counts_what_is_known_unreadable_and_undecided() -> None:
    earlier, later = "2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z"
    cache = filled(
        [
            composition("a", current=synthesis(synthesized=later)),
            composition("b", current=synthesis(synthesized=earlier)),
            composition("decided", current=synthesis(tombstoneRecoveryStatus=decision(), synthesized=earlier)),
            composition("opted-out", opt_in=None, current=synthesis(synthesized=earlier)),
            composition("not-synthesized", current=synthesis(synthesized=None)),
            composition("elsewhere", namespace="dev", current=synthesis(synthesized=earlier)),
            composition("going", deletionTimestamp=later, current=synthesis(synthesized=earlier)),
            BROKEN,
        ],
        [resource_slice()],
    )
    survey = cache.survey()
    assert survey.objects == {Kind.COMPOSITION: 7, Kind.SLICE: 1}
    assert survey.unreadable == {Kind.COMPOSITION: 1}
    assert (survey.undecided, survey.oldest_undecided) == (2, parse_time(earlier))


def test_nothing_undecided_has_no_age() -> None:
    assert Cache().survey().oldest_undecided is None


NAMES = st.sampled_from(["a", "b", "c"])
VERSIONS = st.integers(1, 3)


@st.composite
def any_composition(draw: st.DrawFn) -> Json:
    def some() -> Json:
        return synthesis(slices=tuple(draw(st.lists(NAMES, max_size=3))))

    return composition(
        draw(NAMES),
        uid=f"uid-{draw(VERSIONS)}",
        version=draw(VERSIONS),
        current=some(),
        previous=draw(st.none() | st.builds(some)),
    )


@st.composite
def any_slice(draw: st.DrawFn) -> Json:
    return resource_slice(
        draw(NAMES), owner=draw(st.none() | NAMES), uid=f"uid-{draw(VERSIONS)}", version=draw(VERSIONS)
    )


OBJECTS = st.tuples(st.just(Kind.COMPOSITION), any_composition() | st.just(BROKEN)) | st.tuples(
    st.just(Kind.SLICE), any_slice() | st.just(BROKEN)
)
EVENTS = st.lists(st.tuples(st.sampled_from(["change", "remove"]), OBJECTS), max_size=12)
LISTS = st.tuples(st.lists(any_composition() | st.just(BROKEN), max_size=4), st.lists(any_slice(), max_size=4))


def everything(cache: Cache) -> Any:
    keys = [Key(kind, "prod", name) for kind in Kind for name in ("a", "b", "c", "web")]
    return [cache.subject(key) for key in keys], len(cache), cache.unreadable


@given(LISTS)
def test_all_that_there_is_to_look_at_is_what_a_fresh_list_looks_at(lists: tuple[list[Json], list[Json]]) -> None:
    cache = Cache()
    looks = cache.replace(Kind.COMPOSITION, compositions(*lists[0])) | cache.replace(Kind.SLICE, slices(*lists[1]))
    assert cache.everything() == looks


@given(before=LISTS, events=EVENTS, after=LISTS)
def test_whatever_events_came_or_were_lost_a_relist_equals_a_fresh_list(
    before: tuple[list[Json], list[Json]], events: list[Any], after: tuple[list[Json], list[Json]]
) -> None:
    cache = filled(*before)
    for action, (kind, obj) in events:
        getattr(cache, action)(read(kind, obj, SCOPE))
    cache.replace(Kind.COMPOSITION, compositions(*after[0]))
    cache.replace(Kind.SLICE, slices(*after[1]))

    assert everything(cache) == everything(filled(*after))


@given(before=LISTS, events=EVENTS)
def test_whatever_a_change_does_to_a_composition_or_its_slices_is_looked_at(
    before: tuple[list[Json], list[Json]], events: list[Any]
) -> None:
    cache = filled(*before)
    keys = [Key(kind, "prod", name) for kind in Kind for name in ("a", "b", "c", "web")]
    for action, (kind, obj) in events:
        seen = {key: cache.subject(key) for key in keys}
        looks = getattr(cache, action)(read(kind, obj, SCOPE))
        differing = {key for key in keys if cache.subject(key) != seen[key]}
        units = {key for key in differing if key.kind is Kind.COMPOSITION or _unowned(seen[key], cache.subject(key))}
        assert units <= looks


def _unowned(*subjects: Subject) -> bool:
    return any(not found.refers_to for subject in subjects for found in subject.slices)
