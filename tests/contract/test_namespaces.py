"""Namespaces: their life, and what can be done in one that is on its way out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from eno import errors
from kube.cluster import Json
from kube.resources import EVENTS, LEASES, NAMESPACES, SECRETS, Resource
from tests.contract.kinds import PREFIX, PROBES, probe, with_metadata
from tests.contract.refusals import ALREADY_EXISTS, CONFLICT, NAMESPACE_TERMINATING, NOT_FOUND
from tests.contract.space import Space


@pytest.fixture
def terminating(space: Space) -> Iterator[Space]:
    """A namespace that is being deleted and cannot go: a finalizer holds one of its objects."""
    space.create(PROBES, with_metadata(probe("held"), finalizers=["example.com/hold"]))
    space.delete(PROBES, "held")  # as the namespace's controller would, so that it changes nothing any more
    space.cluster.delete(NAMESPACES, None, space.namespace)
    yield space
    space.merge_patch(PROBES, {"metadata": {"finalizers": None}}, "held")


def test_a_namespace_is_active_and_labelled_with_its_name(space: Space) -> None:
    found = space.cluster.get(NAMESPACES, None, space.namespace)
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": space.namespace}


def test_namespaces_of_a_cluster_are_there(space: Space) -> None:
    names = {item["metadata"]["name"] for item in json.loads(space.server.get("/api/v1/namespaces").body)["items"]}
    assert {"default", "kube-system", space.namespace} <= names


def test_a_namespace_that_is_taken_is_refused(space: Space) -> None:
    named = {"metadata": {"name": space.namespace}}
    assert space.refused(lambda h: h.cluster.create(NAMESPACES, None, named)).summary == ALREADY_EXISTS


def test_a_deleted_namespace_is_terminating_until_it_is_empty(terminating: Space) -> None:
    found = terminating.cluster.get(NAMESPACES, None, terminating.namespace)
    assert found["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in found["metadata"]
    assert "deletionGracePeriodSeconds" not in found["metadata"]


@pytest.mark.parametrize("kind", [PROBES, SECRETS, LEASES], ids=lambda kind: str(kind.kind))
def test_nothing_can_be_created_where_everything_is_deleted(terminating: Space, kind: Resource) -> None:
    body: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "new"}}
    refused = terminating.refused(lambda h: h.create(kind, body))
    assert refused.summary == NAMESPACE_TERMINATING
    assert refused.reply.causes == [("metadata.namespace", "NamespaceTerminating")]
    assert refused.reply.message == (
        f'{kind.qualified} "new" is forbidden: unable to create new content in namespace '
        f"{terminating.namespace} because it is being terminated"
    )


def test_no_event_can_be_created_either(terminating: Space) -> None:
    about = {"kind": "Probe", "name": "held", "namespace": terminating.namespace}
    body = {"metadata": {"name": "new"}, "involvedObject": about, "reason": "Tested"}
    assert terminating.refused(lambda h: h.create(EVENTS, body)).summary == NAMESPACE_TERMINATING


def test_what_is_there_can_still_be_written(terminating: Space) -> None:
    patched = terminating.merge_patch(PROBES, {"spec": {"text": "y"}}, "held")
    assert patched["spec"]["text"] == "y"


def test_a_deletion_of_a_namespace_takes_preconditions(space: Space) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    assert space.refused(lambda h: h.cluster.delete(NAMESPACES, None, space.namespace, uid=uid)).summary == CONFLICT
    absent = f"{PREFIX}-absent"
    assert space.refused(lambda h: h.cluster.delete(NAMESPACES, None, absent)).summary == NOT_FOUND


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_namespaces_of_the_system_stay(space: Space, name: str) -> None:
    refused = space.refused(lambda h: h.cluster.delete(NAMESPACES, None, name))
    assert (type(refused.error), refused.reply.code) == (errors.Forbidden, 403)
    assert refused.reply.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_a_namespace_cannot_be_reactivated(terminating: Space) -> None:
    body = terminating.cluster.get(NAMESPACES, None, terminating.namespace)
    body["status"] = {"phase": "Active"}
    updated = terminating.cluster.update(NAMESPACES, None, terminating.namespace, body)
    assert updated["status"]["phase"] == "Terminating"
