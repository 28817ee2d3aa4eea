"""What keeps a watcher from ever getting its first lists, and is said at once instead of being waited for.

Only definite answers count. An API server that is away, that answers with an error of its own, or whose answer some
proxy may have made up will answer some day; a process that ended over it would only make its restart wait longer.
A permission that is missing and a kind that is not installed are a person's business, and stay until then.
"""

from __future__ import annotations

from eno.errors import ApiError, Forbidden, MissingCapability, NotFound, NotServed
from eno.objects import GROUP
from kube.cluster import Cluster, Query
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS


def examine(upstream: Cluster, query: Query, error: ApiError) -> None:
    """Look at what stands in the way of a first list.

    Raises Forbidden when that was refused, MissingCapability when the API server itself says that there is no such
    kind. Returns when it is to be waited for.
    """
    if isinstance(error, Forbidden):
        raise error
    if isinstance(error, NotServed) and query.resource.group == GROUP:
        _require_definition(upstream, query.resource.qualified, query.resource.plural, error)


def _require_definition(upstream: Cluster, name: str, plural: str, error: NotServed) -> None:
    """A 404 of a path may be a proxy's. That the definition is not there is said by a Status that names it."""
    try:
        upstream.get(CUSTOM_RESOURCE_DEFINITIONS, None, name, metadata_only=True)
    except NotFound:
        raise MissingCapability(
            f"the CustomResourceDefinition {name} is not installed",
            where=error.where,
            hint=f"install Eno; only where there is none to be: kubectl apply -f deploy/crds/{plural}.yaml",
        ) from error
    except ApiError:
        return  # it may not be read, or cannot be just now
