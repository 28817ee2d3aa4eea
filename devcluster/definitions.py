"""CustomResourceDefinitions: from their body to a served kind, and from files to bodies.

Only the storage version is served; there is no conversion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from devcluster.kinds import Column, Kind, Rules, envelope
from devcluster.schema import compile_schema
from devcluster.statuses import Cause, invalid_value, required
from eno.errors import UsageError
from kube.cluster import Json
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_AGE = Column("Age", "date", ".metadata.creationTimestamp")

_FREE: Json = {"x-kubernetes-preserve-unknown-fields": True}


class DefinitionRules(Rules):
    """Names are completed, the shape is checked, and the definition counts as established at once."""

    def prepare_create(self, body: Json) -> None:
        self._complete(body)

    def prepare_update(self, body: Json, old: Json) -> None:
        body["status"] = old["status"]
        self._complete(body)

    def causes(self, body: Json) -> list[Cause]:
        spec = body.get("spec") or {}
        names = spec.get("names") or {}
        found = [required(f"spec.{name}") for name in ("group", "scope", "versions") if not spec.get(name)]
        found += [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
        if found:
            return found
        name = body["metadata"].get("name", "")
        if name != f"{names['plural']}.{spec['group']}":
            why = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid_value("metadata.name", f'"{name}"', why))
        if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
            why = "must have exactly one version marked as storage version"
            found.append(invalid_value("spec.versions", "[...]", why))
        for index, version in enumerate(spec["versions"]):
            found += _schema_causes(version, f"spec.versions[{index}].schema.openAPIV3Schema")
        return found

    def _complete(self, body: Json) -> None:
        spec = body.get("spec") or {}
        names = spec.get("names") or {}
        kind = names.get("kind", "")
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})
        when = body["metadata"].get("creationTimestamp", "")
        conditions = [
            {
                "type": kind_of_condition,
                "status": "True",
                "lastTransitionTime": when,
                "reason": reason,
                "message": message,
            }
            for kind_of_condition, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        stored = [version.get("name", "") for version in spec.get("versions") or () if version.get("storage")]
        body["status"] = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}


_STRING: Json = {"type": "string"}
_STRINGS: Json = {"type": "array", "items": _STRING}
_NAMES: Json = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("plural", "singular", "kind", "listKind"), _STRING),
        **dict.fromkeys(("shortNames", "categories"), _STRINGS),
    },
}
_COLUMN: Json = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "type", "format", "description", "jsonPath"), _STRING),
        "priority": {"type": "integer"},
    },
}
_VERSION: Json = {
    "type": "object",
    "properties": {
        "name": _STRING,
        **{name: {"type": "boolean"} for name in ("served", "storage", "deprecated")},
        "deprecationWarning": _STRING,
        "schema": {"type": "object", "properties": {"openAPIV3Schema": {"type": "object", **_FREE}}},
        "subresources": {"type": "object", "properties": {"status": _FREE, "scale": _FREE}},
        "additionalPrinterColumns": {"type": "array", "items": _COLUMN},
        "selectableFields": {"type": "array", "items": _FREE},
    },
}
_SPEC: Json = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("group", "scope"), _STRING),
        "names": _NAMES,
        "versions": {"type": "array", "items": _VERSION},
        "conversion": _FREE,
        "preserveUnknownFields": {"type": "boolean"},
    },
}

KIND = Kind(
    CUSTOM_RESOURCE_DEFINITIONS,
    compile_schema(envelope({"properties": {"spec": _SPEC, "status": _FREE}})),
    "customresourcedefinition",
    DefinitionRules(),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    columns=(Column("Created At", "string", ".metadata.creationTimestamp"),),
    counts_generation=True,
    unconditional_update=False,
)
"""The kind of the definitions themselves."""


def kind_of(definition: Json) -> Kind:
    """The kind that a valid definition serves."""
    spec = definition["spec"]
    names = spec["names"]
    version = next(version for version in spec["versions"] if version.get("storage"))
    resource = Resource(
        spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
    )
    columns = version.get("additionalPrinterColumns")
    return Kind(
        resource,
        compile_schema(envelope(version["schema"]["openAPIV3Schema"])),
        names["singular"],
        custom=True,
        subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_column(column) for column in columns) if columns else (_AGE,),
        counts_generation=True,
        unconditional_update=False,
        list_kind=names["listKind"],
    )


def development_directory() -> Path:
    """Where Sexton's own development CRDs are: in a checkout, or inside the installed package."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "deploy" / "crds"
    return checkout if checkout.is_dir() else package / "crds"


def load(path: Path) -> list[Json]:
    """The CustomResourceDefinitions in a YAML file, or in all of a directory.

    Raises UsageError when a file cannot be read or holds anything else.
    """
    files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
    files = [file for file in files if not file.name.startswith("kustomization.")]
    if not files:
        raise UsageError("no YAML files", where=str(path), hint="give a directory with CRD manifests")
    return [document for file in files for document in _documents(file)]


def _documents(file: Path) -> list[Json]:
    try:
        documents: list[Any] = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError("cannot read the CRD manifest", where=str(file), detail=str(error)) from error
    found = [document for document in documents if document is not None]
    for document in found:
        if not isinstance(document, dict) or document.get("kind") != "CustomResourceDefinition":
            raise UsageError("not a CustomResourceDefinition", where=str(file), hint="remove it from there")
    return found


def _column(column: Json) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("priority", 0),
        column.get("description", ""),
    )


def _schema_causes(version: Json, path: str) -> list[Cause]:
    root = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(root, dict):
        return [required(path, "schemas are required")]
    if root.get("type") != "object":
        why = "must be object at the root"
        return [invalid_value(f"{path}.type", f'"{root.get("type", "")}"', why)]
    return []
