"""A complete list or none: what was read of a list that expired midway looks like absence."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.direct import DirectCluster
from eno.errors import Expired, ServerError
from kube.cluster import LIST_ATTEMPTS, Page, Query, list_all
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, SECRETS, Resource

QUERY = Query(SECRETS, "kube-system")


class Pages(DirectCluster):
    """Serves scripted pages; an error in their place is raised."""

    def __init__(self, *script: Page | Exception) -> None:
        object.__setattr__(self, "script", list(script))
        object.__setattr__(self, "tokens", [])

    def list_page(self, query: Query, *, limit: int = 500, continue_token: str = "") -> Page:
        assert (query, limit) == (QUERY, 500)
        self.tokens.append(continue_token)  # type: ignore[attr-defined]
        reply = self.script.pop(0)  # type: ignore[attr-defined]
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, Page)
        return reply


def page(*names: str, token: str = "", version: str = "7") -> Page:
    return Page([{"metadata": {"name": name}} for name in names], version, token)


def listed(cluster: Any) -> list[str]:
    return [item["metadata"]["name"] for item in list_all(cluster, QUERY).items]


def test_a_list_is_read_page_by_page_to_its_end() -> None:
    cluster = Pages(page("a", token="x"), page("b", token="y"), page("c", version="7"))
    assert listed(cluster) == ["a", "b", "c"]
    assert cluster.tokens == ["", "x", "y"]  # type: ignore[attr-defined]


def test_a_token_that_expires_midway_starts_the_list_over_and_forgets_what_was_read() -> None:
    cluster = Pages(page("old", token="x"), Expired("list", status=410), page("a", token="z"), page("b"))
    assert listed(cluster) == ["a", "b"]


def test_a_list_that_keeps_expiring_is_an_error_and_never_a_part_of_it() -> None:
    starts = [reply for _ in range(LIST_ATTEMPTS) for reply in (page("a", token="x"), Expired("list", status=410))]
    cluster = Pages(*starts)
    with pytest.raises(Expired):
        list_all(cluster, QUERY)
    assert cluster.script == []  # type: ignore[attr-defined]


def test_any_other_error_midway_is_raised_at_once() -> None:
    cluster = Pages(page("a", token="x"), ServerError("list", status=500), page("b"))
    with pytest.raises(ServerError):
        list_all(cluster, QUERY)


@pytest.mark.parametrize(
    ("resource", "api_version", "qualified"),
    [
        (SECRETS, "v1", "secrets"),
        (EVENTS, "v1", "events"),
        (NAMESPACES, "v1", "namespaces"),
        (CUSTOM_RESOURCE_DEFINITIONS, "apiextensions.k8s.io/v1", "customresourcedefinitions.apiextensions.k8s.io"),
    ],
)
def test_a_resource_names_itself_as_urls_and_rbac_do(resource: Resource, api_version: str, qualified: str) -> None:
    assert (resource.api_version, resource.qualified) == (api_version, qualified)
