"""What a create does, and how it is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from eno.times import parse_time
from kube.cluster import Json
from kube.resources import SECRETS
from tests.contract.kinds import PLAIN_PROBES, PROBES, probe, with_metadata
from tests.contract.refusals import ALREADY_EXISTS, BAD_REQUEST, INTERNAL, INVALID, NOT_FOUND, Summary
from tests.contract.space import Call, Here, Space


def secret(name: str = "a", **members: object) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **members}


def test_the_server_fills_in_what_only_it_decides(space: Space) -> None:
    created = space.probe("a", text="x")
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"]) == (PROBES.api_version, PROBES.kind)
    assert (metadata["name"], metadata["namespace"], metadata["generation"]) == ("a", space.namespace, 1)
    assert str(UUID(metadata["uid"])) == metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert abs(parse_time(metadata["creationTimestamp"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert space.get(PROBES) == created


def test_what_a_client_sets_of_that_is_overwritten(space: Space) -> None:
    wish = {"uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    wish |= {"deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    metadata = space.create(PROBES, with_metadata(probe(), **wish))["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2001-01-01T00:00:00Z"
    assert not {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} & metadata.keys()


def test_what_is_empty_is_not_kept(space: Space) -> None:
    empty: Json = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    metadata = space.create(PROBES, with_metadata(probe(), **empty))["metadata"]
    assert not empty.keys() & metadata.keys()


def test_a_built_in_kind_has_no_generation_and_needs_no_type(space: Space) -> None:
    created = space.create(SECRETS, {"metadata": {"name": "a"}})
    assert (created["apiVersion"], created["kind"], created["type"]) == ("v1", "Secret", "Opaque")
    assert "generation" not in created["metadata"]


def test_a_generated_name_is_the_base_and_five_characters(space: Space) -> None:
    body = with_metadata(probe(), name=None, generateName="slice-")
    names = {space.create(PROBES, body)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"slice-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_a_generated_name_is_cut_to_fit(space: Space) -> None:
    base = "x" * 70
    metadata = space.create(PROBES, with_metadata(probe(), name=None, generateName=base))["metadata"]
    assert (len(metadata["name"]), metadata["generateName"]) == (63, base)


def test_a_name_beats_generate_name(space: Space) -> None:
    metadata = space.create(PROBES, with_metadata(probe(), generateName="other-"))["metadata"]
    assert (metadata["name"], metadata["generateName"]) == ("a", "other-")


def test_names_are_taken_per_kind_and_namespace(space: Space) -> None:
    space.probe("same")
    space.create(PLAIN_PROBES, probe("same", kind=PLAIN_PROBES))
    space.create(SECRETS, secret("same"))
    assert space.names(PROBES) == space.names(PLAIN_PROBES) == space.names(SECRETS) == ["same"]


def test_a_resource_version_of_zero_is_none(space: Space) -> None:
    assert space.create(PROBES, with_metadata(probe(), resourceVersion="0"))["metadata"]["resourceVersion"] != "0"


@pytest.mark.parametrize(
    ("call", "summary", "causes"),
    [
        pytest.param(lambda h: h.create(PROBES, probe("taken")), ALREADY_EXISTS, [], id="the name is taken"),
        pytest.param(
            lambda h: h.create(PROBES, probe("taken", count=99)),
            INVALID,
            [("spec.count", "FieldValueInvalid")],
            id="the name is taken and the object is invalid",
        ),
        pytest.param(
            lambda h: h.create(PROBES, with_metadata(probe(), name=None)),
            INVALID,
            [("metadata.name", "FieldValueRequired")],
            id="there is no name",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, with_metadata(secret(), name=None)),
            INVALID,
            [("metadata.name", "FieldValueRequired")],
            id="a built-in kind has no name",
        ),
        pytest.param(
            lambda h: h.create(PROBES, with_metadata(probe(), namespace="elsewhere")),
            BAD_REQUEST,
            [],
            id="the body names another namespace",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, with_metadata(secret(), namespace="elsewhere")),
            BAD_REQUEST,
            [],
            id="the body of a built-in kind names another namespace",
        ),
        pytest.param(
            lambda h: h.create(PROBES, probe() | {"kind": "Other"}),
            INVALID,
            [("kind", "FieldValueInvalid")],
            id="the body is of another kind",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret() | {"kind": "ConfigMap"}),
            BAD_REQUEST,
            [],
            id="the body is of another built-in kind",
        ),
        pytest.param(
            lambda h: h.create(PROBES, probe() | {"apiVersion": "v1"}),
            BAD_REQUEST,
            [],
            id="the body is of another version",
        ),
        pytest.param(lambda h: h.create(PROBES, probe() | {"kind": ""}), BAD_REQUEST, [], id="the body has no kind"),
        pytest.param(
            lambda h: h.create(PROBES, probe() | {"apiVersion": ""}), BAD_REQUEST, [], id="the body has no version"
        ),
        pytest.param(
            lambda h: h.create(PROBES, with_metadata(probe(), resourceVersion="1")),
            INTERNAL,
            [],
            id="the body has a resourceVersion",
        ),
        pytest.param(
            lambda h: h.create(PROBES, with_metadata(probe(), labels={"a": 1})),
            BAD_REQUEST,
            [],
            id="the metadata does not decode",
        ),
        pytest.param(
            lambda h: h.create(PROBES, probe() | {"metadata": "x"}), BAD_REQUEST, [], id="the metadata is no object"
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret(data={"a": 1})), BAD_REQUEST, [], id="a built-in field does not decode"
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret(data={"a": "%"})), BAD_REQUEST, [], id="the data are not base64"
        ),
        pytest.param(
            lambda h: Here(h.cluster, f"{h.namespace}-absent").create(PROBES, probe()),
            NOT_FOUND,
            [],
            id="the namespace is missing",
        ),
        pytest.param(
            lambda h: Here(h.cluster, f"{h.namespace}-absent").create(SECRETS, secret()),
            NOT_FOUND,
            [],
            id="the namespace of a built-in kind is missing",
        ),
        pytest.param(
            lambda h: Here(h.cluster, f"{h.namespace}-absent").create(PROBES, probe(count=99)),
            NOT_FOUND,
            [],
            id="the namespace is missing and the object is invalid",
        ),
    ],
)
def test_a_create_is_refused(space: Space, call: Call, summary: Summary, causes: list[tuple[str, str]]) -> None:
    space.probe("taken")
    refused = space.refused(call)
    assert refused.summary == summary
    assert refused.reply.causes == causes


def test_a_taken_name_says_whose_it_is(space: Space) -> None:
    space.probe("taken")
    reply = space.refused(lambda h: h.create(PROBES, probe("taken"))).reply
    assert reply.message == f'{PROBES.qualified} "taken" already exists'
    assert reply.status["details"] == {"name": "taken", "group": PROBES.group, "kind": PROBES.plural}


def test_a_name_that_is_being_deleted_is_still_taken(space: Space) -> None:
    space.create(PROBES, with_metadata(probe(), finalizers=["example.com/hold"]))
    space.delete(PROBES)
    refused = space.refused(lambda h: h.create(PROBES, probe()))
    assert refused.summary == ALREADY_EXISTS
    assert refused.reply.message.startswith("object is being deleted: ")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"text"', b"\xff", b'{"metadata":{"name":"b"}} trailing'],
    ids=["empty", "cut off", "an array", "a string", "not UTF-8", "followed by something"],
)
@pytest.mark.parametrize("kind", [PROBES, SECRETS], ids=lambda kind: str(kind.kind))
def test_a_body_that_is_no_object_is_a_bad_request(space: Space, kind: object, body: bytes) -> None:
    reply = space.ask("POST", kind, body=body)  # type: ignore[arg-type]
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert space.state() == []


def test_null_is_a_built_in_object_without_a_name(space: Space) -> None:
    reply = space.ask("POST", SECRETS, body=b"null")
    assert (reply.code, reply.causes) == (422, [("metadata.name", "FieldValueRequired")])
    assert space.ask("POST", PROBES, body=b"null").code == 400


def test_a_dry_run_answers_and_writes_nothing(space: Space) -> None:
    body = b'{"metadata":{"name":"dry"}}'
    reply = space.ask("POST", SECRETS, query="dryRun=All", body=body)
    assert reply.code == 201
    assert reply.json["metadata"]["name"] == "dry"
    assert space.state() == []
