"""Lists: order, pages of one version, expired tokens, versions asked for."""

from __future__ import annotations

import base64

import pytest

from devcluster.builtin import CONFIG_MAPS
from devcluster.lists import ListOptions, ObjectList, list_objects
from devcluster.patches import apply_merge_patch
from devcluster.store import Store
from kube.resources import NAMESPACES
from tests.unit.devcluster.factories import kind_of, new_store, refusal


def filled(*names: str, history: int = 1000) -> Store:
    """A store with ConfigMaps of these names in `default`."""
    store = new_store(history=history, definitions_too=False)
    for name in names:
        add(store, name)
    return store


def add(store: Store, name: str, namespace: str = "default") -> None:
    store.create(kind_of(store, CONFIG_MAPS), namespace, {"metadata": {"name": name, "labels": {"n": name}}})


def remove(store: Store, name: str) -> None:
    store.delete(kind_of(store, CONFIG_MAPS), "default", name)


def listed(store: Store, **options: object) -> ObjectList:
    merged = {"namespace": "default", **options}
    return list_objects(store, kind_of(store, CONFIG_MAPS), ListOptions(**merged))  # type: ignore[arg-type]


def names(page: ObjectList) -> list[str]:
    return [item.name for item in page.items]


def test_objects_come_in_the_order_of_their_names() -> None:
    store = filled("c", "a", "b-1", "b")
    assert names(listed(store)) == ["a", "b", "b-1", "c"]


def test_namespaces_come_in_the_order_of_their_keys() -> None:
    store = filled("z")
    for namespace in ("a", "a-b"):
        store.create(kind_of(store, NAMESPACES), None, {"metadata": {"name": namespace}})
        add(store, "x", namespace)
    found = listed(store, namespace=None)
    assert [item.namespace for item in found.items] == ["a-b", "a", "default"]


def test_one_namespace_is_not_the_beginning_of_another() -> None:
    store = filled("x")
    store.create(kind_of(store, NAMESPACES), None, {"metadata": {"name": "default-2"}})
    add(store, "y", "default-2")
    assert names(listed(store)) == ["x"]


def test_an_empty_list_has_a_version_to_watch_from() -> None:
    store = filled()
    assert listed(store).version == store.version


def test_pages_together_are_the_whole_list() -> None:
    store = filled(*"abcde")
    page = listed(store, limit=2)
    assert (names(page), page.remaining) == (["a", "b"], 3)
    page = listed(store, limit=2, continue_token=page.continue_token)
    assert (names(page), page.remaining) == (["c", "d"], 1)
    page = listed(store, limit=2, continue_token=page.continue_token)
    assert (names(page), page.continue_token, page.remaining) == (["e"], "", None)


def test_a_page_that_ends_with_the_list_has_no_token() -> None:
    assert listed(filled("a", "b"), limit=2).continue_token == ""


def test_later_pages_show_the_version_of_the_first() -> None:
    store = filled(*"acegi")
    first = listed(store, limit=2)
    assert names(first) == ["a", "c"]
    add(store, "d")
    remove(store, "e")
    remove(store, "g")
    add(store, "g")
    kind = kind_of(store, CONFIG_MAPS)
    store.patch(kind, "default", "i", lambda body: apply_merge_patch(body, {"data": {"new": "x"}}))
    rest = listed(store, continue_token=first.continue_token)
    assert names(rest) == ["e", "g", "i"]
    assert rest.version == first.version
    assert all(item.version <= first.version for item in rest.items)
    assert "data" not in rest.items[-1].decoded(kind)


def test_a_token_outlived_by_the_history_is_expired() -> None:
    store = filled(*"abc", history=2)
    token = listed(store, limit=1).continue_token
    add(store, "d")
    add(store, "e")
    assert names(listed(store, continue_token=token)) == ["b", "c"]
    add(store, "f")
    with refusal(410, "Expired") as error:
        listed(store, continue_token=token)
    again = error.value.body["metadata"]["continue"]
    assert names(listed(store, continue_token=again)) == ["b", "c", "d", "e", "f"]


def test_compacting_expires_every_token() -> None:
    store = filled(*"abc")
    token = listed(store, limit=1).continue_token
    add(store, "d")
    store.history.compact()
    with refusal(410, "Expired"):
        listed(store, continue_token=token)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


TOKENS: dict[str, str] = {
    "no base64": "%%%",
    "no JSON": encoded("x"),
    "of another version": encoded('{"v":"meta.k8s.io/v9","rv":5,"start":"/a"}'),
    "without a version": encoded('{"v":"meta.k8s.io/v1","start":"/a"}'),
    "of version zero": encoded('{"v":"meta.k8s.io/v1","rv":0,"start":"/a"}'),
    "of a key outside": encoded('{"v":"meta.k8s.io/v1","rv":5,"start":"a"}'),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_token_that_is_none_is_a_bad_request(token: str) -> None:
    with refusal(400, "BadRequest"):
        listed(filled("a"), continue_token=token)


def test_with_a_selector_nobody_counts_what_remains() -> None:
    page = listed(filled(*"abc"), limit=1, labels="n!=a")
    assert (names(page), page.remaining) == (["b"], None)
    assert page.continue_token


def test_version_zero_ignores_the_limit() -> None:
    assert names(listed(filled(*"abc"), limit=1, version="0")) == ["a", "b", "c"]


def test_an_exact_version_shows_the_past() -> None:
    store = filled("a", "b")
    version = str(store.version)
    remove(store, "a")
    page = listed(store, version=version, match="Exact")
    assert (names(page), page.version) == (["a", "b"], int(version))


def test_a_version_not_older_than_shows_the_present() -> None:
    store = filled("a")
    version = str(store.version)
    add(store, "b")
    assert names(listed(store, version=version, match="NotOlderThan")) == ["a", "b"]


def test_an_exact_version_beyond_the_history_is_expired() -> None:
    store = filled("a")
    store.history.compact()
    add(store, "b")
    with refusal(410, "Expired"):
        listed(store, version="1", match="Exact")


def test_a_version_from_the_future_is_too_large() -> None:
    with refusal(504, "Timeout") as error:
        listed(filled("a"), version="9999")
    assert error.value.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


WRONG: dict[str, tuple[int, str, dict[str, str]]] = {
    "a version that is a word": (400, "BadRequest", {"version": "abc"}),
    "a match without a version": (422, "Invalid", {"match": "Exact"}),
    "an unknown match": (422, "Invalid", {"match": "Foo", "version": "1"}),
    "exactly zero": (422, "Invalid", {"match": "Exact", "version": "0"}),
    "a match with a token": (422, "Invalid", {"match": "Exact", "version": "1", "continue_token": "x"}),
    "a version with a token": (400, "BadRequest", {"version": "1", "continue_token": "x"}),
}


@pytest.mark.parametrize(("code", "reason", "options"), WRONG.values(), ids=WRONG)
def test_options_that_contradict_each_other_are_refused(code: int, reason: str, options: dict[str, str]) -> None:
    with refusal(code, reason):
        listed(filled("a"), **options)


def test_the_history_keeps_what_it_promises_and_no_more() -> None:
    store = filled(history=5)
    for number in range(40):
        add(store, f"n{number}")
        floor = store.history.floor
        changes = store.changes_since(floor)
        assert [change.version for change in changes] == list(range(floor + 1, store.version + 1))
        assert len(changes) == min(5, store.version)
