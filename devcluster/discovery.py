"""What is served, in the words that kubectl and other clients ask for it."""

from __future__ import annotations

from collections.abc import Iterable

from devcluster.kinds import STANDARD_VERBS, Kind
from devcluster.reviews import ACCESS_REVIEWS
from devcluster.store import Store
from kube.cluster import Json

VERSION: Json = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.0-devcluster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The answer of /version: the kube-apiserver release whose behaviour is followed."""

_FIELD_VALIDATION: Json = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def core_versions() -> Json:
    """/api"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(store: Store) -> Json:
    """/apis"""
    groups = [_group(name, versions) for name, versions in _groups(store).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(store: Store, name: str) -> Json | None:
    """/apis/GROUP, or None where nothing of that group is served."""
    versions = _groups(store).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if name and versions else None


def resource_list(store: Store, group: str, version: str) -> Json | None:
    """/api/v1 or /apis/GROUP/VERSION, or None where nothing of it is served."""
    resources = [entry for kind in _served(store, group, version) for entry in _resources(kind)]
    if (group, version) == (ACCESS_REVIEWS.group, ACCESS_REVIEWS.version):
        resources.append(_resource(ACCESS_REVIEWS.plural, ACCESS_REVIEWS.kind, ["create"], namespaced=False))
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def openapi_index(store: Store) -> Json:
    """/openapi/v3: where the documents of each group and version are."""
    names = [
        f"apis/{group}/{version}" if group else f"api/{version}"
        for group, versions in _groups(store).items()
        for version in versions
    ]
    return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}


def openapi_document(store: Store, group: str, version: str) -> Json:
    """/openapi/v3/...: only that every kind's patch takes fieldValidation, which kubectl looks for."""
    paths: Json = {}
    for kind in _served(store, group, version):
        resource = kind.resource
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        identity = {"group": group, "version": version, "kind": resource.kind}
        paths[f"{prefix}{scope}/{resource.plural}/{{name}}"] = {
            "patch": {
                "parameters": [_FIELD_VALIDATION],
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": identity,
                "responses": {},
            }
        }
    return {"openapi": "3.0.0", "info": {"title": "devcluster", "version": "v1"}, "paths": paths}


def _groups(store: Store) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {"": [], ACCESS_REVIEWS.group: [ACCESS_REVIEWS.version]}
    for kind in store.kinds():
        versions = groups.setdefault(kind.resource.group, [])
        if kind.resource.version not in versions:
            versions.append(kind.resource.version)
    return groups


def _served(store: Store, group: str, version: str) -> Iterable[Kind]:
    found = [kind for kind in store.kinds() if (kind.resource.group, kind.resource.version) == (group, version)]
    return sorted(found, key=lambda kind: kind.resource.plural)


def _group(name: str, versions: list[str]) -> Json:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _resources(kind: Kind) -> list[Json]:
    resource = kind.resource
    main = _resource(
        resource.plural,
        resource.kind,
        list(STANDARD_VERBS),
        namespaced=resource.namespaced,
        singular=kind.singular,
    )
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    verbs = {"status": ["get", "patch", "update"], "finalize": ["update"]}
    return [
        main,
        *(
            _resource(f"{resource.plural}/{name}", resource.kind, verbs[name], namespaced=resource.namespaced)
            for name in kind.subresources
        ),
    ]


def _resource(name: str, kind: str, verbs: list[str], *, namespaced: bool, singular: str = "") -> Json:
    return {"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs}
