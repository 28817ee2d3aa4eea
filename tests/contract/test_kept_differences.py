"""Where the store knowingly differs from a kube-apiserver, shown on both. `docs/devcluster.md` gives the reasons."""

from __future__ import annotations

import json

import pytest

from kube.cluster import Json
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tests.contract.kinds import GROUP, PREFIX, PROBES, probe, with_metadata
from tests.contract.plain import Ask
from tests.contract.space import Space
from tests.support.waiting import until

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"


def test_who_wrote_which_field_is_not_recorded(space: Space) -> None:
    assert ("managedFields" in space.probe()["metadata"]) is space.server.real


def test_there_is_no_server_side_apply(space: Space) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}).encode()
    reply = space.ask("PATCH", SECRETS, "a", "fieldManager=contract", body, content_type=APPLY)
    assert reply.code == (201 if space.server.real else 415)


def test_a_strategic_merge_patch_knows_no_directives(space: Space) -> None:
    space.create(SECRETS, {"metadata": {"name": "a", "labels": {"a": "b"}}})
    body = json.dumps({"metadata": {"labels": {"$patch": "delete"}}}).encode()
    reply = space.ask("PATCH", SECRETS, "a", body=body, content_type=STRATEGIC)
    assert reply.code == (200 if space.server.real else 400)


def test_everybody_may_do_everything(space: Space) -> None:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    body = review | {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}}
    target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    reply = space.server.exchange(Ask("POST", target, json.dumps(body).encode()))
    assert reply.json["status"]["allowed"] is True
    roles = space.server.get("/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=1")
    assert roles.code == (200 if space.server.real else 404)


def test_a_fault_that_is_found_twice_is_told_once(space: Space) -> None:
    space.probe()
    refused = space.refused(lambda h: h.merge_patch(PROBES, {"metadata": {"labels": {"a": "b c"}}}))
    causes = refused.reply.status["details"]["causes"]
    assert len({json.dumps(cause) for cause in causes}) == 1
    assert (len(causes) > 1) is space.server.real


def test_a_bookmark_comes_at_the_end_even_when_nothing_happened(space: Space) -> None:
    version = space.probe()["metadata"]["resourceVersion"]
    events = list(space.watch(PROBES, version, seconds=3))
    assert [event.type for event in events] == ([] if space.server.real else ["BOOKMARK"])


def test_rules_in_cel_are_not_evaluated(space: Space) -> None:
    rule = {"rule": "self.a == 'x'", "message": "a must be x"}
    spec: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]}
    assert _accepts(space, "ruled", spec, {"a": "y"}) is not space.server.real


def test_formats_other_than_date_time_are_not_looked_at(space: Space) -> None:
    spec: Json = {"type": "object", "properties": {"a": {"type": "string", "format": "ipv4"}}}
    assert _accepts(space, "formatted", spec, {"a": "y"}) is not space.server.real


def test_combined_schemas_are_not_looked_at(space: Space) -> None:
    part = {"properties": {"a": {"enum": ["x"]}}}
    spec: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [part]}
    assert _accepts(space, "combined", spec, {"a": "y"}) is not space.server.real


def test_events_are_served_in_the_core_group_only(space: Space) -> None:
    reply = space.server.get(f"/apis/events.k8s.io/v1/namespaces/{space.namespace}/events")
    assert reply.code == (200 if space.server.real else 404)


@pytest.mark.parametrize("plural", ["pods", "services", "nodes"])
def test_workloads_are_not_served(space: Space, plural: str) -> None:
    assert space.server.get(f"/api/v1/{plural}").code == (200 if space.server.real else 404)


def test_nothing_is_served_in_protobuf(space: Space) -> None:
    reply = space.ask("GET", SECRETS, accept="application/vnd.kubernetes.protobuf")
    assert reply.code == (200 if space.server.real else 406)


def test_an_object_of_a_built_in_kind_is_not_measured(space: Space) -> None:
    """kube-apiserver stores those in a denser form, and etcd's limit counts that."""
    labels = {f"example.com/{index}": "x" * 63 for index in range(22_000)}
    reply = space.ask("POST", SECRETS, body=json.dumps({"metadata": {"name": "a", "labels": labels}}).encode())
    assert reply.code == (500 if space.server.real else 201)


@pytest.mark.servers("http", "kube-apiserver")
def test_owners_and_namespaces_are_swept_without_a_controller_manager(space: Space) -> None:
    """A kube-apiserver by itself leaves them: nothing to wait for there, so that side is only looked at once."""
    owner = space.probe("owner")
    reference = {"apiVersion": PROBES.api_version, "kind": "Probe", "name": "owner", "uid": owner["metadata"]["uid"]}
    space.create(PROBES, with_metadata(probe("child"), ownerReferences=[reference]))
    space.delete(PROBES, "owner")
    if space.server.real:
        assert space.names(PROBES) == ["child"]
    else:
        until(lambda: space.names(PROBES) == [], "the child is swept")


def _accepts(space: Space, plural: str, spec: Json, value: Json) -> bool:
    """Whether a kind with this schema takes this spec."""
    name = f"{plural}.{GROUP}"
    kind = plural.capitalize()
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }
    space.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
    try:
        target = f"/apis/{GROUP}/v1/namespaces/{space.namespace}/{plural}"
        until(lambda: space.server.get(target).code == 200, f"{plural} are served")
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": PREFIX}, "spec": value}
        reply = space.server.exchange(Ask("POST", target, json.dumps(body).encode()))
        assert reply.code in (201, 422), reply.body
        return reply.code == 201
    finally:
        space.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)
