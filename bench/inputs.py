"""What the measurements are fed with: manifests, and compositions in the states that call for work or for none.

Names and identifiers have the usual length and are all distinct, as in a cluster; equal ones would be stored
once and make the watcher look smaller than it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from eno.identity import parse_head
from eno.inventory.entries import Entry, build
from eno.packing import SLICE_LIMIT
from tests.support.factories import composition_json, decided, inventory, manifest, slice_json, synthesis

NAMESPACE = "bench"
SYNTHESIZED = "2026-03-01T11:00:00Z"
REAL_MANIFESTS = Path(__file__).parents[2] / "shared" / "data" / "kube-prometheus.jsonl"

_ENVIRONMENT_VARIABLES = 40


class Family(msgspec.Struct, frozen=True):
    """A composition with all that belongs to it, as JSON bodies. Owner UIDs are filled in by the server."""

    composition: dict[str, Any]
    slices: list[dict[str, Any]]
    secrets: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a composition is. `missing` of its recorded resources are in no manifest any more."""

    slices: int = 2
    manifests: int = 10
    missing: int = 3


def whole_documents() -> tuple[list[str], str]:
    """Manifests as Eno stores them, real ones where they are at hand, and what they are."""
    if REAL_MANIFESTS.exists():
        return REAL_MANIFESTS.read_text(encoding="utf-8").splitlines(), "kube-prometheus"
    return [_deployment(index) for index in range(120)], "generated Deployments"


def full_slices(documents: Iterable[str], count: int) -> list[list[str]]:
    """`count` slices filled with these manifests over and over, up to the limit of a slice."""
    found: list[list[str]] = [[] for _ in range(count)]
    endless = cycle(documents)
    for each in found:
        size = 0
        for document in endless:
            each.append(document)
            size += len(document.encode())
            if size >= SLICE_LIMIT - 100_000:
                break
    return found


def numbered(count: int, *, start: int = 0, padding: int = 0) -> list[str]:
    """Manifests with labels, one identity each; `padding` bytes of content besides."""
    kinds = (("v1", "ConfigMap"), ("v1", "Service"), ("apps/v1", "Deployment"), ("v1", "ServiceAccount"))
    data = {"data": {"notes": "x" * padding}} if padding else {}
    found = []
    for index in range(start, start + count):
        version, kind = kinds[index % len(kinds)]
        labels = {"app.kubernetes.io/name": "payments", "app.kubernetes.io/instance": f"payments-{index % 50}"}
        text = manifest(kind, f"payments-{index:06d}", "payments", version, labels=labels)
        found.append(json.dumps(json.loads(text) | data) if data else text)
    return found


def remembered(manifests: Iterable[str]) -> list[Entry]:
    """The inventory of a synthesis with these manifests."""
    return build((parse_head(each), False) for each in manifests)


def lost(index: int, shape: Shape, *, pending: bool = True) -> Family:
    """A composition whose history is in the inventory only. Not `pending`: not synthesized yet."""
    name = composition_name(index)
    kept = numbered(shape.slices * shape.manifests)
    gone = numbered(shape.missing, start=len(kept))
    current = synthesis(identifier(index), synthesized=SYNTHESIZED, slices=_slice_names(name, shape))
    secrets = inventory(remembered([*kept, *gone]), **_source(name), uuid=identifier(index, 1))
    body = composition_json(name, **_place(name), current=current if pending else None)
    return Family(body, _slices(name, kept, shape), _creatable(secrets))


def settled(index: int, shape: Shape, *, padding: int = 0) -> Family:
    """A composition that calls for nothing: decided, ready, reconciled and recorded."""
    name = composition_name(index)
    kept = numbered(shape.slices * shape.manifests, padding=padding)
    uuid = identifier(index)
    current = synthesis(
        uuid,
        synthesized=SYNTHESIZED,
        slices=_slice_names(name, shape),
        reconciled=SYNTHESIZED,
        ready=SYNTHESIZED,
        tombstoneRecoveryStatus=decided(uuid=uuid),
    )
    secrets = inventory(remembered(kept), **_source(name), uuid=uuid, synthesized=SYNTHESIZED)
    state = {"reconciled": True, "ready": SYNTHESIZED}
    slices = _slices(name, kept, shape)
    for each in slices:
        each["status"] = {"resources": [state] * len(each["spec"]["resources"])}
    return Family(composition_json(name, **_place(name), current=current), slices, _creatable(secrets))


def unrecorded(family: Family) -> Family:
    """The same without its inventory: what a watcher holds of compositions and slices alone."""
    return Family(family.composition, family.slices, [])


def synthesized(index: int, shape: Shape) -> dict[str, Any]:
    """The status that Eno writes when the synthesis of a `lost`, not pending composition is there."""
    names = _slice_names(composition_name(index), shape)
    return {"status": {"currentSynthesis": synthesis(identifier(index), synthesized=SYNTHESIZED, slices=names)}}


def identifier(index: int, generation: int = 2) -> str:
    """The UUID of a synthesis."""
    return str(UUID(int=(generation << 96) | (index * 0x9E3779B97F4A7C15) % (1 << 96)))


def write(path: Path, families: Iterable[Family]) -> None:
    """One family a line. Raises OSError."""
    with path.open("wb") as file:
        for family in families:
            file.write(msgspec.json.encode(family) + b"\n")


def read(path: Path) -> Iterator[Family]:
    """The families of a file. Raises OSError and msgspec.MsgspecError."""
    with path.open("rb") as file:
        yield from (msgspec.json.decode(line, type=Family) for line in file)


def composition_name(index: int) -> str:
    return f"payments-backend-{index:06d}"


def _place(name: str) -> dict[str, Any]:
    return {"namespace": NAMESPACE, "uid": None, "synthesizer": f"{name}-synthesizer"}


def _source(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "synthesizer": f"{name}-synthesizer"}


def _slice_names(name: str, shape: Shape) -> list[str]:
    return [f"{name}-{index:05x}" for index in range(shape.slices)]


def _slices(name: str, manifests: list[str], shape: Shape) -> list[dict[str, Any]]:
    texts = iter(manifests)
    found = []
    for each in _slice_names(name, shape):
        body = slice_json(each, list(islice(texts, shape.manifests)), namespace=NAMESPACE, owner=name)
        for server_made in ("uid", "resourceVersion"):
            del body["metadata"][server_made]
        found.append(body)
    return found


def _creatable(secrets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for secret in secrets:
        for server_made in ("uid", "resourceVersion"):
            del secret["metadata"][server_made]
    return secrets


def _deployment(index: int) -> str:
    """About 8 KB, the size of an ordinary workload with sidecars."""
    variables = [{"name": f"SETTING_{n}", "value": "x" * 32} for n in range(_ENVIRONMENT_VARIABLES)]
    container = {"name": "app", "image": "registry.example/app:1.2.3", "env": variables, "args": ["--verbose"] * 20}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"app-{index}", "namespace": "apps", "labels": {"app.kubernetes.io/name": f"app-{index}"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{**container, "name": n} for n in "abc"]}}},
    }
    return json.dumps(body, separators=(",", ":"))
