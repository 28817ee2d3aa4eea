"""What the stand-in for Eno's executor puts into slices, and what it asks of Sexton."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster.eno_synthesis import (
    SLICE_BYTES,
    cut,
    published_status,
    recovery_required,
    slice_body,
    synthesis_due,
    synthesized_resources,
)
from eno.objects import Composition, ResourceSlice, Synthesis

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def manifest(name: str, kind: str = "ConfigMap", **rest: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, **rest})


def patch(name: str, kind: str) -> str:
    body = {"apiVersion": "eno.azure.io/v1", "kind": "Patch", "metadata": {"name": name, "namespace": "ns"}}
    return json.dumps({**body, "patch": {"apiVersion": "v1", "kind": kind, "ops": []}})


def previous_slice(
    *entries: dict[str, Any], states: list[dict[str, Any]] | None = None, terminating: bool = False
) -> ResourceSlice:
    metadata = {"name": "old"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {})
    return ResourceSlice.from_json(
        {"metadata": metadata, "spec": {"resources": list(entries)}, "status": {"resources": states}}
    )


def composition(status: dict[str, Any] | None = None, **metadata: Any) -> Composition:
    return Composition.from_json(
        {"metadata": {"name": "app", "namespace": "ns", "uid": "u", "generation": 1, **metadata}, "status": status}
    )


def synthesis(uuid: str = "one", **fields: Any) -> Synthesis:
    return Synthesis.model_validate({"uuid": uuid, **fields})


def decision(reason: str, *, status: bool = True, uuid: str = "one") -> dict[str, Any]:
    return {"status": status, "reason": reason, "synthesisUUID": uuid}


KEPT, GONE = {"manifest": manifest("kept")}, {"manifest": manifest("gone")}
BURIED = {"manifest": manifest("gone"), "deleted": True}
DONE = {"reconciled": True}


@pytest.mark.parametrize(
    ("previous", "tombstones"),
    [
        pytest.param([], [], id="without history nothing is buried"),
        pytest.param([previous_slice(KEPT)], [], id="what is still wanted is not buried"),
        pytest.param([previous_slice(KEPT, GONE)], ["gone"], id="what is no longer wanted is buried"),
        pytest.param(
            [previous_slice(GONE, states=[DONE])], ["gone"], id="a live resource is buried, reconciled or not"
        ),
        pytest.param([previous_slice(BURIED)], ["gone"], id="a tombstone that was not carried out is passed on"),
        pytest.param([previous_slice(BURIED, states=[DONE])], [], id="a tombstone that was carried out is not"),
        pytest.param([previous_slice(KEPT, BURIED, states=[DONE])], ["gone"], id="a missing state is not carried out"),
        pytest.param([previous_slice(GONE, states=[DONE], terminating=True)], [], id="nor is a terminating slice's"),
        pytest.param([previous_slice(GONE), previous_slice(GONE)], ["gone"], id="nothing is buried twice"),
        pytest.param([previous_slice({"manifest": patch("kept", "ConfigMap")})], [], id="a patch is its target"),
    ],
)
def test_tombstones_are_what_the_previous_slices_have_and_the_new_ones_lack(
    previous: list[ResourceSlice], tombstones: list[str]
) -> None:
    entries = synthesized_resources([manifest("kept")], previous)

    buried = [json.loads(entry["manifest"])["metadata"]["name"] for entry in entries if entry.get("deleted")]
    assert entries[0] == KEPT
    assert buried == tombstones


def test_a_tombstone_keeps_the_whole_manifest() -> None:
    whole = manifest("gone", data={"a": "b"})

    assert synthesized_resources([], [previous_slice({"manifest": whole})]) == [{"manifest": whole, "deleted": True}]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        pytest.param([], [], id="nothing needs no slice"),
        pytest.param([SLICE_BYTES - 1, 1], [2], id="exactly the limit fits"),
        pytest.param([SLICE_BYTES, 1], [1, 1], id="one byte more starts another slice"),
        pytest.param([1, SLICE_BYTES, 1], [1, 1, 1], id="earlier slices are not filled up later"),
        pytest.param([1, SLICE_BYTES + 1, 1], [1, 1, 1], id="a manifest over the limit stands alone"),
    ],
)
def test_entries_are_cut_in_order_by_their_bytes(sizes: list[int], parts: list[int]) -> None:
    assert [len(part) for part in cut([{"manifest": "x" * size} for size in sizes])] == parts


def test_sizes_are_counted_in_utf8_bytes() -> None:
    assert len(cut([{"manifest": "ü" * (SLICE_BYTES // 2)}, {"manifest": "x"}])) == 2


@pytest.mark.parametrize(
    ("status", "stamp"),
    [
        pytest.param(None, "", id="a first synthesis has an empty stamp"),
        pytest.param({"inFlightSynthesis": {"uuid": "new"}}, "", id="also while it is in flight"),
        pytest.param(
            {"inFlightSynthesis": {"uuid": "new"}, "currentSynthesis": {"uuid": "old"}},
            "old",
            id="a later one has the stamp of the synthesis it replaces",
        ),
    ],
)
def test_slices_are_stamped_with_what_is_current(status: dict[str, Any] | None, stamp: str) -> None:
    assert slice_body(composition(status), [KEPT])["spec"] == {"synthesisUUID": stamp, "resources": [KEPT]}


def test_a_slice_is_owned_named_by_the_server_and_finalized() -> None:
    metadata = slice_body(composition(), [])["metadata"]

    assert metadata["generateName"] == "app-"
    assert metadata["finalizers"] == ["eno.azure.io/cleanup"]
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in metadata["ownerReferences"]] == [
        ("Composition", "u", True)
    ]


FORCED = "eno.azure.io/force-resynthesis"
RUNNING = {"inFlightSynthesis": {"uuid": "new"}, "currentSynthesis": {"uuid": "old"}}


@pytest.mark.parametrize(
    ("subject", "observed", "due"),
    [
        pytest.param(composition(), 0, True, id="the first synthesis"),
        pytest.param(composition(deletionTimestamp="2026-01-01T00:00:00Z"), 0, False, id="not for a deleting one"),
        pytest.param(composition({"currentSynthesis": {"uuid": "old"}}), 1, False, id="not twice for one spec"),
        pytest.param(composition({"currentSynthesis": {"uuid": "old"}}), 0, True, id="a changed spec"),
        pytest.param(composition(RUNNING), 1, False, id="not while one is in flight"),
        pytest.param(composition(RUNNING, annotations={FORCED: "old"}), 1, False, id="not for a request already met"),
        pytest.param(composition(RUNNING, annotations={FORCED: "new"}), 1, True, id="a request names the latest"),
        pytest.param(
            composition({"currentSynthesis": {"uuid": "old"}}, annotations={FORCED: "old"}), 1, True, id="a request"
        ),
    ],
)
def test_a_synthesis_is_due_for(subject: Composition, observed: int, due: bool) -> None:
    assert synthesis_due(subject, observed) is due


@pytest.mark.parametrize(
    ("current", "required"),
    [
        pytest.param(None, True, id="a first synthesis may lack history"),
        pytest.param(synthesis(), False, id="one made by an older Eno passes nothing on"),
        pytest.param(synthesis(tombstoneRecoveryRequired=True), True, id="an undecided one passes it on"),
        pytest.param(
            synthesis(tombstoneRecoveryRequired=True, tombstoneRecoveryStatus=decision("FinishedTombstoneRecovery")),
            False,
            id="a decided one does not",
        ),
        pytest.param(
            synthesis(tombstoneRecoveryRequired=True, tombstoneRecoveryStatus=decision("NotNeeded", uuid="other")),
            True,
            id="a decision for another synthesis is none",
        ),
        pytest.param(
            synthesis(
                tombstoneRecoveryRequired=True, tombstoneRecoveryStatus=decision("InventoryGetError", status=False)
            ),
            True,
            id="a failed attempt passes it on",
        ),
        pytest.param(
            synthesis(
                tombstoneRecoveryRequired=True, tombstoneRecoveryStatus=decision("TombstoneRecoveryOperatorNotEnabled")
            ),
            True,
            id="a disabled operator passes it on",
        ),
        pytest.param(
            synthesis(tombstoneRecoveryRequired=True, tombstoneRecoveryStatus=decision("OutsideRecoveryNamespace")),
            True,
            id="another namespace passes it on",
        ),
        pytest.param(
            synthesis(tombstoneRecoveryRequired=False, tombstoneRecoveryStatus=decision("OutsideRecoveryNamespace")),
            False,
            id="what never was required is not inherited",
        ),
    ],
)
def test_whether_recovery_is_required_follows_from_the_synthesis_before(
    current: Synthesis | None, required: bool
) -> None:
    assert recovery_required(current) is required


def test_publishing_moves_in_flight_to_current_and_current_to_previous() -> None:
    status = {
        "inFlightSynthesis": {"uuid": "new", "initialized": "2026-01-01T00:00:00Z"},
        "currentSynthesis": {"uuid": "old"},
        "previousSynthesis": {"uuid": "older"},
        "simplified": {"status": "Reconciling"},
    }

    after = published_status(status, ["app-x"], NOW, required=False)

    assert after == {
        "currentSynthesis": {
            "uuid": "new",
            "initialized": "2026-01-01T00:00:00Z",
            "synthesized": "2026-01-01T00:00:00Z",
            "resourceSlices": [{"name": "app-x"}],
            "tombstoneRecoveryRequired": False,
        },
        "previousSynthesis": {"uuid": "old"},
        "simplified": {"status": "Reconciling"},
    }
    assert "inFlightSynthesis" in status
