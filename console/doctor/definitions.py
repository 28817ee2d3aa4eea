"""Whether the served definitions of Eno's kinds keep every field that Sexton writes or decides by.

A server prunes what the schema does not know, in silence: a decision would be published, and be gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from console.doctor.checks import Check, broken, failed, ok, warning
from eno.errors import ApiError, Forbidden, NotFound, NotServed
from kube.cluster import Cluster, Json, Query
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_SLICES, Resource

INSTALL = "apply -f deploy/crds   # a trial without Eno; otherwise install Eno"
UPGRADE = "apply --server-side --force-conflicts -f CRDS   # of a newer Eno (docs/install.md), not deploy/crds"
"""To kubectl. The development definitions have less than Eno's own: over them they would drop the rest."""

_DECISION = {
    f"{synthesis}.{field}": kind
    for synthesis in ("status.inFlightSynthesis", "status.currentSynthesis", "status.previousSynthesis")
    for field, kind in {
        "uuid": "string",
        "resourceSlices": "array",
        "reconciled": "string",
        "ready": "string",
        "tombstoneRecoveryRequired": "boolean",
        "tombstoneRecoveryStatus": "object",
    }.items()
} | {
    f"status.currentSynthesis.tombstoneRecoveryStatus.{field}": kind
    for field, kind in {"status": "boolean", "reason": "string", "message": "string", "synthesisUUID": "string"}.items()
}

FIELDS: Mapping[Resource, Mapping[str, str]] = {
    COMPOSITIONS: _DECISION,
    RESOURCE_SLICES: {
        "spec.synthesisUUID": "string",
        "spec.resources": "array",
        "spec.resources[].manifest": "string",
        "spec.resources[].deleted": "boolean",
        "status.resources[].reconciled": "boolean",
        "status.resources[].ready": "string",
        "status.resources[].deleted": "boolean",
    },
}
"""The fields that have to survive a write, and their types; `[]` stands for an array's items."""


def check_definition(
    area: str, cluster: Cluster, resource: Resource, namespace: str, kubectl: str = "kubectl"
) -> Iterator[Check]:
    """Whether the kind is served, and which fields its schema drops. `namespace`: where it may be listed, if at all.

    `kubectl` is the command that gets there.
    """
    name = resource.qualified
    try:
        definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, None, name)
    except NotFound:
        yield failed(area, name, "no such CustomResourceDefinition: Eno is not installed", f"{kubectl} {INSTALL}")
    except Forbidden:
        yield _served_at_least(area, cluster, resource, namespace, kubectl)
    except ApiError as error:
        yield broken(area, name, error)
    else:
        defects = list(defects_of(definition, resource))
        yield from (failed(area, name, defect, f"{kubectl} {UPGRADE}") for defect in defects)
        if not defects:
            yield ok(area, name, f"{resource.version} keeps every field{_made_by(definition)}")


def defects_of(definition: Json, resource: Resource) -> Iterator[str]:
    """What is wrong with a CustomResourceDefinition, one line each."""
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    version = versions.get(resource.version)
    if version is None or not version.get("served"):
        served = ", ".join(name for name, each in versions.items() if each.get("served"))
        yield f"{resource.version} is not served (only {served or 'nothing'} is)"
        return
    conditions = {each["type"]: each for each in (definition.get("status") or {}).get("conditions") or ()}
    established = conditions.get("Established", {})
    if established.get("status") != "True":
        yield f"it is not established: {established.get('message') or 'no condition says so yet'}"
    if "status" not in (version.get("subresources") or {}):
        yield "it has no status subresource"
    yield from missing_fields((version.get("schema") or {}).get("openAPIV3Schema") or {}, FIELDS[resource])


def missing_fields(schema: Mapping[str, Any], fields: Mapping[str, str]) -> Iterator[str]:
    """The fields that a schema drops or takes for something else. Of a part that is missing, only the part."""
    gone: list[str] = []
    for path, kind in fields.items():
        parts = path.replace("[]", ".[]").split(".")
        depth, found = _follow(schema, parts)
        if found is None:
            missing = ".".join(parts[: depth + 1]).replace(".[]", "[]")
            if missing not in gone:
                gone.append(missing)
                yield f"{missing} is dropped by its schema"
        elif found and found != kind:
            yield f"{path} is {found} in its schema and not {kind}"


def _follow(schema: Mapping[str, Any], parts: list[str]) -> tuple[int, str | None]:
    """How far the schema knows the path, and the type at its end: empty for any, None when it does not get there."""
    node: Mapping[str, Any] = schema
    for depth, part in enumerate(parts):
        below = node.get("items") if part == "[]" else (node.get("properties") or {}).get(part)
        if below is None and isinstance(node.get("additionalProperties"), Mapping):
            below = node["additionalProperties"]
        if below is None:
            return depth, "" if node.get("x-kubernetes-preserve-unknown-fields") else None
        node = below
    return len(parts), str(node.get("type") or "")


def _served_at_least(area: str, cluster: Cluster, resource: Resource, namespace: str, kubectl: str) -> Check:
    """For an identity that may not read definitions, as is right for Sexton's own."""
    try:
        cluster.list_page(Query(resource, namespace or None), limit=1)
    except NotServed:
        return failed(area, resource.qualified, "the kind is not served: Eno is not installed", f"{kubectl} {INSTALL}")
    except ApiError:
        served = ""
    else:
        served = "it is served; "
    found = f"{served}this identity may not read its schema"
    look = f"{kubectl} get crd {resource.qualified}"
    fix = f"{look} -o yaml | grep tombstoneRecovery" if resource == COMPOSITIONS else look
    return warning(area, resource.qualified, found, fix)


def _made_by(definition: Json) -> str:
    annotations = definition["metadata"].get("annotations") or {}
    generator = annotations.get("controller-gen.kubebuilder.io/version")
    return f" (controller-gen {generator})" if generator else ""
