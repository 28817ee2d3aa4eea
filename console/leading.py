"""Whether a watcher leads, from its Lease: without a leader nothing is enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eno.errors import ApiError, NotFound
from eno.times import parse_time
from kube.cluster import Cluster
from kube.resources import LEASES
from runtime.settings import Settings

DEFAULT_DURATION = 15
"""Seconds, for a Lease that does not say how long it holds."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Whether somebody leads, and who, or why nobody does."""

    leads: bool
    said: str


def lease_place(settings: Settings) -> tuple[str, str]:
    """Namespace and name of the Lease; the namespace is empty where no setting tells it."""
    namespace = settings.pod_namespace or settings.composition_namespace or ""
    return namespace, f"{settings.instance}-watcher"


def leadership(cluster: Cluster, settings: Settings, now: datetime) -> Leadership:
    """Who leads. `now` is on our clock. Raises ApiError when the Lease cannot be read."""
    namespace, lease = lease_place(settings)
    try:
        body = cluster.get(LEASES, namespace, lease)
    except NotFound:
        return Leadership(False, f"there is no Lease {namespace}/{lease}: no watcher has ever led")
    return judge(body.get("spec") or {}, now)


def judge(spec: Mapping[str, Any], now: datetime) -> Leadership:
    """What a Lease says."""
    holder, duration = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    renewed = _instant(spec.get("renewTime"))
    if not holder:
        return Leadership(False, "nobody leads: the last leader let go of the Lease")
    if renewed is None:
        return Leadership(False, f"{holder} has not said when it renewed the Lease")
    age = (now - renewed).total_seconds()
    if age > (duration or DEFAULT_DURATION):
        return Leadership(False, f"{holder} renewed the Lease {age:.0f} s ago, which is too long")
    return Leadership(True, f"{holder}, {max(0.0, age):.0f} s ago")


def leaderless(cluster: Cluster, settings: Settings, now: datetime) -> str:
    """A sentence for people where no watcher leads; empty where one does, or where that cannot be told."""
    if not lease_place(settings)[0]:
        return ""
    try:
        found = leadership(cluster, settings, now)
    except ApiError:
        return ""
    return "" if found.leads else f"No watcher leads ({found.said}); see sexton doctor"


def _instant(text: object) -> datetime | None:
    try:
        return parse_time(str(text))
    except ValueError:
        return None
