"""Whether one watcher leads, and what to do where none does."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from console.doctor.checks import Check, broken, failed, ok, warning
from console.leading import leadership, lease_place
from eno.errors import ApiError, Forbidden
from kube.cluster import Cluster
from runtime.settings import Settings

NAME = "leader"


def check_leader(area: str, cluster: Cluster, settings: Settings, now: datetime, kubectl: str = "kubectl") -> Check:
    """Who leads and since when it was seen. `now` is on our clock, which another check compares with the server's.

    `kubectl` is the command that gets there.
    """
    namespace, lease = lease_place(settings)
    if not namespace:
        return warning(area, NAME, "no namespace to look for the Lease in", "export POD_NAMESPACE=NAMESPACE")
    try:
        found = leadership(cluster, settings, now)
    except Forbidden:
        look = f"{kubectl} -n {quote(namespace)} get lease {quote(lease)}"
        return warning(area, NAME, f"this identity may not read Lease {namespace}/{lease}", look)
    except ApiError as error:
        return broken(area, NAME, error)
    if found.leads:
        return ok(area, NAME, found.said)
    start = f"{kubectl} -n {quote(namespace)} rollout restart deployment/sexton-watcher   # or: python -m watcher"
    return failed(area, NAME, found.said, start)
