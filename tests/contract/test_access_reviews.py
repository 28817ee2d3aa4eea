"""SelfSubjectAccessReview: a question that is answered and not stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devcluster.reviews import ACCESS_REVIEWS
from eno import errors
from kube.cluster import Json
from tests.contract.plain import Ask, Reply
from tests.contract.servers import Server

TARGET = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SECRETS: Json = {"verb": "list", "resource": "secrets", "namespace": "kube-system"}


def body(**spec: Any) -> Json:
    return {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}


def post(server: Server, document: Any) -> Reply:
    return server.exchange(Ask("POST", TARGET, json.dumps(document).encode()))


def test_whoever_may_do_everything_is_told_so(server: Server) -> None:
    answer = server.cluster.create(ACCESS_REVIEWS, None, body(resourceAttributes=SECRETS))
    answer["metadata"].pop("managedFields", None)
    assert answer == {**body(resourceAttributes=SECRETS), "metadata": {}, "status": {"allowed": True}}


def test_what_is_asked_is_answered_back_without_what_is_empty(server: Server) -> None:
    given = {**SECRETS, "group": "", "subresource": ""}
    reply = post(server, body(resourceAttributes=given, nonResourceAttributes=None))
    assert (reply.code, reply.json["spec"]) == (201, {"resourceAttributes": SECRETS})


def test_one_object_can_be_asked_about(server: Server) -> None:
    one = {**SECRETS, "verb": "get", "name": "mine"}
    reply = post(server, body(resourceAttributes=one))
    assert (reply.code, reply.json["spec"], reply.json["status"]["allowed"]) == (201, {"resourceAttributes": one}, True)


def test_a_path_can_be_asked_about(server: Server) -> None:
    spec = {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
    reply = post(server, body(**spec))
    assert (reply.code, reply.json["spec"], reply.json["status"]) == (201, spec, {"allowed": True})


def test_kind_and_version_may_be_left_out(server: Server) -> None:
    assert post(server, {"spec": {"resourceAttributes": SECRETS}}).code == 201


def test_an_unknown_attribute_is_warned_of_and_dropped(server: Server) -> None:
    reply = post(server, body(resourceAttributes={**SECRETS, "who": "x"}))
    assert (reply.code, reply.json["spec"]) == (201, {"resourceAttributes": SECRETS})
    assert 'unknown field \\"spec.resourceAttributes.who\\"' in reply.headers["warning"]


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        pytest.param(body(), ("spec.resourceAttributes", "FieldValueInvalid"), id="nothing is asked"),
        pytest.param({"kind": ACCESS_REVIEWS.kind}, ("spec.resourceAttributes", "FieldValueInvalid"), id="no spec"),
        pytest.param(
            body(resourceAttributes=SECRETS, nonResourceAttributes={"path": "/", "verb": "get"}),
            ("spec.nonResourceAttributes", "FieldValueInvalid"),
            id="both are asked",
        ),
        pytest.param(
            {**body(resourceAttributes=SECRETS), "metadata": {"name": "mine"}},
            ("metadata", "FieldValueInvalid"),
            id="a name for it",
        ),
    ],
)
def test_a_question_that_is_not_exactly_one_is_invalid(server: Server, document: Json, cause: tuple[str, str]) -> None:
    reply = post(server, document)
    assert (reply.code, reply.reason, reply.causes) == (422, "Invalid", [cause])


def test_a_question_that_is_invalid_is_that_through_the_cluster_too(server: Server) -> None:
    with pytest.raises(errors.Invalid):
        server.cluster.create(ACCESS_REVIEWS, None, body())


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([], id="no object"),
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, id="another kind"),
        pytest.param(body(resourceAttributes={"verb": 1}), id="a verb that is no text"),
    ],
)
def test_what_is_no_review_is_a_bad_request(server: Server, document: Any) -> None:
    reply = post(server, document)
    assert (reply.code, reply.reason) == (400, "BadRequest")


def test_reviews_cannot_be_read_or_deleted(server: Server) -> None:
    assert [server.exchange(Ask(method, TARGET)).code for method in ("GET", "DELETE")] == [405, 405]
    assert server.get(f"{TARGET}/mine").code == 404
