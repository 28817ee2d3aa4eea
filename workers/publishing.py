"""Guarded writes to a composition: the decision, readiness, and the request for a resynthesis.

One JSON Patch carries a decision and the new slice references together, so nobody ever sees one without the
other; its first operations test uid, resourceVersion and the current UUID.
"""

from __future__ import annotations

from collections.abc import Sequence

from eno.decision import Decision
from eno.errors import ApiError, Conflict, Invalid, MissingCapability, NotFound, Refused, ServerError, StartOver
from eno.objects import FORCE_RESYNTHESIS_ANNOTATION
from eno.readiness import Verdict
from eno.times import format_time
from kube import guards
from kube.cluster import Cluster, JsonPatch
from kube.resources import COMPOSITIONS
from workers.freshness import Live, read

_CURRENT: guards.Path = ("status", "currentSynthesis")
_UUID: guards.Path = (*_CURRENT, "uuid")
_DECISION: guards.Path = (*_CURRENT, "tombstoneRecoveryStatus")
_SIMPLIFIED_ERROR: guards.Path = ("status", "simplified", "error")
_SLICES: guards.Path = (*_CURRENT, "resourceSlices")


def publish(cluster: Cluster, live: Live, decision: Decision, new_slices: Sequence[str] = ()) -> Live:
    """Publish the decision, with references to new slices appended once. Unchanged: no request.

    Raises StartOver when the composition has changed since `live` was read, MissingCapability when the CRD does
    not know the fields, ApiError otherwise.
    """
    composition = live.composition
    if composition.current is None:
        raise AssertionError("a decision belongs to a current synthesis")
    wanted = decision.to_status(composition.current.uuid)
    put: dict[guards.Path, object] = {_DECISION: wanted}
    added = [name for name in new_slices if name not in composition.current.slice_names]
    if added:
        present = live.json["status"]["currentSynthesis"].get("resourceSlices") or []
        put[_SLICES] = [*present, *({"name": name} for name in added)]
    operations = guards.status_patch(live.json, put=put, expect={_UUID: composition.current.uuid})
    if operations is None:
        return live
    stored = _patch(cluster, live, operations)
    if stored.json["status"]["currentSynthesis"].get("tombstoneRecoveryStatus") != wanted:
        raise _unknown_fields(live)
    return stored


def publish_readiness(cluster: Cluster, live: Live, verdict: Verdict) -> Live:
    """Set or clear `ready` and `reconciled`, and the simplified error where the verdict has one. Unchanged: no request.

    Raises StartOver when the composition has changed since `live` was read, ApiError otherwise.
    """
    composition = live.composition
    if composition.current is None:
        raise AssertionError("readiness belongs to a current synthesis")
    put: dict[guards.Path, object] = {}
    clear: list[guards.Path] = []
    for field, wanted, stored in (
        ("reconciled", verdict.reconciled, composition.current.reconciled),
        ("ready", verdict.ready, composition.current.ready),
    ):
        if wanted is None:
            clear.append((*_CURRENT, field))
        elif wanted != stored:
            put[*_CURRENT, field] = format_time(wanted)
    if verdict.error:
        put[_SIMPLIFIED_ERROR] = verdict.error
    elif verdict.error is not None:
        clear.append(_SIMPLIFIED_ERROR)
    # A `test` of a field that is not there fails, and a synthesis need not have a UUID.
    expect = {_UUID: composition.current.uuid} if "uuid" in live.json["status"]["currentSynthesis"] else {}
    operations = guards.status_patch(live.json, put=put, clear=clear, expect=expect)
    return live if operations is None else _patch(cluster, live, operations)


def request_resynthesis(cluster: Cluster, live: Live) -> None:
    """Ask Eno for a resynthesis of the latest synthesis. The caller has checked that it may be asked for.

    Raises StartOver when the composition has changed since `live` was read, ApiError otherwise.
    """
    composition = live.composition
    operations = guards.set_annotation(live.json, FORCE_RESYNTHESIS_ANNOTATION, composition.latest_uuid)
    try:
        cluster.json_patch(COMPOSITIONS, composition.namespace, composition.name, operations)
    except (Conflict, Invalid, NotFound, ServerError) as error:
        raise _rejected(cluster, live, error) from error


def _patch(cluster: Cluster, live: Live, operations: JsonPatch) -> Live:
    composition = live.composition
    try:
        return Live.of(
            cluster.json_patch(
                COMPOSITIONS, composition.namespace, composition.name, operations, subresource="status", strict=True
            )
        )
    except (Refused, Conflict, Invalid, NotFound, ServerError) as error:
        # fieldValidation=Strict is answered with 422 on a patch, with 400 otherwise.
        if "unknown field" in error.detail:
            raise _unknown_fields(live) from error
        raise _rejected(cluster, live, error) from error


def _rejected(cluster: Cluster, live: Live, error: ApiError) -> ApiError | StartOver:
    """What a refused patch means: changed values are a lost race, unchanged ones a refusal that stays.

    A failed `test` is answered like a refusal by the schema (422), on older servers like a fault (500).
    """
    composition = live.composition
    now = read(cluster, composition.namespace, composition.name)
    if now is not None and _tested(now) == _tested(live):
        return error
    return StartOver("it has changed since it was read", where=f"composition {composition.title}")


def _tested(live: Live) -> tuple[str, str]:
    return live.composition.uid, live.composition.resource_version


def _unknown_fields(live: Live) -> MissingCapability:
    return MissingCapability(
        "the CRD of compositions drops status.currentSynthesis.tombstoneRecoveryStatus",
        where=f"publish the decision of {live.composition.title}",
        hint="install a newer Eno, with the CRDs that come with it; docs/install.md says how to check them",
    )
