"""Kubernetes Events on compositions, so that `kubectl describe` tells the story.

Best effort: a decision never fails because nobody could be told of it. Names are deterministic, so the same
news is told once.
"""

from __future__ import annotations

import logging
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from eno.errors import AlreadyExists, SextonError
from eno.objects import GROUP, Composition
from eno.packing import fit_name
from eno.times import format_time
from kube.cluster import Cluster, Json
from kube.resources import EVENTS

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 1024
"""Characters of an Event's message that the API server accepts."""


class EventType(StrEnum):
    """What `kubectl` shows in the TYPE column."""

    NORMAL = "Normal"
    WARNING = "Warning"


def announce(
    cluster: Cluster, composition: Composition, kind: EventType, reason: str, message: str, now: datetime
) -> bool:
    """Create the Event, and return whether it is news: False where it exists. Errors are logged, never raised."""
    body = event(composition, kind, reason, message, now)
    try:
        cluster.create(EVENTS, composition.namespace, body)
    except AlreadyExists:
        return False
    except SextonError as error:
        about = {"composition": composition.title, "uid": composition.uid}
        log.warning("event not created: %s", error, extra={"action": "event-not-created", **about})
    return True


def event(composition: Composition, kind: EventType, reason: str, message: str, now: datetime) -> Json:
    """The Event as it is created. The same reason and message for the same synthesis is the same Event."""
    uuid = composition.current.uuid if composition.current else ""
    digest = sha256(f"{composition.uid}/{uuid}/{reason}/{message}".encode()).hexdigest()[:16]
    instant = format_time(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": fit_name(composition.name, f".{digest}"), "namespace": composition.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Composition",
            "namespace": composition.namespace,
            "name": composition.name,
            "uid": composition.uid,
            "resourceVersion": composition.resource_version,
        },
        "type": str(kind),
        "reason": reason,
        "message": message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…",
        "source": {"component": "sexton"},
        "reportingComponent": "sexton",
        "firstTimestamp": instant,
        "lastTimestamp": instant,
        "count": 1,
    }
