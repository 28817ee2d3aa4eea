"""The same requests to the same seed and clock give the same bytes; a copy goes its own way."""

from __future__ import annotations

import pytest

from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.errors import NotFound
from kube.cluster import Query, list_all
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tests.unit.devcluster.factories import composition, definition, new_store, secret


def played(store: Store) -> DirectCluster:
    cluster = DirectCluster(store)
    cluster.create(COMPOSITIONS, "default", composition())
    cluster.create(SECRETS, "default", {"metadata": {"generateName": "s-"}, "stringData": {"a": "b"}})
    cluster.merge_patch(COMPOSITIONS, "default", "web", {"metadata": {"labels": {"a": "b"}}})
    return cluster


def everything(cluster: DirectCluster) -> list[object]:
    return [list_all(cluster, Query(resource)) for resource in (COMPOSITIONS, SECRETS)]


def test_two_stores_of_one_seed_are_equal() -> None:
    assert everything(played(new_store(seed="a"))) == everything(played(new_store(seed="a")))


def test_two_seeds_give_other_uids_and_suffixes() -> None:
    first, second = (played(new_store(seed=seed)) for seed in ("a", "b"))
    uids = [cluster.get(COMPOSITIONS, "default", "web")["metadata"]["uid"] for cluster in (first, second)]
    names = [list_all(cluster, Query(SECRETS)).items[0]["metadata"]["name"] for cluster in (first, second)]
    assert len(set(uids)) == len(set(names)) == 2


def test_a_copy_is_equal_and_independent() -> None:
    original = played(new_store())
    copy = DirectCluster(original.store.copy())
    assert everything(copy) == everything(original)
    before = everything(original)
    copy.delete(COMPOSITIONS, "default", "web")
    copy.create(SECRETS, "default", secret("new"))
    copy.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition({"type": "object"}))
    assert everything(original) == before
    assert original.store.kind("test.example", "widgets") is None
    with pytest.raises(NotFound):
        original.get(SECRETS, "default", "new")


def test_a_copy_and_its_original_go_on_alike() -> None:
    original = played(new_store())
    copy = DirectCluster(original.store.copy())
    for cluster in (original, copy):
        cluster.create(SECRETS, "default", {"metadata": {"generateName": "t-"}})
    assert everything(copy) == everything(original)
    assert copy.store.changes_since(0) == original.store.changes_since(0)


def test_a_copy_may_have_a_clock_of_its_own() -> None:
    store = new_store()
    copy = store.copy(clock=lambda: store.clock().replace(year=2030))
    DirectCluster(copy).create(SECRETS, "default", secret())
    created = DirectCluster(copy).get(SECRETS, "default", "inventory")["metadata"]["creationTimestamp"]
    assert created == "2030-01-31T12:00:00Z"
