"""Whether one watcher leads: without a leader nothing is enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from console.doctor.checks import Check, broken, failed, ok, warning
from eno.errors import ApiError, Forbidden, NotFound
from eno.times import parse_time
from kube.cluster import Cluster
from kube.resources import LEASES
from runtime.settings import Settings

NAME = "leader"


def check_leader(area: str, cluster: Cluster, settings: Settings, now: datetime) -> Check:
    """Who leads and since when it was seen. `now` is on our clock, which another check compares with the server's."""
    namespace = settings.pod_namespace or settings.scope.composition_namespace
    lease = f"{settings.instance}-watcher"
    start = f"kubectl -n {namespace} rollout restart deployment/sexton-watcher   # or: python -m watcher"
    if not namespace:
        return warning(area, NAME, "no namespace to look for the Lease in", "export POD_NAMESPACE=NAMESPACE")
    try:
        body = cluster.get(LEASES, namespace, lease)
    except NotFound:
        return failed(area, NAME, f"there is no Lease {namespace}/{lease}: no watcher has ever led", start)
    except Forbidden:
        look = f"kubectl -n {namespace} get lease {lease}"
        return warning(area, NAME, f"this identity may not read Lease {namespace}/{lease}", look)
    except ApiError as error:
        return broken(area, NAME, error)
    return _judge(area, body.get("spec") or {}, now, start)


def _judge(area: str, spec: Mapping[str, Any], now: datetime, start: str) -> Check:
    holder, duration = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    renewed = _instant(spec.get("renewTime"))
    if not holder:
        return failed(area, NAME, "nobody leads: the last leader let go of the Lease", start)
    if renewed is None:
        return failed(area, NAME, f"{holder} has not said when it renewed the Lease", start)
    age = (now - renewed).total_seconds()
    if age > (duration or 15):
        return failed(area, NAME, f"{holder} renewed the Lease {age:.0f} s ago, which is too long", start)
    return ok(area, NAME, f"{holder}, {max(0.0, age):.0f} s ago")


def _instant(text: object) -> datetime | None:
    try:
        return parse_time(str(text))
    except ValueError:
        return None
