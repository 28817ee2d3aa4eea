"""Whether a task may still act, judged on a read made just before it acts (promise P5).

The judgement is a pure function of what was read; `read` is the only I/O. A 404 is the one answer that means
"gone"; every other failure is raised, since a read error is never absence (P9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eno.decision import nothing_to_decide, nothing_to_record, superseded
from eno.errors import MalformedObject, NotFound
from eno.objects import Composition
from eno.scope import Scope
from kube.cluster import Cluster, Json
from kube.resources import COMPOSITIONS
from workers.outcome import Kind, Outcome


@dataclass(frozen=True, slots=True)
class Live:
    """A composition as just read: the JSON that a patch is built from, and its view."""

    json: Json
    composition: Composition

    @classmethod
    def of(cls, obj: Json) -> Live:
        """Raises MalformedObject."""
        return cls(obj, Composition.from_json(obj))


def read(cluster: Cluster, namespace: str, name: str) -> Live | None:
    """The composition from the API server, or None when it does not exist. Raises ApiError, MalformedObject."""
    try:
        return Live.of(cluster.get(COMPOSITIONS, namespace, name))
    except NotFound:
        return None


class Named(Protocol):
    """What a message says about its composition."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def synthesis_uuid(self) -> str: ...


def read_named(cluster: Cluster, message: Named) -> Live | Outcome:
    """The composition as it is now, or why it is no longer the one that the message names.

    Raises ApiError, MalformedObject.
    """
    live = read(cluster, message.namespace, message.name)
    if live is None:
        return Outcome(Kind.SUPERSEDED, "gone")
    why = superseded(live.composition, message.uid, message.synthesis_uuid)
    return Outcome(Kind.SUPERSEDED, why) if why else live


def recovery_stop(live: Live, scope: Scope) -> Outcome | None:
    """Why nothing is to be recovered here, or None when a decision is due.

    Raises MalformedObject when the current synthesis has no UUID: a decision could not be bound to it.
    """
    outside = scope.outside_recovery(live.composition)
    if outside:
        return Outcome(Kind.NOT_IN_SCOPE, outside)
    why = nothing_to_decide(live.composition)
    if why:
        return Outcome(Kind.UNCHANGED if why == "decided" else Kind.SUPERSEDED, why)
    if live.composition.current is None or not live.composition.current.uuid:
        raise MalformedObject("status.currentSynthesis.uuid is empty", where=f"composition {live.composition.title}")
    return None


def record_stop(live: Live, scope: Scope) -> Outcome | None:
    """Why no inventory is to be recorded here, or None when the synthesis is ready and decided (P5)."""
    outside = scope.outside_recovery(live.composition)
    if outside:
        return Outcome(Kind.NOT_IN_SCOPE, outside)
    why = nothing_to_record(live.composition)
    return Outcome(Kind.SUPERSEDED, why) if why else None
