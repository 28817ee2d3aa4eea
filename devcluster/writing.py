"""The single steps of a write: what must match, what the server decides, what is refused."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from devcluster import metadata, schema
from devcluster.builtin import NAMESPACE_FINALIZER
from devcluster.kinds import Decoded, Kind
from devcluster.objects import Stored
from devcluster.statuses import (
    Cause,
    bad_request,
    conflict,
    internal,
    invalid,
    invalid_value,
    unmet_precondition,
)
from kube.cluster import Json
from kube.resources import NAMESPACES

GENERATED_BASE_LIMIT = metadata.GENERATED_BASE_LIMIT

OBJECT_LIMIT = 1_572_864
"""Bytes of one stored object: etcd's limit of a request."""

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"

_encode = msgspec.json.Encoder(order="deterministic").encode
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_DIGITS = re.compile(r"[0-9]+")


def match_name(meta: Json, name: str) -> None:
    """The name in the body must be the one in the URL. Raises Refusal (400)."""
    own = meta.get("name")
    if not own:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")


def match_namespace(kind: Kind, meta: Json, namespace: str | None) -> None:
    """A namespace in the body must be the one in the URL. Raises Refusal (400)."""
    wanted = namespace or "" if kind.resource.namespaced else ""
    own = meta.get("namespace") or ""
    if own and own != wanted:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def match_uid(kind: Kind, meta: Json, existing: Stored) -> None:
    """A uid in the body of an update is a precondition. Raises Refusal (409)."""
    uid = meta.get("uid")
    if uid and uid != existing.uid:
        resource = kind.resource
        group = f"{resource.group}/" if kind.custom or resource.group else ""
        where = f"{existing.namespace}/" if existing.namespace else ""
        raise conflict(
            resource,
            existing.name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{group}{resource.plural}/{where}"
            f"{existing.name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
            f"UID in precondition: {uid}, UID in object meta: {existing.uid}",
        )


def match_version(kind: Kind, meta: Json, existing: Stored) -> None:
    """The resourceVersion of a write must be the current one. Raises Refusal (409, 422, 500)."""
    version = meta.get("resourceVersion") or "0"
    if not _DIGITS.fullmatch(version):
        raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if int(version) == 0:
        if kind.unconditional_update:
            return
        cause = invalid_value("metadata.resourceVersion", "0", "must be specified for an update")
        raise invalid(kind.resource.plural, kind.resource.group, existing.name, [cause])
    if int(version) != existing.version:
        raise conflict(kind.resource, existing.name)


def match_preconditions(kind: Kind, existing: Stored, uid: str | None, version: str | None) -> None:
    """The preconditions of a delete. Raises Refusal (409)."""
    if uid is not None and uid != existing.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({existing.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise unmet_precondition(kind.resource, existing.name, why)
    if version is not None and version != str(existing.version):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({existing.version}). The object might have been modified"
        )
        raise unmet_precondition(kind.resource, existing.name, why)


def created_metadata(meta: Json, namespace: str | None) -> Json:
    """What a client decides about the metadata of a new object; the rest is the server's."""
    names = ("name", "generateName", "generation", "labels", "annotations", "finalizers", "ownerReferences")
    created = {name: meta[name] for name in names if meta.get(name) not in _EMPTY}
    if namespace:
        created["namespace"] = namespace
    return created


def prepare_create(kind: Kind, body: Json) -> None:
    """Generation 1, no status where that is a subresource, and what the kind itself decides."""
    if kind.counts_generation:
        body["metadata"]["generation"] = 1
    if "status" in kind.subresources:
        body.pop("status", None)
    kind.rules.prepare_create(body)


def prepared_update(kind: Kind, body: Json, old: Json, subresource: str) -> Json:
    """The successor of `old`: `body` with everything taken back that this write may not change."""
    if subresource == "status":
        return _with_member(old, body, "status")
    if subresource == "finalize":
        spec = {**old["spec"], "finalizers": (body.get("spec") or {}).get("finalizers") or []}
        return {**old, "spec": {key: value for key, value in spec.items() if value not in _EMPTY}}
    body["metadata"] = _updated_metadata(body["metadata"], old["metadata"])
    if "status" in kind.subresources:
        body = _with_member(body, old, "status")
    kind.rules.prepare_update(body, old)
    if kind.counts_generation and _differ(_contents(body), _contents(old)):
        body["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return body


def created_causes(kind: Kind, decoded: Decoded) -> list[Cause]:
    """Why a new object is invalid."""
    found = metadata.created_causes(decoded.body["metadata"], _name_faults(kind))
    if not kind.resource.group:
        found += metadata.core_finalizer_causes(decoded.body["metadata"])
    if not decoded.conforms:
        found += schema.causes(decoded.body, kind.schema)
    found += kind.rules.causes(decoded.body)
    return found + schema.unchecked_rules(found, kind.schema)


def updated_causes(kind: Kind, body: Json, old: Json, *, conforms: bool) -> list[Cause]:
    """Why `body` is no valid successor of `old`. `conforms`: the schema has nothing to say."""
    found = metadata.updated_causes(body["metadata"], old["metadata"])
    if not kind.resource.group:
        found += metadata.core_finalizer_causes(body["metadata"])
    if not conforms:
        found += schema.causes(body, kind.schema)
    found += kind.rules.update_causes(body, old)
    return found + schema.unchecked_rules(found, kind.schema)


def marked_deleted(kind: Kind, old: Json, propagation: str | None, now: str) -> Json:
    """`old` as a delete request leaves it, were it not removed."""
    meta = dict(old["metadata"])
    finalizers = _propagated(meta.get("finalizers") or [], propagation)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = now
        if "generation" in meta:
            meta["generation"] += 1
        if kind.resource != NAMESPACES:
            meta["deletionGracePeriodSeconds"] = 0
    body = {**old, "metadata": meta}
    if kind.resource == NAMESPACES:
        body["status"] = {**old["status"], "phase": "Terminating"}
    return body


def held(kind: Kind, body: Json) -> bool:
    """Whether finalizers keep an object that is being deleted."""
    if body["metadata"].get("finalizers"):
        return True
    return kind.resource == NAMESPACES and NAMESPACE_FINALIZER in body["spec"].get("finalizers", ())


def check_size(kind: Kind, stored: Stored) -> None:
    """etcd takes no larger request. Raises Refusal (500).

    Built-in kinds are stored in a denser form, and their own limits keep them below this one.
    """
    if kind.custom and len(stored.rest) > OBJECT_LIMIT:
        raise internal("etcdserver: request is too large")


def _name_faults(kind: Kind) -> metadata.NameFaults:
    if kind.rules.any_name:
        return metadata.segment_faults
    return metadata.label_faults if kind.label_names else metadata.subdomain_faults


def _with_member(body: Json, source: Json, name: str) -> Json:
    changed = {key: value for key, value in body.items() if key != name}
    if name in source:
        changed[name] = source[name]
    return changed


def _updated_metadata(meta: Json, old: Json) -> Json:
    kept = {
        key: value for key, value in meta.items() if value not in _EMPTY and key not in ("selfLink", "managedFields")
    }
    for name in ("namespace", "generation", "creationTimestamp", "resourceVersion"):
        if name in old:
            kept[name] = old[name]
        else:
            kept.pop(name, None)
    kept.setdefault("uid", old["uid"])
    if "deletionTimestamp" in old:
        kept["deletionTimestamp"] = old["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in old:
            kept.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])
    return kept


def _differ(one: Json, other: Json) -> bool:
    """Whether these are different JSON; to Python alone, 1, 1.0 and True are equal."""
    return one != other or _encode(one) != _encode(other)


def _contents(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "metadata"}


def _propagated(finalizers: list[str], propagation: str | None) -> list[str]:
    """The finalizers that make the garbage collector act before the object goes."""
    if propagation is None:
        return finalizers
    kept = [name for name in finalizers if name not in (_ORPHAN, _FOREGROUND)]
    if propagation == "Orphan":
        return [*kept, _ORPHAN]
    return [*kept, _FOREGROUND] if propagation == "Foreground" else kept
