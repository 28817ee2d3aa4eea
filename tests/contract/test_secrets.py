"""Secrets, in which inventories are stored: data, types, immutability, and how much fits."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kube.cluster import Json
from kube.resources import SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import INVALID, TOO_LARGE
from tests.contract.space import Space

LIMIT = 1_048_576
DATA = {"a": "dg==", "b": ""}
FORBIDDEN_FIELD = "FieldValueForbidden"


def secret(name: str = "a", **members: object) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **members}


def data_of(size: int) -> dict[str, str]:
    return {"a": base64.b64encode(b"x" * size).decode()}


@pytest.fixture
def immutable(space: Space) -> Json:
    return space.create(SECRETS, secret(immutable=True, data=DATA))


def test_a_secret_is_opaque_unless_it_says_otherwise(space: Space) -> None:
    assert space.create(SECRETS, secret("a"))["type"] == "Opaque"
    assert space.create(SECRETS, secret("b", type=""))["type"] == "Opaque"
    assert space.create(SECRETS, secret("c", type="example.com/x"))["type"] == "example.com/x"


def test_text_is_stored_as_data(space: Space) -> None:
    created = space.create(SECRETS, secret(data=DATA, stringData={"a": "w", "c": "ü"}))
    assert created["data"] == {"a": "dw==", "b": "", "c": base64.b64encode("ü".encode()).decode()}
    assert "stringData" not in created


def test_data_are_written_back_canonically(space: Space) -> None:
    assert space.create(SECRETS, secret(data={"a": "dm\nF\r\nsdWU="}))["data"] == {"a": "dmFsdWU="}


def test_empty_data_are_left_out(space: Space) -> None:
    assert "data" not in space.create(SECRETS, secret(data={}))


@pytest.mark.parametrize(
    ("call", "causes"),
    [
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", data={"a b": ""})),
            [("data[a b]", "FieldValueInvalid")],
            id="a key with a space",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", data={"..": ""})),
            [("data[..]", "FieldValueInvalid")],
            id="a key of dots",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", data={"": ""})),
            [("data[]", "FieldValueInvalid")],
            id="an empty key",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", data={"k" * 254: ""})),
            [(f"data[{'k' * 254}]", "FieldValueInvalid")],
            id="a key that is too long",
        ),
        pytest.param(
            lambda h: h.merge_patch(SECRETS, {"type": "example.com/x"}),
            [("type", "FieldValueInvalid")],
            id="another type",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", type="kubernetes.io/tls")),
            [("data[tls.crt]", "FieldValueRequired"), ("data[tls.key]", "FieldValueRequired")],
            id="a certificate without one",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", type="kubernetes.io/basic-auth")),
            [("data[password]", "FieldValueRequired"), ("data[username]", "FieldValueRequired")],
            id="a login without one",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", type="kubernetes.io/dockercfg", data={".dockercfg": "eA=="})),
            [("data[.dockercfg]", "FieldValueInvalid")],
            id="a registry login that is no JSON",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, secret("b", type="kubernetes.io/service-account-token")),
            [("metadata.annotations[kubernetes.io/service-account.name]", "FieldValueRequired")],
            id="a token of nobody",
        ),
        pytest.param(
            lambda h: h.create(SECRETS, with_metadata(secret("b"), finalizers=["plain"])),
            [("metadata.finalizers[0]", "FieldValueInvalid")],
            id="a finalizer without a domain",
        ),
    ],
)
def test_a_secret_is_refused(space: Space, call: Any, causes: list[tuple[str, str]]) -> None:
    space.create(SECRETS, secret(data=DATA))
    refused = space.refused(call)
    assert (refused.summary, refused.reply.causes) == (INVALID, causes)


def test_a_custom_kind_may_have_a_finalizer_without_a_domain(space: Space) -> None:
    assert space.create(PROBES, with_metadata(probe(), finalizers=["plain"]))["metadata"]["finalizers"] == ["plain"]


@pytest.mark.parametrize(
    ("patch", "causes"),
    [
        pytest.param({"data": {"a": "dw=="}}, [("data", FORBIDDEN_FIELD)], id="changed data"),
        pytest.param({"data": {"c": "dw=="}}, [("data", FORBIDDEN_FIELD)], id="added data"),
        pytest.param({"data": {"a": None}}, [("data", FORBIDDEN_FIELD)], id="removed data"),
        pytest.param({"data": None}, [("data", FORBIDDEN_FIELD)], id="no data"),
        pytest.param({"stringData": {"a": "w"}}, [("data", FORBIDDEN_FIELD)], id="text"),
        pytest.param({"immutable": False}, [("immutable", FORBIDDEN_FIELD)], id="mutable again"),
        pytest.param({"immutable": None}, [("immutable", FORBIDDEN_FIELD)], id="immutable taken away"),
        pytest.param(
            {"immutable": None, "data": {"a": "dw=="}},
            [("data", FORBIDDEN_FIELD), ("immutable", FORBIDDEN_FIELD)],
            id="mutable and changed at once",
        ),
    ],
)
@pytest.mark.usefixtures("immutable")
def test_what_is_immutable_stays(space: Space, patch: Json, causes: list[tuple[str, str]]) -> None:
    refused = space.refused(lambda h: h.merge_patch(SECRETS, patch))
    assert (refused.summary, refused.reply.causes) == (INVALID, causes)


def test_the_metadata_of_what_is_immutable_can_be_changed(space: Space, immutable: Json) -> None:
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": immutable["metadata"]["resourceVersion"]}
    add = {"op": "add", "path": "/metadata/annotations", "value": {"example.com/settled": "true"}}
    patched = space.json_patch(SECRETS, test, add)
    assert patched["metadata"]["annotations"] == {"example.com/settled": "true"}
    assert patched["data"] == DATA
    assert space.refused(lambda h: h.json_patch(SECRETS, test, add)).summary == INVALID


def test_what_is_immutable_can_be_deleted(space: Space, immutable: Json) -> None:
    space.delete(SECRETS, uid=immutable["metadata"]["uid"])
    assert space.state() == []


def test_a_secret_can_be_made_immutable_later(space: Space) -> None:
    space.create(SECRETS, secret(data=DATA))
    assert space.merge_patch(SECRETS, {"immutable": True, "data": {"a": "dw=="}})["immutable"] is True
    assert space.refused(lambda h: h.merge_patch(SECRETS, {"data": {"a": "dg=="}})).summary == INVALID


def test_a_mebibyte_of_data_fits_and_not_a_byte_more(space: Space) -> None:
    space.create(SECRETS, secret("full", data=data_of(LIMIT)))
    space.create(SECRETS, secret("halves", data={"a": data_of(LIMIT // 2)["a"], "b": data_of(LIMIT // 2)["a"]}))
    refused = space.refused(lambda h: h.create(SECRETS, secret("more", data=data_of(LIMIT + 1))))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("data", "FieldValueTooLong")])
    refused = space.refused(lambda h: h.merge_patch(SECRETS, {"stringData": {"b": "x"}}, "full"))
    assert (refused.summary, refused.reply.causes) == (INVALID, [("data", "FieldValueTooLong")])


def test_a_request_of_more_than_three_mebibytes_is_refused(space: Space) -> None:
    refused = space.refused(lambda h: h.create(PROBES, probe(text="x" * (3 * LIMIT))))
    assert refused.summary == TOO_LARGE


def test_a_custom_object_that_etcd_does_not_take_is_an_error_of_the_server(space: Space) -> None:
    """Larger than etcd's 1.5 MiB, and below the limit of a request."""
    refused = space.refused(lambda h: h.create(PROBES, probe(text="x" * (LIMIT * 7 // 4))))
    assert (refused.reply.code, refused.reply.reason) == (500, "")
    assert "etcdserver: request is too large" in refused.reply.message
    space.probe("b", text="x" * LIMIT)


def test_a_patch_makes_no_object_too_large(space: Space) -> None:
    space.probe(items=[{"manifest": "x" * LIMIT}])
    add = {"op": "add", "path": "/spec/items/-", "value": {"manifest": "x" * LIMIT}}
    assert space.refused(lambda h: h.json_patch(PROBES, add)).reply.code == 500


def test_a_body_of_json_may_hold_anything_utf_8_has(space: Space) -> None:
    text = "ä\u2028<&>\x7f😀"
    reply = space.ask("POST", PROBES, body=json.dumps(probe(text=text)).encode())
    assert reply.json["spec"]["text"] == space.get(PROBES)["spec"]["text"] == text
