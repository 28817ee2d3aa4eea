"""The `Cluster` protocol on a store: the same classes of errors as over HTTP, and nothing shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devcluster.audit import Entry
from devcluster.direct import DirectCluster
from eno import errors
from kube.cluster import Cluster, Json, Query, WatchEvent, list_all
from kube.resources import COMPOSITIONS, SECRETS, Resource
from tests.unit.devcluster.factories import START, composition, new_store, secret


@pytest.fixture
def cluster() -> DirectCluster:
    cluster = DirectCluster(new_store())
    cluster.create(COMPOSITIONS, "default", composition())
    return cluster


def watched(cluster: Cluster, query: Query, version: str) -> list[WatchEvent]:
    return list(cluster.watch(query, resource_version=version, timeout_seconds=1))


ERRORS: dict[str, tuple[type[errors.ApiError], Callable[[DirectCluster], object]]] = {
    "a missing object": (errors.NotFound, lambda c: c.get(COMPOSITIONS, "default", "nobody")),
    "a missing kind": (errors.NotServed, lambda c: c.get(Resource("a", "v1", "bs", "B"), "default", "x")),
    "a missing version": (
        errors.NotServed,
        lambda c: c.get(Resource("eno.azure.io", "v9", "compositions", "Composition"), "default", "web"),
    ),
    "a missing subresource": (
        errors.NotServed,
        lambda c: c.merge_patch(SECRETS, "default", "x", {}, subresource="status"),
    ),
    "a missing namespace": (errors.NotFound, lambda c: c.create(SECRETS, "nowhere", secret())),
    "a taken name": (errors.AlreadyExists, lambda c: c.create(COMPOSITIONS, "default", composition())),
    "a stale version": (
        errors.Conflict,
        lambda c: c.merge_patch(COMPOSITIONS, "default", "web", {"metadata": {"resourceVersion": "1"}}),
    ),
    "an unmet precondition": (
        errors.Conflict,
        lambda c: c.delete(COMPOSITIONS, "default", "web", uid="x"),
    ),
    "a failed test": (
        errors.Invalid,
        lambda c: c.json_patch(COMPOSITIONS, "default", "web", [{"op": "test", "path": "/metadata/uid", "value": "x"}]),
    ),
    "an object without a name": (errors.Invalid, lambda c: c.create(SECRETS, "default", {"metadata": {}})),
    "a malformed object": (errors.Refused, lambda c: c.create(COMPOSITIONS, "default", {})),
    "a malformed selector": (
        errors.Refused,
        lambda c: c.list_page(Query(SECRETS, "default", label_selector="a b")),
    ),
    "a body above three mebibytes": (
        errors.Refused,
        lambda c: c.create(SECRETS, "default", secret(stringData={"a": "x" * 3 * 1024 * 1024})),
    ),
    "a patch above three mebibytes": (
        errors.Refused,
        lambda c: c.merge_patch(COMPOSITIONS, "default", "web", {"x": "x" * 3 * 1024 * 1024}),
    ),
    "an expired token": (
        errors.Expired,
        lambda c: c.list_page(
            Query(SECRETS, "default"), continue_token="eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYSJ9"
        ),
    ),
    "an expired watch": (
        errors.Expired,
        lambda c: watched(c, Query(SECRETS, "default"), "1"),
    ),
}


@pytest.mark.parametrize(("kind", "call"), ERRORS.values(), ids=ERRORS)
def test_a_refusal_becomes_an_error(
    cluster: DirectCluster, kind: type[errors.ApiError], call: Callable[[DirectCluster], object]
) -> None:
    cluster.store.history.compact()
    with pytest.raises(errors.ApiError) as error:
        call(cluster)
    assert type(error.value) is kind


def test_an_error_names_the_operation(cluster: DirectCluster) -> None:
    with pytest.raises(errors.NotFound) as error:
        cluster.merge_patch(COMPOSITIONS, "default", "nobody", {}, subresource="status")
    assert error.value.where == "patch compositions.eno.azure.io/status default/nobody"
    assert error.value.what == "404 NotFound"


def test_nothing_is_shared_with_the_caller(cluster: DirectCluster) -> None:
    patch: Json = {"metadata": {"annotations": {"a": "b"}}}
    returned = cluster.merge_patch(COMPOSITIONS, "default", "web", patch)
    patch["metadata"]["annotations"]["a"] = "changed"
    returned["metadata"]["annotations"]["a"] = "changed"
    assert cluster.get(COMPOSITIONS, "default", "web")["metadata"]["annotations"] == {"a": "b"}


def test_a_refused_body_is_left_as_it_was(cluster: DirectCluster) -> None:
    body = composition(meta={"bogus": 1})
    with pytest.raises(errors.AlreadyExists):
        cluster.create(COMPOSITIONS, "default", body)
    assert body == composition(meta={"bogus": 1})


def test_metadata_only_hides_everything_else(cluster: DirectCluster) -> None:
    query = Query(COMPOSITIONS, "default", metadata_only=True)
    (item,) = list_all(cluster, query).items
    (event, _) = watched(cluster, query, "")
    for body in (item, event.object, cluster.get(COMPOSITIONS, "default", "web", metadata_only=True)):
        assert body.keys() == {"kind", "apiVersion", "metadata"}
        assert body["kind"] == "PartialObjectMetadata"


def test_items_of_built_in_lists_carry_no_kind(cluster: DirectCluster) -> None:
    cluster.create(SECRETS, "default", secret())
    (item,) = list_all(cluster, Query(SECRETS, "default")).items
    assert "kind" not in item
    assert list_all(cluster, Query(COMPOSITIONS, "default")).items[0]["kind"] == "Composition"


def test_a_page_tells_the_servers_time_in_whole_seconds(cluster: DirectCluster) -> None:
    assert cluster.list_page(Query(SECRETS)).date == START.replace(microsecond=0)


def test_a_watch_tells_what_happened_then_a_bookmark_and_ends(cluster: DirectCluster) -> None:
    query = Query(COMPOSITIONS, "default")
    version = list_all(cluster, query).resource_version
    cluster.merge_patch(COMPOSITIONS, "default", "web", {"metadata": {"labels": {"a": "b"}}})
    cluster.delete(COMPOSITIONS, "default", "web")
    events = watched(cluster, query, version)
    assert [event.type for event in events] == ["MODIFIED", "DELETED", "BOOKMARK"]
    assert events[-1].object["metadata"]["resourceVersion"] == str(cluster.store.version)
    again = watched(cluster, query, events[-1].object["metadata"]["resourceVersion"])
    assert [event.type for event in again] == ["BOOKMARK"]


def test_a_patch_of_the_status_tests_the_metadata_and_writes_the_status(cluster: DirectCluster) -> None:
    meta = cluster.get(COMPOSITIONS, "default", "web")["metadata"]
    status = {"currentSynthesis": {"uuid": "u"}}
    tests: list[Json] = [
        {"op": "test", "path": f"/metadata/{name}", "value": meta[name]} for name in ("uid", "resourceVersion")
    ]
    write: Json = {"op": "add", "path": "/status", "value": status}
    patched = cluster.json_patch(COMPOSITIONS, "default", "web", [*tests, write], subresource="status", strict=True)
    assert patched["status"] == status
    with pytest.raises(errors.Invalid):
        cluster.json_patch(COMPOSITIONS, "default", "web", [*tests, write], subresource="status", strict=True)


def test_every_finished_request_is_told_to_the_audit() -> None:
    entries: list[Entry] = []
    cluster = DirectCluster(new_store(), user_agent="sexton/test", audit=entries.append)
    cluster.create(COMPOSITIONS, "default", composition())
    cluster.merge_patch(COMPOSITIONS, "default", "web", {}, subresource="status")
    with pytest.raises(errors.NotFound):
        cluster.get(SECRETS, "default", "nobody")
    assert [(entry.verb, entry.resource, entry.subresource, entry.name, entry.code) for entry in entries] == [
        ("create", "compositions", "", "", 201),
        ("patch", "compositions", "status", "web", 200),
        ("get", "secrets", "", "nobody", 404),
    ]
    assert {entry.userAgent for entry in entries} == {"sexton/test"}
