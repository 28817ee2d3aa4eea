"""Owner garbage collection and the emptying of namespaces, as a controller manager does them."""

from __future__ import annotations

import pytest

from devcluster.direct import DirectCluster
from devcluster.garbage import sweep
from devcluster.store import DeleteOptions
from kube.cluster import Json, Query, list_all
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from tests.unit.devcluster.factories import composition, kind_of, new_store, resource_slice, secret


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster(new_store())


def owner_reference(owner: Json, **members: object) -> Json:
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return {**reference, "name": meta["name"], "uid": meta["uid"], **members}


def owned(cluster: DirectCluster, *owners: Json, name: str = "slice", **members: object) -> Json:
    references = [owner_reference(owner, **members) for owner in owners]
    return cluster.create(RESOURCE_SLICES, "default", resource_slice(name, meta={"ownerReferences": references}))


def slices(cluster: DirectCluster) -> list[Json]:
    return list_all(cluster, Query(RESOURCE_SLICES, "default")).items


def delete_owner(cluster: DirectCluster, policy: str | None = None) -> None:
    store = cluster.store
    store.delete(kind_of(store, COMPOSITIONS), "default", "web", DeleteOptions(propagation=policy))


def test_what_nobody_owns_any_more_goes(cluster: DirectCluster) -> None:
    owner = cluster.create(COMPOSITIONS, "default", composition())
    owned(cluster, owner)
    assert sweep(cluster.store) == 0
    delete_owner(cluster)
    assert sweep(cluster.store) == 1
    assert slices(cluster) == []


def test_a_recreated_owner_of_the_same_name_is_another(cluster: DirectCluster) -> None:
    owned(cluster, cluster.create(COMPOSITIONS, "default", composition()))
    delete_owner(cluster)
    cluster.create(COMPOSITIONS, "default", composition())
    sweep(cluster.store)
    assert slices(cluster) == []


def test_one_living_owner_is_enough(cluster: DirectCluster) -> None:
    first = cluster.create(COMPOSITIONS, "default", composition())
    second = cluster.create(COMPOSITIONS, "default", composition("api"))
    owned(cluster, first, second)
    delete_owner(cluster)
    assert sweep(cluster.store) == 0


def test_an_owner_of_an_unknown_kind_counts_as_living(cluster: DirectCluster) -> None:
    owner: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "uid": "u"}}
    owned(cluster, owner)
    assert sweep(cluster.store) == 0


def test_what_has_no_owner_stays(cluster: DirectCluster) -> None:
    cluster.create(SECRETS, "default", secret())
    assert sweep(cluster.store) == 0


def test_a_dependent_with_a_finalizer_is_only_marked(cluster: DirectCluster) -> None:
    owner = cluster.create(COMPOSITIONS, "default", composition())
    body = resource_slice(meta={"ownerReferences": [owner_reference(owner)], "finalizers": ["a.b/c"]})
    cluster.create(RESOURCE_SLICES, "default", body)
    delete_owner(cluster)
    assert sweep(cluster.store) == 1
    (item,) = slices(cluster)
    assert "deletionTimestamp" in item["metadata"]
    assert sweep(cluster.store) == 0


def test_orphans_lose_the_reference_and_stay(cluster: DirectCluster) -> None:
    owned(cluster, cluster.create(COMPOSITIONS, "default", composition()))
    delete_owner(cluster, "Orphan")
    sweep(cluster.store)
    (item,) = slices(cluster)
    assert "ownerReferences" not in item["metadata"]
    assert list_all(cluster, Query(COMPOSITIONS)).items == []


def test_in_the_foreground_dependents_go_first(cluster: DirectCluster) -> None:
    owner = cluster.create(COMPOSITIONS, "default", composition())
    owned(cluster, owner, blockOwnerDeletion=True)
    cluster.merge_patch(RESOURCE_SLICES, "default", "slice", {"metadata": {"finalizers": ["a.b/c"]}})
    delete_owner(cluster, "Foreground")
    sweep(cluster.store)
    assert len(list_all(cluster, Query(COMPOSITIONS)).items) == 1
    cluster.merge_patch(RESOURCE_SLICES, "default", "slice", {"metadata": {"finalizers": None}})
    sweep(cluster.store)
    assert list_all(cluster, Query(COMPOSITIONS)).items == []


def test_a_deleted_namespace_is_emptied_and_goes(cluster: DirectCluster) -> None:
    cluster.create(NAMESPACES, None, {"metadata": {"name": "team"}})
    cluster.create(SECRETS, "team", secret())
    cluster.create(SECRETS, "default", secret())
    cluster.delete(NAMESPACES, None, "team")
    sweep(cluster.store)
    assert "team" not in [item["metadata"]["name"] for item in list_all(cluster, Query(NAMESPACES)).items]
    assert len(list_all(cluster, Query(SECRETS)).items) == 1


def test_a_finalizer_in_a_namespace_holds_it(cluster: DirectCluster) -> None:
    cluster.create(NAMESPACES, None, {"metadata": {"name": "team"}})
    cluster.create(COMPOSITIONS, "team", composition(meta={"finalizers": ["a.b/c"]}))
    cluster.delete(NAMESPACES, None, "team")
    sweep(cluster.store)
    assert cluster.get(NAMESPACES, None, "team")["status"]["phase"] == "Terminating"
    cluster.merge_patch(COMPOSITIONS, "team", "web", {"metadata": {"finalizers": None}})
    sweep(cluster.store)
    assert "team" not in [item["metadata"]["name"] for item in list_all(cluster, Query(NAMESPACES)).items]
