"""API objects with sensible defaults; a test names only what it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from eno.identity import Head, ResourceId, parse_head
from eno.inventory.entries import Entry
from eno.inventory.secrets import snapshot, source_of
from eno.objects import OPT_IN_ANNOTATION, Composition, ResourceSlice

Json = dict[str, Any]

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-03-01T11:00:00Z"
NAMESPACE = "apps"
SYNTHESIZER = "shop"
UID = "11111111-2222-3333-4444-555555555555"
UUID = "synthesis-2"


def manifest(
    kind: str = "ConfigMap",
    name: str = "web",
    namespace: str = "shop",
    api_version: str = "v1",
    **metadata: Any,
) -> str:
    """A manifest as Eno stores it."""
    head: Json = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": head})


def patch_manifest(kind: str, name: str, api_version: str = "v1", namespace: str = "shop") -> str:
    """Eno's pseudo-resource, which changes a resource that somebody else owns."""
    return json.dumps(
        {
            "apiVersion": "eno.azure.io/v1",
            "kind": "Patch",
            "metadata": {"name": name, "namespace": namespace},
            "patch": {"apiVersion": api_version, "kind": kind, "ops": []},
        }
    )


def head(*args: Any, **kwargs: Any) -> Head:
    """The head of `manifest(...)`."""
    return parse_head(manifest(*args, **kwargs))


def entry(kind: str = "ConfigMap", name: str = "web", namespace: str = "shop", group: str = "", **rest: Any) -> Entry:
    """An inventory entry."""
    return Entry(ResourceId(group, kind, namespace, name), **{"version": "v1", **rest})


def synthesis(uuid: str = UUID, *, slices: Sequence[str | None] = (), **fields: Any) -> Json:
    """A synthesized synthesis that lacks history; a field given as None is absent."""
    body: Json = {
        "uuid": uuid,
        "initialized": STAMP,
        "synthesized": STAMP,
        "resourceSlices": [None if name is None else {"name": name} for name in slices],
        "tombstoneRecoveryRequired": True,
        **fields,
    }
    return {key: value for key, value in body.items() if value is not None}


def decided(reason: str = "FinishedTombstoneRecovery", uuid: str = UUID, message: str = "") -> Json:
    """A terminal decision."""
    body: Json = {"status": True, "reason": reason, "synthesisUUID": uuid}
    return {**body, "message": message} if message else body


def composition_json(
    name: str = "shop",
    *,
    namespace: str = NAMESPACE,
    uid: str | None = UID,
    synthesizer: str = SYNTHESIZER,
    opted_in: bool = True,
    annotations: Mapping[str, str] | None = None,
    current: Json | None = None,
    created: str = STAMP,
    metadata: Mapping[str, Any] | None = None,
    **status: Any,
) -> Json:
    """A Composition; `current`, `inFlightSynthesis=` and the like make up its status.

    `metadata` holds whatever else the test wants there: labels, finalizers, a deletionTimestamp.
    """
    opt_in = {OPT_IN_ANNOTATION: "true"} if opted_in else {}
    head: Json = {"name": name, "namespace": namespace, "annotations": {**opt_in, **(annotations or {})}}
    if uid is not None:
        head |= {"uid": uid, "resourceVersion": "7", "creationTimestamp": created}
    return {
        "apiVersion": "eno.azure.io/v1",
        "kind": "Composition",
        "metadata": {**head, **(metadata or {})},
        "spec": {"synthesizer": {"name": synthesizer}},
        "status": {**({"currentSynthesis": current} if current else {}), **status},
    }


def composition(*args: Any, **kwargs: Any) -> Composition:
    """The view of `composition_json(...)`, with a synthesized current unless one is given."""
    return Composition.from_json(composition_json(*args, **{"current": synthesis(), **kwargs}))


def slice_json(
    name: str,
    manifests: Sequence[str | tuple[str, bool]] = (),
    *,
    namespace: str = NAMESPACE,
    owner: str | None = "shop",
    uid: str | None = UID,
    states: Sequence[Json] | None = None,
    stamp: str = "",
    **metadata: Any,
) -> Json:
    """A ResourceSlice; a manifest given as (text, True) is a tombstone, `stamp` is its synthesis UUID.

    Without `owner` nobody controls it. `metadata` replaces whatever it names.
    """
    resources = [(each, False) if isinstance(each, str) else each for each in manifests]
    body: Json = {
        "apiVersion": "eno.azure.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "finalizers": ["eno.azure.io/cleanup"],
            "ownerReferences": [
                {
                    "apiVersion": "eno.azure.io/v1",
                    "kind": "Composition",
                    "name": owner,
                    "uid": uid,
                    "controller": True,
                }
            ]
            if owner
            else [],
            **metadata,
        },
        "spec": {
            "synthesisUUID": stamp,
            "resources": [{"manifest": text, **({"deleted": True} if gone else {})} for text, gone in resources],
        },
    }
    return body if states is None else {**body, "status": {"resources": list(states)}}


def resource_slice(*args: Any, **kwargs: Any) -> ResourceSlice:
    """The view of `slice_json(...)`."""
    return ResourceSlice.from_json(slice_json(*args, **kwargs))


def inventory(
    entries: Sequence[Entry],
    *,
    name: str = "shop",
    uuid: str = "synthesis-1",
    synthesized: str = "2026-02-01T00:00:00Z",
    namespace: str = NAMESPACE,
    synthesizer: str = SYNTHESIZER,
) -> list[Json]:
    """The Secrets of a snapshot, as stored: with uid and resourceVersion."""
    source = composition(
        name,
        namespace=namespace,
        synthesizer=synthesizer,
        current=synthesis(uuid, synthesized=synthesized),
    )
    secrets = snapshot(source_of(source), entries)
    for index, secret in enumerate(secrets):
        secret["metadata"] |= {"uid": f"secret-{name}-{uuid}-{index}", "resourceVersion": "3"}
    return secrets
