"""Inventory Secrets as the handlers read and delete them."""

from __future__ import annotations

from eno.errors import Conflict, NotFound, StartOver
from eno.inventory.replacement import Stored
from eno.inventory.secrets import INVENTORY_NAMESPACE, LINEAGE_KEY
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import SECRETS
from workers.context import Context

_TYPE = "Opaque"


def list_metadata(cluster: Cluster, lineage_id: str) -> list[Json]:
    """Every Opaque Secret that carries the lineage, from one complete list, without what it lists."""
    query = Query(
        SECRETS,
        INVENTORY_NAMESPACE,
        label_selector=f"{LINEAGE_KEY}={lineage_id}",
        field_selector=f"type={_TYPE}",
        metadata_only=True,
    )
    # Metadata alone does not tell the type; the server has selected by it.
    return [{**item, "type": _TYPE} for item in list_all(cluster, query).items]


def delete_secret(each: Stored, context: Context) -> None:
    """Delete one Secret as it was listed; one that is gone counts as deleted.

    Raises StartOver when it has changed since, ApiError otherwise.
    """
    try:
        context.downstream.delete(
            SECRETS, INVENTORY_NAMESPACE, each.name, uid=each.uid, resource_version=each.resource_version
        )
    except NotFound:
        return
    except Conflict as error:
        raise StartOver("it has changed since it was listed", where=f"Secret {each.name}") from error
