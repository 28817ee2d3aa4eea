"""Where the store knowingly differs from a kube-apiserver, shown on both. `docs/devcluster.md` gives the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import pytest

from eno.errors import NotFound
from kube.cluster import Json
from kube.requests import MERGE_PATCH
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tests.contract.kinds import GROUP, PROBES, probe, with_metadata
from tests.contract.plain import Ask, Reply
from tests.contract.space import Space
from tests.support.waiting import until

Create: TypeAlias = Callable[..., Reply]
"""Takes a spec, and metadata by name."""

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


def test_a_schema_is_not_evaluated_in_full(space: Space) -> None:
    """Neither rules in CEL, nor formats other than date-time, nor combinations of schemas."""
    text: Json = {"type": "string"}
    rule = {"rule": "self.a == 'x'", "message": "a must be x"}
    fields: dict[str, Json] = {
        "ruled": {"type": "object", "properties": {"a": text}, "x-kubernetes-validations": [rule]},
        "formatted": {"type": "object", "properties": {"a": text | {"format": "ipv4"}}},
        "combined": {"type": "object", "properties": {"a": text}, "anyOf": [{"properties": {"a": {"enum": ["x"]}}}]},
    }
    with _served(space, {"type": "object", "properties": fields}) as create:
        codes = {field: create({field: {"a": "y"}}).code for field in fields}
    assert codes == dict.fromkeys(fields, 422 if space.server.real else 201)


def test_a_whole_fraction_is_no_integer_in_metadata(space: Space) -> None:
    body = json.dumps(with_metadata(probe(), generation=1)).replace('"generation": 1', '"generation": 1.0')
    reply = space.ask("POST", PROBES, body=body.encode())
    assert reply.code == (201 if space.server.real else 400)


def test_events_are_served_in_the_core_group_only(space: Space) -> None:
    reply = space.server.get(f"/apis/events.k8s.io/v1/namespaces/{space.namespace}/events")
    assert reply.code == (200 if space.server.real else 404)


@pytest.mark.parametrize("plural", ["pods", "services", "nodes"])
def test_workloads_are_not_served(space: Space, plural: str) -> None:
    assert space.server.get(f"/api/v1/{plural}").code == (200 if space.server.real else 404)


def test_nothing_is_served_in_protobuf(space: Space) -> None:
    reply = space.ask("GET", SECRETS, accept="application/vnd.kubernetes.protobuf")
    assert reply.code == (200 if space.server.real else 406)


def test_nothing_is_answered_in_yaml(space: Space) -> None:
    assert space.ask("GET", SECRETS, accept="application/yaml").code == (200 if space.server.real else 406)


def test_there_are_no_schemas_to_explain(space: Space) -> None:
    document = space.server.get("/openapi/v3/api/v1").json
    assert ("io.k8s.api.core.v1.Secret" in document.get("components", {}).get("schemas", {})) is space.server.real


def test_a_definition_serves_one_version_and_takes_its_objects_with_it(space: Space) -> None:
    with _served(space, {"type": "object"}, more=({"name": "v1beta1", "served": True, "storage": False},)) as create:
        held = create({}, finalizers=["example.com/hold"]).json["metadata"]["name"]
        target = f"/apis/{GROUP}/v1beta1/namespaces/{space.namespace}/samples"
        assert space.server.get(target).code == (200 if space.server.real else 404)
        space.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, f"samples.{GROUP}")
        stays = space.server.get(f"/apis/{GROUP}/v1/namespaces/{space.namespace}/samples/{held}")
        assert stays.code == (200 if space.server.real else 404)
        if space.server.real:
            release = b'{"metadata":{"finalizers":null}}'
            target = f"/apis/{GROUP}/v1/namespaces/{space.namespace}/samples/{held}"
            space.server.exchange(Ask("PATCH", target, release, content_type=MERGE_PATCH))


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


@contextmanager
def _served(space: Space, spec: Json, more: tuple[Json, ...] = ()) -> Iterator[Create]:
    """A kind with this schema, and more versions, for the block: how to create one of it."""
    name = f"samples.{GROUP}"
    schema = {"type": "object", "properties": {"spec": spec}}
    versions = [{"name": "v1", "served": True, "storage": True}, *more]
    versions = [version | {"schema": {"openAPIV3Schema": schema}} for version in versions]
    names = {"plural": "samples", "kind": "Sample"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }
    target = f"/apis/{GROUP}/v1/namespaces/{space.namespace}/samples"

    def create(value: Json, **metadata: Any) -> Reply:
        metadata = {"generateName": "a-", **metadata}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Sample", "metadata": metadata, "spec": value}
        return space.server.exchange(Ask("POST", target, json.dumps(body).encode()))

    space.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
    try:
        until(lambda: space.server.get(target).code == 200, "samples are served")
        yield create
    finally:
        with suppress(NotFound):
            space.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)
        until(lambda: not _is_there(space, name), "the definition is gone")


def _is_there(space: Space, definition: str) -> bool:
    return space.server.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}").code == 200
