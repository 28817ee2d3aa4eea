"""The admission policies on a real API server: for each of them, who is let through and who is refused.

Every request is a dry run, which admission does not tell from a real one, so that cases do not disturb each other.
Everybody here may do everything by RBAC.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from eno.inventory.secrets import LINEAGE_KEY
from kube.cluster import Json
from tests.deploy.admission import COMPOSITIONS, JSON, MERGE, SECRETS, SLICES, Installed, inventory
from tests.deploy.rendering import DEPLOY, ROOT
from tests.support.waiting import until

KUBE_SYSTEM_PATH = "/api/v1/namespaces/kube-system"
PARAMETERS = f"{KUBE_SYSTEM_PATH}/configmaps/sexton-admission"

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

INVENTORY, NAMES, KUBE_SYSTEM = "sexton-inventory", "sexton-inventory-names", "sexton-kube-system"
READINESS, OVERFLOW = "sexton-readiness", "sexton-overflow"

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


# Inventories


@pytest.fixture(scope="module")
def stored(installed: Installed) -> Json:
    """An inventory that is there."""
    return installed.put(SECRETS, inventory("stored"))


def path_of(secret: Json) -> str:
    return f"{SECRETS}/{secret['metadata']['name']}"


ONLY_THE_WORKER = [
    ("the worker", ""),
    ("the watcher", INVENTORY),
    ("an administrator", INVENTORY),
    ("Eno", INVENTORY),
    ("the garbage collector", INVENTORY),
    ("the controller manager", INVENTORY),
    ("a worker of another namespace", INVENTORY),
    ("a user with the name of the break-glass group", INVENTORY),
    ("somebody in a group with the worker's name", INVENTORY),
    ("break-glass", ""),
]


@pytest.mark.parametrize(("who", "refused_by"), ONLY_THE_WORKER, ids=[who for who, _ in ONLY_THE_WORKER])
def test_an_inventory_is_changed_by_the_worker_only(
    installed: Installed, stored: Json, who: str, refused_by: str
) -> None:
    mark = {"metadata": {"annotations": {"eno.azure.io/inventory-unclaimed-since": EARLIER}}}
    answers = {
        "create": installed.ask(who, "POST", SECRETS, inventory("new")),
        "patch": installed.ask(who, "PATCH", path_of(stored), mark, content_type=MERGE),
        "delete": installed.ask(who, "DELETE", path_of(stored)),
    }
    refusals = {name: answer.refused_by for name, answer in answers.items()}
    if who == "the watcher":  # refused by one more policy, and either may speak first
        assert set(refusals.values()) <= {INVENTORY, KUBE_SYSTEM}
    else:
        assert refusals == dict.fromkeys(answers, refused_by)


def without_label(secret: Json, **metadata: Any) -> Json:
    return {**secret, "metadata": {**secret["metadata"], "labels": {}, **metadata}}


def test_taking_the_label_off_does_not_set_an_inventory_free(installed: Installed, stored: Json) -> None:
    patch = {"metadata": {"labels": {LINEAGE_KEY: None}}}
    assert installed.ask("an administrator", "PATCH", path_of(stored), patch, content_type=MERGE).refused_by
    assert installed.ask("an administrator", "PUT", path_of(stored), without_label(stored)).refused_by
    assert installed.ask("the worker", "PUT", path_of(stored), without_label(stored)).refused_by in (KUBE_SYSTEM, NAMES)


def test_putting_the_label_on_makes_no_inventory(installed: Installed) -> None:
    foreign = installed.put(SECRETS, {"metadata": {"name": unique("foreign")}, "type": "Opaque"})
    patch = {"metadata": {"labels": {LINEAGE_KEY: "0" * 32}}}
    assert (
        installed.ask("an administrator", "PATCH", path_of(foreign), patch, content_type=MERGE).refused_by == INVENTORY
    )
    assert installed.ask("the worker", "PATCH", path_of(foreign), patch, content_type=MERGE).refused_by == KUBE_SYSTEM
    named = installed.put(SECRETS, {"metadata": {"name": f"{unique('foreign')}-{'0' * 32}-0"}, "type": "Opaque"})
    assert installed.ask("the worker", "PATCH", path_of(named), patch, content_type=MERGE).refused_by == KUBE_SYSTEM


def test_a_collection_is_deleted_only_as_far_as_each_of_it_may_be(installed: Installed, stored: Json) -> None:
    assert stored["metadata"]["uid"]
    answer = installed.ask("an administrator", "DELETE", SECRETS, labelSelector=LINEAGE_KEY)
    assert answer.refused_by == INVENTORY


def test_whoever_rewrites_an_inventory_as_it_is_passes(installed: Installed, stored: Json) -> None:
    """As re-encryption and storage version migration do."""
    assert installed.ask("the controller manager", "PUT", path_of(stored), stored).refused_by == ""
    touched = {**stored, "metadata": {**stored["metadata"], "annotations": {}}}
    assert installed.ask("the controller manager", "PUT", path_of(stored), touched).refused_by == INVENTORY


def test_secrets_of_others_are_left_alone(installed: Installed) -> None:
    secret = {"metadata": {"name": unique("plain"), "labels": {"app": "x"}}, "type": "Opaque"}
    assert installed.ask("an administrator", "POST", SECRETS, secret).refused_by == ""
    bare = {"metadata": {"name": unique("bare")}}
    assert installed.ask("an administrator", "POST", SECRETS, bare).refused_by == ""
    generated = {"metadata": {"generateName": "generated-"}}
    assert installed.ask("an administrator", "POST", SECRETS, generated).refused_by == ""


def test_inventories_are_protected_in_kube_system_only(installed: Installed) -> None:
    secret = inventory("new")
    secret["metadata"]["namespace"] = "default"
    assert installed.ask("an administrator", "POST", "/api/v1/namespaces/default/secrets", secret).refused_by == ""


def test_the_name_of_an_inventory_is_not_for_others(installed: Installed) -> None:
    secret = without_label(inventory("squatter"), annotations={})
    assert installed.ask("an administrator", "POST", SECRETS, secret).refused_by == NAMES
    assert installed.ask("break-glass", "POST", SECRETS, secret).refused_by == ""


def test_the_annotation_of_an_inventory_is_not_for_others(installed: Installed) -> None:
    body = {"metadata": {"name": unique("annotated"), "annotations": {LINEAGE_KEY: "0" * 32}}}
    assert installed.ask("an administrator", "POST", SECRETS, body).refused_by == NAMES


# The rest of kube-system


def named(name: str, lineage: str) -> Json:
    """A Secret of this name and label."""
    return {"metadata": {"name": name, "labels": {LINEAGE_KEY: lineage}}, "type": "Opaque"}


DIGEST = "0123456789abcdef"

NOT_INVENTORIES: Mapping[str, Json] = {
    "a lineage that is a word": named("cluster-ca-1", "ca"),
    "a lineage that is a word, and a digest": named(f"cluster-ca-1-{DIGEST}", "ca"),
    "a lineage that is empty": named("cluster--1", ""),
    "a lineage that is too short": named(f"web-{'0' * 31}-0-{DIGEST}", "0" * 31),
    "a lineage that is no hexadecimal number": named(f"web-{'g' * 32}-0-{DIGEST}", "g" * 32),
    "no composition": named(f"{'0' * 32}-0-{DIGEST}", "0" * 32),
    "no digest": named(f"web-{'0' * 32}-0", "0" * 32),
    "a digest that is too long": named(f"web-{'0' * 32}-0-{DIGEST}0", "0" * 32),
    "an index with a leading zero": named(f"web-{'0' * 32}-00-{DIGEST}", "0" * 32),
    "a Secret without the label": without_label(inventory("x")),
    "a Secret whose name is not of its lineage": {
        **inventory("x"),
        "metadata": {**inventory("x")["metadata"], "labels": {LINEAGE_KEY: "f" * 32}},
    },
    "a Secret of another name": {**inventory("x"), "metadata": {**inventory("x")["metadata"], "name": "other"}},
    "a Secret that becomes a token": {
        **inventory("x"),
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            **inventory("x")["metadata"],
            "annotations": {"kubernetes.io/service-account.name": "generic-garbage-collector"},
        },
    },
}


@pytest.mark.parametrize("case", NOT_INVENTORIES)
def test_sexton_creates_nothing_but_inventories_in_kube_system(installed: Installed, case: str) -> None:
    assert installed.ask("the worker", "POST", SECRETS, NOT_INVENTORIES[case]).refused_by in (KUBE_SYSTEM, NAMES)


def test_the_worker_retires_inventories_of_the_former_name(installed: Installed) -> None:
    """Without a digest: those are read, and not made any more."""
    former = installed.put(SECRETS, named(f"{unique('former')}-{'0' * 32}-0", "0" * 32))
    assert installed.ask("the worker", "DELETE", path_of(former)).refused_by == ""


@pytest.mark.parametrize("who", ["the worker", "the watcher"])
def test_sexton_touches_nothing_else_in_kube_system(installed: Installed, who: str) -> None:
    foreign = installed.put(SECRETS, {"metadata": {"name": unique("foreign")}, "type": "Opaque"})
    patch = {"metadata": {"annotations": {"a": "b"}}}
    account = installed.put(f"{KUBE_SYSTEM_PATH}/serviceaccounts", {"metadata": {"name": unique("account")}})
    body = {"metadata": {"name": "mine"}}
    answers = {
        "patch of a Secret": installed.ask(who, "PATCH", path_of(foreign), patch, content_type=MERGE),
        "deletion of a Secret": installed.ask(who, "DELETE", path_of(foreign)),
        "deletion of all Secrets": installed.ask(who, "DELETE", SECRETS),
        "a ConfigMap": installed.ask(who, "POST", f"{KUBE_SYSTEM_PATH}/configmaps", body),
        "the policies' parameters": installed.ask(who, "DELETE", PARAMETERS),
        "an Event that looks like an inventory": installed.ask(
            who,
            "POST",
            f"{KUBE_SYSTEM_PATH}/events",
            {
                "metadata": inventory("event")["metadata"],
                "type": "Opaque",
                "involvedObject": {"namespace": "kube-system"},
            },
        ),
        "a Lease": installed.ask(who, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", body),
        "a token": installed.ask(
            who, "POST", f"{KUBE_SYSTEM_PATH}/serviceaccounts/{account['metadata']['name']}/token", {"spec": {}}
        ),
    }
    assert {name: answer.refused_by for name, answer in answers.items()} == dict.fromkeys(answers, KUBE_SYSTEM)


def test_others_are_free_in_kube_system_and_sexton_is_free_elsewhere(installed: Installed) -> None:
    body = {"metadata": {"name": "any"}}
    assert installed.ask("Eno", "POST", f"{KUBE_SYSTEM_PATH}/configmaps", body).refused_by == ""
    assert installed.ask("the worker", "POST", "/api/v1/namespaces/default/configmaps", body).refused_by == ""


# Readiness


def decided(uuid: str, *, status: bool = True) -> Json:
    return {"status": status, "reason": "NotNeeded", "synthesisUUID": uuid}


def composition(installed: Installed, status: Json | None, *, deleting: bool = False, **annotations: str) -> str:
    """Path of a new composition that has this status; opted in unless `annotations` say otherwise."""
    name = unique("composition")
    notes = {f"eno.azure.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    body = {
        "apiVersion": "eno.azure.io/v1",
        "kind": "Composition",
        "metadata": {
            "name": name,
            "annotations": notes or {"eno.azure.io/recovery-enabled": "true"},
            "finalizers": ["eno.azure.io/cleanup"],
        },
        "spec": {"synthesizer": {"name": "web"}},
    }
    installed.put(COMPOSITIONS, body, status=status)
    if deleting:
        installed.ask("break-glass", "DELETE", f"{COMPOSITIONS}/{name}", keep=True)
    return f"{COMPOSITIONS}/{name}"


UNDECIDED = {"currentSynthesis": {"uuid": "one", "synthesized": EARLIER}}
STALE = {"currentSynthesis": {"uuid": "one", "tombstoneRecoveryStatus": decided("zero")}}
RETRYING = {"currentSynthesis": {"uuid": "one", "tombstoneRecoveryStatus": decided("one", status=False)}}
DECIDED = {"currentSynthesis": {"uuid": "one", "tombstoneRecoveryStatus": decided("one")}}
READY = {"currentSynthesis": {"uuid": "one", "ready": EARLIER, "reconciled": EARLIER}}
ANONYMOUS = {"currentSynthesis": {"tombstoneRecoveryStatus": decided("")}}


def current(**fields: Any) -> Json:
    return {"currentSynthesis": fields}


STATUS_WRITES: Mapping[str, tuple[Json | None, Json, str]] = {
    "ready of an undecided synthesis": (UNDECIDED, current(ready=LATER), READINESS),
    "reconciled of an undecided synthesis": (UNDECIDED, current(reconciled=LATER), READINESS),
    "both of an undecided synthesis": (UNDECIDED, current(ready=LATER, reconciled=LATER), READINESS),
    "ready where there was no status": (None, current(uuid="one", ready=LATER), READINESS),
    "ready where the decision is about another synthesis": (STALE, current(ready=LATER), READINESS),
    "ready where the decision is to be tried again": (RETRYING, current(ready=LATER), READINESS),
    "ready of a synthesis without a UUID": (ANONYMOUS, current(ready=LATER), READINESS),
    "another time of ready": (READY, current(ready=LATER), READINESS),
    "ready carried over to another synthesis": (READY, current(uuid="two", reconciled=None), READINESS),
    "reconciled carried over to another synthesis": (READY, current(uuid="two", ready=None), READINESS),
    "a decided synthesis replaced by a ready one": (DECIDED, current(uuid="two", ready=LATER), READINESS),
    "ready of a decided synthesis": (DECIDED, current(ready=LATER), ""),
    "reconciled of a decided synthesis": (DECIDED, current(reconciled=LATER), ""),
    "something else of an undecided synthesis": (UNDECIDED, current(attempts=2), ""),
    "something else, ready staying as somebody set it": (READY, current(attempts=2), ""),
    "ready and reconciled taken back": (READY, current(ready=None, reconciled=None), ""),
    "ready taken back, reconciled staying": (READY, current(ready=None), ""),
    "the simplified status": (UNDECIDED, {"simplified": {"status": "Reconciling"}}, ""),
    "a new synthesis in flight": (UNDECIDED, {"inFlightSynthesis": {"uuid": "two"}}, ""),
    "a ready previous synthesis": (UNDECIDED, {"previousSynthesis": {"uuid": "zero", "ready": EARLIER}}, ""),
    "the first synthesis": (None, current(uuid="one", synthesized=EARLIER), ""),
    "no synthesis any more": (READY, {"currentSynthesis": None}, ""),
    "no status any more": (READY, {"currentSynthesis": None, "simplified": None}, ""),
}


@pytest.mark.parametrize("case", STATUS_WRITES)
def test_readiness_is_not_newly_set_before_the_decision(installed: Installed, case: str) -> None:
    before, patch, refused_by = STATUS_WRITES[case]
    path = composition(installed, before)
    answer = installed.ask("Eno", "PATCH", f"{path}/status", {"status": patch}, content_type=MERGE)
    assert answer.refused_by == refused_by


FORGED = {"status": True, "reason": "Bogus", "synthesisUUID": "one"}
IN_FLIGHT = {**UNDECIDED, "inFlightSynthesis": {"uuid": "two", "synthesized": EARLIER}}
READY_AND_DECIDED = {"currentSynthesis": {**READY["currentSynthesis"], **DECIDED["currentSynthesis"]}}
DECIDED_IN_FLIGHT = {**UNDECIDED, "inFlightSynthesis": {"uuid": "two", "tombstoneRecoveryStatus": decided("two")}}

DECISIONS: Mapping[str, tuple[Json | None, Json]] = {
    "a decision": (UNDECIDED, current(tombstoneRecoveryStatus=FORGED)),
    "a decision without a reason": (UNDECIDED, current(tombstoneRecoveryStatus={**FORGED, "reason": ""})),
    "a decision, and ready at once": (UNDECIDED, current(tombstoneRecoveryStatus=FORGED, ready=LATER)),
    "a decision where there was no status": (None, current(uuid="one", tombstoneRecoveryStatus=FORGED)),
    "a decision that is to be tried again, made final": (RETRYING, current(tombstoneRecoveryStatus={"status": True})),
    "the decision about another synthesis, made one about this": (
        STALE,
        current(tombstoneRecoveryStatus={"synthesisUUID": "one"}),
    ),
    "another synthesis, the one that the decision is about": (STALE, current(uuid="zero")),
    "another reason of a decision": (DECIDED, current(tombstoneRecoveryStatus={"reason": "Bogus"})),
    "a ready synthesis replaced by a decided one that stays ready": (
        READY,
        current(uuid="two", tombstoneRecoveryStatus=decided("two")),
    ),
    "a decided synthesis replaced by a decided one": (
        READY_AND_DECIDED,
        current(uuid="two", tombstoneRecoveryStatus={"synthesisUUID": "two"}),
    ),
    "a decision for the synthesis in flight, which becomes the current one": (
        IN_FLIGHT,
        {"inFlightSynthesis": {"tombstoneRecoveryStatus": decided("two")}},
    ),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_only_the_worker_decides(installed: Installed, case: str) -> None:
    before, patch = DECISIONS[case]
    path = composition(installed, before)
    for who in ("Eno", "the watcher", "an administrator", "a worker of another namespace"):
        answer = installed.ask(who, "PATCH", f"{path}/status", {"status": patch}, content_type=MERGE)
        assert answer.refused_by == READINESS, who
    for who in ("the worker", "break-glass"):
        assert installed.ask(who, "PATCH", f"{path}/status", {"status": patch}, content_type=MERGE).refused_by == ""


def test_a_decision_cannot_be_made_while_the_composition_is_opted_out(installed: Installed) -> None:
    path = composition(installed, UNDECIDED, other="true")
    patch = {"status": current(tombstoneRecoveryStatus=FORGED)}
    assert installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == READINESS
    assert installed.ask("the worker", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == ""


SWAPPED = {"uuid": "two", "synthesized": LATER}
ENOS_WRITES: Mapping[str, tuple[Json, Json]] = {
    "the synthesis in flight becomes the current one, and that the previous one": (
        {**READY_AND_DECIDED, "inFlightSynthesis": SWAPPED},
        {"previousSynthesis": READY_AND_DECIDED["currentSynthesis"], "currentSynthesis": SWAPPED},
    ),
    "a swap that carries the decision about the former synthesis along": (
        {**DECIDED, "inFlightSynthesis": SWAPPED},
        {"currentSynthesis": {**DECIDED["currentSynthesis"], **SWAPPED}},
    ),
    "a swap to a synthesis that the worker decided about in flight": (
        DECIDED_IN_FLIGHT,
        {"currentSynthesis": DECIDED_IN_FLIGHT["inFlightSynthesis"]},
    ),
    "a decided synthesis that becomes ready": (
        DECIDED,
        {"currentSynthesis": {**DECIDED["currentSynthesis"], "reconciled": LATER, "ready": LATER}},
    ),
    "another attempt in flight beside a decided synthesis": (
        {**DECIDED, "inFlightSynthesis": {"uuid": "two", "attempts": 1}},
        {**DECIDED, "inFlightSynthesis": {"uuid": "three", "attempts": 2}},
    ),
    "a decision that is to be tried again": (DECIDED, RETRYING),
    "a decided synthesis without its decision": (DECIDED, {"currentSynthesis": {"uuid": "one"}}),
    "a decided synthesis that is gone": (READY_AND_DECIDED, {}),
    "the status as it was": (READY_AND_DECIDED, READY_AND_DECIDED),
}


@pytest.mark.parametrize("case", ENOS_WRITES)
def test_eno_carries_decisions_along(installed: Installed, case: str) -> None:
    """Written as Eno does: the whole object, with the status that it shall have."""
    before, after = ENOS_WRITES[case]
    path = composition(installed, before)
    body = {**installed.ask("Eno", "GET", path).object, "status": after}
    assert installed.ask("Eno", "PUT", f"{path}/status", body).refused_by == ""


EVERYBODY = ["the worker", "the watcher", "an administrator", "Eno", "the controller manager"]


@pytest.mark.parametrize("who", EVERYBODY)
def test_nobody_sets_readiness_too_early(installed: Installed, who: str) -> None:
    path = composition(installed, UNDECIDED)
    patch = {"status": current(ready=LATER)}
    assert installed.ask(who, "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == READINESS
    assert installed.ask("break-glass", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == ""


NOT_OPTED_IN = {"not annotated": "", "another value": "True", "blanks around it": " true "}


@pytest.mark.parametrize("case", NOT_OPTED_IN)
def test_what_is_not_opted_in_is_free(installed: Installed, case: str) -> None:
    value = NOT_OPTED_IN[case]
    notes = {"recovery_enabled": value} if value else {"other": "true"}
    path = composition(installed, UNDECIDED, **notes)
    patch = {"status": current(ready=LATER)}
    assert installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == ""


def test_what_is_being_deleted_is_free(installed: Installed) -> None:
    path = composition(installed, UNDECIDED, deleting=True)
    patch = {"status": current(ready=LATER, reconciled=LATER)}
    assert installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == ""


def test_other_namespaces_are_free(installed: Installed) -> None:
    path = "/apis/eno.azure.io/v1/namespaces/default/compositions"
    name = unique("composition")
    metadata = {"name": name, "annotations": {"eno.azure.io/recovery-enabled": "true"}}
    body = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": metadata}
    installed.put(path, body)
    patch = {"status": current(uuid="one", ready=LATER)}
    assert installed.ask("Eno", "PATCH", f"{path}/{name}/status", patch, content_type=MERGE).refused_by == ""


def test_metadata_and_spec_of_an_undecided_composition_are_free(installed: Installed) -> None:
    path = composition(installed, READY)
    patch = {"metadata": {"annotations": {"a": "b"}}, "spec": {"synthesizer": {"name": "other"}}}
    assert installed.ask("an administrator", "PATCH", path, patch, content_type=MERGE).refused_by == ""


SELECTOR = {"matchLabels": {"team": "web"}}


def test_with_a_selector_compositions_without_the_labels_are_free(installed: Installed) -> None:
    """As docs/install.md says to do with SEXTON_COMPOSITION_LABEL_SELECTOR."""
    selected, other = composition(installed, UNDECIDED), composition(installed, UNDECIDED)
    labels = {"metadata": {"labels": SELECTOR["matchLabels"]}}
    assert installed.ask("an administrator", "PATCH", selected, labels, content_type=MERGE, keep=True).status == 200

    def refused(path: str) -> bool:
        patch = {"status": current(ready=LATER)}
        return installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == READINESS

    assert refused(selected)
    assert refused(other)
    kind = "validatingadmissionpolicy"
    change = {"op": "add", "path": "/spec/matchConstraints/objectSelector", "value": SELECTOR}
    installed.run("patch", kind, READINESS, "--type=json", "-p", json.dumps([change]))
    try:
        until(lambda: not refused(other), "the selector is in force", seconds=60)
        assert refused(selected)
    finally:
        back = [{"op": "replace", "path": "/spec/matchConstraints/objectSelector", "value": {}}]
        installed.run("patch", kind, READINESS, "--type=json", "-p", json.dumps(back))
        until(lambda: refused(other), "the policy is as it was", seconds=60)


# Overflow slices


def slice_body(*, marker: str | None = "true") -> Json:
    labels = {} if marker is None else {"eno.azure.io/tombstone-recovery": marker}
    return {
        "apiVersion": "eno.azure.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": unique("slice"), "labels": labels, "finalizers": ["eno.azure.io/cleanup"]},
        "spec": {"resources": [{"manifest": "{}", "deleted": True}]},
    }


@pytest.fixture(scope="module")
def overflow(installed: Installed) -> str:
    """Path of an overflow slice that is there."""
    body = installed.put(SLICES, slice_body())
    return f"{SLICES}/{body['metadata']['name']}"


SLICE_WRITERS = [
    ("the worker", ""),
    ("Eno", ""),
    ("the garbage collector", ""),
    ("the namespace controller", ""),
    ("the controller manager", ""),
    ("break-glass", ""),
    ("the watcher", OVERFLOW),
    ("an administrator", OVERFLOW),
    ("a worker of another namespace", OVERFLOW),
    ("a user with the name of the break-glass group", OVERFLOW),
    ("somebody in a group with the worker's name", OVERFLOW),
]


@pytest.mark.parametrize(("who", "refused_by"), SLICE_WRITERS, ids=[who for who, _ in SLICE_WRITERS])
def test_a_marked_slice_is_changed_by_sexton_and_eno_only(
    installed: Installed, overflow: str, who: str, refused_by: str
) -> None:
    state = {"status": {"resources": [{"reconciled": True, "deleted": True}]}}
    answers = {
        "create": installed.ask(who, "POST", SLICES, slice_body()),
        "change": installed.ask(who, "PATCH", overflow, {"spec": {"resources": []}}, content_type=MERGE),
        "status": installed.ask(who, "PATCH", f"{overflow}/status", state, content_type=MERGE),
        "finalizer": installed.ask(who, "PATCH", overflow, {"metadata": {"finalizers": None}}, content_type=MERGE),
        "delete": installed.ask(who, "DELETE", overflow),
        "delete all": installed.ask(who, "DELETE", SLICES, labelSelector="eno.azure.io/tombstone-recovery=true"),
    }
    refusals = {name: answer.refused_by for name, answer in answers.items()}
    assert refusals == dict.fromkeys(answers, refused_by)


def test_taking_the_mark_off_does_not_set_a_slice_free(installed: Installed, overflow: str) -> None:
    for labels in ({"eno.azure.io/tombstone-recovery": None}, {"eno.azure.io/tombstone-recovery": "false"}):
        patch = {"metadata": {"labels": labels}, "spec": {"resources": []}}
        assert installed.ask("an administrator", "PATCH", overflow, patch, content_type=MERGE).refused_by == OVERFLOW


def test_putting_the_mark_on_makes_no_overflow_slice(installed: Installed) -> None:
    body = installed.put(SLICES, slice_body(marker=None))
    patch = {"metadata": {"labels": {"eno.azure.io/tombstone-recovery": "true"}}}
    path = f"{SLICES}/{body['metadata']['name']}"
    assert installed.ask("an administrator", "PATCH", path, patch, content_type=MERGE).refused_by == OVERFLOW


def test_whoever_rewrites_a_marked_slice_as_it_is_passes(installed: Installed, overflow: str) -> None:
    body = installed.ask("an administrator", "GET", overflow).object
    assert installed.ask("an administrator", "PUT", overflow, body).refused_by == ""


@pytest.mark.parametrize("marker", [None, "false", "True"])
def test_other_slices_are_free(installed: Installed, marker: str | None) -> None:
    assert installed.ask("an administrator", "POST", SLICES, slice_body(marker=marker)).refused_by == ""


# Parameters


@contextmanager
def parameters(installed: Installed, change: Json | None, in_force: Callable[[], bool]) -> Iterator[None]:
    """The policies' parameters changed (None: deleted) until the end of the block, and back in force after it."""
    if change is None:
        installed.ask("break-glass", "DELETE", PARAMETERS, keep=True)
    else:
        installed.ask("break-glass", "PATCH", PARAMETERS, {"data": change}, content_type=MERGE, keep=True)
    try:
        until(in_force, "the parameters are read", seconds=60)
        yield
    finally:
        shipped = json.dumps(installed.rendered.named("ConfigMap", "sexton-admission"))
        installed.run("apply", "--server-side", "--force-conflicts", "-f", "-", text=shipped)
        until(lambda: not in_force(), "the parameters are back", seconds=60)


def test_without_parameters_inventories_and_overflow_are_closed_and_the_rest_is_open(
    installed: Installed, stored: Json, overflow: str
) -> None:
    path = composition(installed, UNDECIDED)
    squatter = without_label(inventory("squatter"), annotations={})

    def worker_is_refused() -> bool:
        return installed.ask("the worker", "DELETE", path_of(stored)).status in (403, 422)

    with parameters(installed, None, worker_is_refused):
        for who in ("the worker", "an administrator", "break-glass"):
            assert installed.ask(who, "POST", SECRETS, inventory("new")).refused_by == INVENTORY
        until(lambda: installed.ask("Eno", "DELETE", overflow).refused_by == OVERFLOW, "overflow is closed", seconds=60)
        patch = {"status": current(ready=LATER)}
        for who, method, place, body in (
            ("Eno", "PATCH", f"{path}/status", patch),
            ("an administrator", "POST", SECRETS, squatter),
            ("the controller manager", "POST", f"{KUBE_SYSTEM_PATH}/configmaps", {"metadata": {"name": "any"}}),
            ("an administrator", "POST", SECRETS, {"metadata": {"name": "any"}}),
        ):
            content_type = MERGE if method == "PATCH" else JSON
            until(
                lambda: installed.ask(who, method, place, body, content_type=content_type).status < 300,  # noqa: B023
                f"{method} {place} is open",
                seconds=60,
            )


def test_a_parameter_that_is_empty_lets_nobody_through(installed: Installed, stored: Json, overflow: str) -> None:
    def break_glass_is_refused() -> bool:
        return installed.ask("break-glass", "DELETE", path_of(stored)).status in (403, 422)

    empty = {"breakGlass": "", "worker": "", "watcher": "", "eno": "", "collectors": ""}
    with parameters(installed, empty, break_glass_is_refused):
        for who in ("break-glass", "the worker", "somebody in a group without a name"):
            assert installed.ask(who, "DELETE", path_of(stored)).refused_by == INVENTORY
        for who in ("break-glass", "the worker", "somebody in a group without a name", "Eno", "the garbage collector"):
            until(lambda: installed.ask(who, "DELETE", overflow).status in (403, 422), f"{who} is refused", seconds=60)  # noqa: B023


def test_all_namespaces_can_be_covered(installed: Installed) -> None:
    path = "/apis/eno.azure.io/v1/namespaces/default/resourceslices"

    def covered() -> bool:
        return installed.ask("an administrator", "POST", path, slice_body()).status in (403, 422)

    metadata = {"name": unique("composition"), "annotations": {"eno.azure.io/recovery-enabled": "true"}}
    compositions = "/apis/eno.azure.io/v1/namespaces/default/compositions"
    installed.put(compositions, {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": metadata})
    place = f"{compositions}/{metadata['name']}/status"
    patch = {"status": current(uuid="one", ready=LATER)}

    with parameters(installed, {"allNamespaces": "true"}, covered):
        until(
            lambda: installed.ask("Eno", "PATCH", place, patch, content_type=MERGE).status == 403,
            "readiness is covered, too",
            seconds=60,
        )


# Eno's own CustomResourceDefinitions

RELEASED = ROOT.parent / "shared" / "data" / "eno-crds"


@pytest.fixture
def released(installed: Installed) -> Iterator[None]:
    """Eno's released definitions in place of those for development, until the end of the test."""

    files = [str(path) for path in sorted(RELEASED.glob("*.yaml"))]
    installed.run("replace", *(word for path in files for word in ("-f", path)))
    yield
    installed.run("replace", "-f", str(DEPLOY / "crds"))


@pytest.mark.skipif(not RELEASED.is_dir(), reason="the released Eno CRDs are not in ../shared/data/eno-crds")
@pytest.mark.usefixtures("released")
def test_the_policies_hold_for_the_released_definitions_which_know_no_decision(
    installed: Installed, overflow: str
) -> None:
    path = composition(installed, UNDECIDED)

    def ready_with_decision() -> str:
        patch = {"status": current(ready=LATER, tombstoneRecoveryStatus=decided("one"))}
        return installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by

    until(lambda: ready_with_decision() == READINESS, "the field is pruned, so nothing is ever decided", seconds=60)
    patch = {"status": current(attempts=2)}
    assert installed.ask("Eno", "PATCH", f"{path}/status", patch, content_type=MERGE).refused_by == ""
    assert installed.ask("an administrator", "DELETE", overflow).refused_by == OVERFLOW
    assert installed.ask("Eno", "DELETE", overflow).refused_by == ""
