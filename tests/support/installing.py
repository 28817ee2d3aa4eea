"""What a server needs before Sexton can work on it."""

from __future__ import annotations

from contextlib import suppress

from devcluster import definitions
from eno.errors import AlreadyExists, NotServed
from kube.cluster import Cluster, Query
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, RESOURCE_SLICES
from tests.support.waiting import until


def install(cluster: Cluster, namespace: str) -> None:
    """The development CRDs and the namespace, unless they are there."""
    for body in definitions.load(definitions.development_directory()):
        with suppress(AlreadyExists):
            cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, body)
    with suppress(AlreadyExists):
        cluster.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    for resource in (COMPOSITIONS, RESOURCE_SLICES):
        until(lambda resource=resource: _served(cluster, Query(resource, namespace)), f"{resource.plural} are served")  # type: ignore[misc]


def _served(cluster: Cluster, query: Query) -> bool:
    with suppress(NotServed):
        cluster.list_page(query)
        return True
    return False
