"""Watches: what is told, to whom, from which version, and when it can no longer be told."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.builtin import CONFIG_MAPS
from devcluster.patches import apply_merge_patch
from devcluster.selectors import parse_selector
from devcluster.store import Store
from devcluster.watches import Watch
from kube.resources import NAMESPACES
from tests.unit.devcluster.factories import kind_of, new_store, refusal


class Maps:
    """ConfigMaps in one namespace, and watches on them."""

    def __init__(self, history: int = 1000) -> None:
        self.store: Store = new_store(history=history, definitions_too=False)
        self.kind = kind_of(self.store, CONFIG_MAPS)

    def add(self, name: str, namespace: str = "default", **labels: str) -> None:
        self.store.create(self.kind, namespace, {"metadata": {"name": name, "labels": labels}})

    def label(self, name: str, **labels: str) -> None:
        patch = {"metadata": {"labels": labels}}
        self.store.patch(self.kind, "default", name, lambda body: apply_merge_patch(body, patch))

    def remove(self, name: str) -> None:
        self.store.delete(self.kind, "default", name)

    def watch(self, version: int | None = None, namespace: str | None = "default", **selectors: str) -> Watch:
        selector = parse_selector(self.kind, selectors.get("labels", ""), selectors.get("fields", ""))
        return Watch(self.store, self.kind, namespace, selector, version)


@pytest.fixture
def maps() -> Maps:
    return Maps()


def told(watch: Watch) -> list[tuple[str, str]]:
    return [(event.type, event.stored.name) for event in watch.poll()]


def test_a_watch_tells_what_came_after_its_version(maps: Maps) -> None:
    maps.add("before")
    watch = maps.watch(maps.store.version)
    maps.add("a")
    maps.label("a", x="1")
    maps.remove("a")
    assert told(watch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert told(watch) == []


@pytest.mark.parametrize("version", [None, 0])
def test_without_a_version_it_begins_with_what_is_there(maps: Maps, version: int | None) -> None:
    maps.add("b")
    maps.add("a")
    watch = maps.watch(version)
    maps.add("c")
    assert told(watch) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_deletion_shows_the_last_state_at_a_new_version(maps: Maps) -> None:
    maps.add("a", x="1")
    watch = maps.watch(maps.store.version)
    maps.remove("a")
    (event,) = watch.poll()
    body = event.stored.decoded(maps.kind)
    assert body["metadata"]["labels"] == {"x": "1"}
    assert body["metadata"]["resourceVersion"] == str(maps.store.version)


def test_other_kinds_and_namespaces_are_not_told(maps: Maps) -> None:
    watch = maps.watch(maps.store.version)
    everywhere = maps.watch(maps.store.version, namespace=None)
    maps.store.create(kind_of(maps.store, NAMESPACES), None, {"metadata": {"name": "default-2"}})
    maps.add("a", "default-2")
    assert told(watch) == []
    assert told(everywhere) == [("ADDED", "a")]


def test_an_object_that_enters_the_selection_is_added_and_one_that_leaves_deleted(maps: Maps) -> None:
    maps.add("in", x="1")
    maps.add("out", x="0")
    watch = maps.watch(maps.store.version, labels="x=1")
    maps.label("in", y="1")
    maps.label("in", x="0")
    maps.label("in", y="2")
    maps.label("out", x="1")
    maps.remove("in")
    maps.remove("out")
    assert told(watch) == [("MODIFIED", "in"), ("DELETED", "in"), ("ADDED", "out"), ("DELETED", "out")]


def test_one_that_left_the_selection_is_shown_as_it_was(maps: Maps) -> None:
    maps.add("in", x="1")
    watch = maps.watch(maps.store.version, labels="x=1")
    maps.label("in", x="0")
    (event,) = watch.poll()
    assert event.stored.labels == {"x": "1"}
    assert event.stored.version == maps.store.version


def test_a_field_selector_narrows_a_watch(maps: Maps) -> None:
    watch = maps.watch(maps.store.version, fields="metadata.name=b")
    maps.add("a")
    maps.add("b")
    assert told(watch) == [("ADDED", "b")]


def test_a_bookmark_tells_how_far_the_watch_has_come(maps: Maps) -> None:
    watch = maps.watch(maps.store.version)
    store = maps.store
    store.create(kind_of(store, NAMESPACES), None, {"metadata": {"name": "other"}})
    assert told(watch) == []
    expected: dict[str, Any] = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(store.version)},
    }
    assert watch.bookmark() == expected


def test_a_watch_resumes_from_a_bookmark_without_a_gap(maps: Maps) -> None:
    watch = maps.watch(maps.store.version)
    maps.add("a")
    assert told(watch) == [("ADDED", "a")]
    version = int(watch.bookmark()["metadata"]["resourceVersion"])
    maps.add("b")
    assert told(maps.watch(version)) == [("ADDED", "b")]


def test_a_version_below_the_history_is_too_old() -> None:
    maps = Maps(history=3)
    version = maps.store.version
    for name in "abc":
        maps.add(name)
    assert len(told(maps.watch(version))) == 3
    maps.add("d")
    with refusal(410, "Expired") as error:
        told(maps.watch(version))
    assert error.value.message == f"too old resource version: {version} ({version + 1})"


def test_a_watch_that_falls_behind_the_history_is_told_so() -> None:
    maps = Maps(history=3)
    watch = maps.watch(maps.store.version)
    for name in "abcd":
        maps.add(name)
    with refusal(410, "Expired"):
        told(watch)


def test_a_version_from_the_future_tells_nothing(maps: Maps) -> None:
    watch = maps.watch(maps.store.version + 100)
    maps.add("a")
    assert told(watch) == []
