"""What ends a watcher at its start, and what it waits for."""

from __future__ import annotations

from typing import cast

import pytest

from devcluster.__main__ import load_definitions
from devcluster.definitions import development_directory
from devcluster.direct import DirectCluster
from devcluster.store import Store
from eno.errors import (
    ApiError,
    BadResponse,
    Forbidden,
    MissingCapability,
    NotFound,
    NotServed,
    ServerError,
    Throttled,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS, Resource
from watcher.preflight import examine

QUERY = Query(COMPOSITIONS, "prod")
PATH_UNKNOWN = NotServed("list compositions.eno.azure.io prod", status=404, message="404 page not found")


class Answering:
    """An API server that says one thing about definitions."""

    def __init__(self, error: ApiError | None) -> None:
        self.error = error
        self.asked: list[tuple[str, str]] = []

    def get(self, resource: Resource, _namespace: None, name: str, *, metadata_only: bool) -> Json:
        assert metadata_only
        self.asked.append((resource.plural, name))
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": name}}


def examined(error: ApiError, definition: ApiError | None = None, query: Query = QUERY) -> Answering:
    server = Answering(definition)
    examine(cast("Cluster", server), query, error)
    return server


@pytest.mark.parametrize("query", [QUERY, Query(RESOURCE_SLICES), Query(SECRETS, "kube-system")])
def test_a_missing_permission_is_said_with_verb_and_place(query: Query) -> None:
    refused = Forbidden(f"list {query.resource.qualified} prod", status=403, reason="Forbidden")
    with pytest.raises(Forbidden) as caught:
        examined(refused, query=query)
    assert caught.value is refused


@pytest.mark.parametrize("kind", [COMPOSITIONS, RESOURCE_SLICES], ids=lambda kind: kind.plural)
def test_a_kind_that_is_not_installed_is_named_with_what_installs_it(kind: Resource) -> None:
    cluster, query = DirectCluster(Store()), Query(kind, "default")
    with pytest.raises(NotServed) as unserved:
        list_all(cluster, query)
    with pytest.raises(MissingCapability) as caught:
        examine(cluster, query, unserved.value)
    assert str(caught.value) == (
        f"list {kind.qualified} default: the CustomResourceDefinition {kind.qualified} is not installed; "
        f"install Eno; only where there is none to be: kubectl apply -f deploy/crds/{kind.plural}.yaml"
    )
    assert caught.value.exit_code == 1


def test_the_definition_that_is_named_is_where_it_is_said_to_be() -> None:
    for kind in (COMPOSITIONS, RESOURCE_SLICES):
        store = Store()
        load_definitions(store, [development_directory() / f"{kind.plural}.yaml"])
        assert list_all(DirectCluster(store), Query(kind, "default")).items == []


UNKNOWN: dict[str, ApiError | None] = {
    "it is there: its version is not served, or not yet": None,
    "it may not be read": Forbidden("get", status=403),
    "the path is not known either: a proxy, or no API server at all": NotServed("get", status=404),
    "the API server fails": ServerError("get", status=503),
    "nobody answers": Unreachable("get"),
}


@pytest.mark.parametrize("definition", UNKNOWN.values(), ids=UNKNOWN)
def test_a_404_alone_is_waited_for(definition: ApiError | None) -> None:
    assert examined(PATH_UNKNOWN, definition).asked == [("customresourcedefinitions", "compositions.eno.azure.io")]


WAITED_FOR: list[ApiError] = [
    Unreachable("list", reason="Refused"),
    TimedOut("list"),
    ServerError("list", status=500),
    Throttled("list", status=429, retry_after=1),
    Unauthorized("list", status=401),
    BadResponse("list", status=200),
    NotFound("list", status=404),
]


@pytest.mark.parametrize("error", WAITED_FOR, ids=lambda error: f"{type(error).__name__} {error.status}")
def test_whatever_may_pass_is_waited_for(error: ApiError) -> None:
    assert examined(error).asked == []


def test_a_secret_that_is_not_served_is_no_missing_definition() -> None:
    assert examined(PATH_UNKNOWN, NotFound("get", status=404), Query(SECRETS, "kube-system")).asked == []
