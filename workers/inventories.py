"""Guarded writes to inventory Secrets."""

from __future__ import annotations

from eno.errors import Conflict, NotFound, StartOver
from eno.inventory.replacement import Stored
from eno.inventory.secrets import INVENTORY_NAMESPACE
from kube.resources import SECRETS
from workers.context import Context


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
