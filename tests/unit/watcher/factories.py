"""What the watcher sees of API objects: complete by default, one difference per argument."""

from __future__ import annotations

from typing import Any

from eno.objects import GROUP, OPT_IN_ANNOTATION
from eno.scope import Scope
from kube.cluster import Json
from tests.support import factories
from tests.support.factories import NOW

__all__ = ["NOW", "SCOPE", "composition", "decision", "resource_slice", "synthesis"]

SCOPE = Scope(composition_namespace="prod", recovery_namespace="prod", recovery_enabled=True)


def synthesis(uuid: str = "synthesis-1", *, slices: tuple[str, ...] = ("s-1",), **fields: Any) -> Json:
    """A synthesized, undecided synthesis; a field given as None is left out."""
    return factories.synthesis(uuid, slices=slices, **fields)


def decision(uuid: str = "synthesis-1", **fields: Any) -> Json:
    """A finished decision, bound to the synthesis `uuid`."""
    return factories.decided("NotNeeded", uuid) | fields


def composition(
    name: str = "web",
    *,
    namespace: str = "prod",
    uid: str = "uid-1",
    version: int = 1,
    opt_in: str | None = "true",
    current: Json | None = None,
    in_flight: Json | None = None,
    previous: Json | None = None,
    **metadata: Any,
) -> Json:
    """An opted-in composition whose current synthesis is undecided; `current={}` takes that away."""
    others = {"inFlightSynthesis": in_flight, "previousSynthesis": previous}
    body = factories.composition_json(
        name,
        namespace=namespace,
        uid=uid,
        opted_in=False,
        annotations={} if opt_in is None else {OPT_IN_ANNOTATION: opt_in},
        current=synthesis() if current is None else current,
        **{key: value for key, value in others.items() if value},
    )
    body["metadata"] |= {"resourceVersion": str(version)} | metadata
    return body


def resource_slice(
    name: str = "s-1",
    *,
    owner: str | None = "web",
    owner_uid: str = "uid-1",
    uid: str = "",
    version: int = 1,
    **metadata: Any,
) -> Json:
    """The metadata of a slice, as a list of PartialObjectMetadata holds it."""
    reference = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Composition",
        "name": owner,
        "uid": owner_uid,
        "controller": True,
    }
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": {
            "namespace": "prod",
            "name": name,
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": factories.STAMP,
            "ownerReferences": [reference] if owner else [],
        }
        | metadata,
    }
