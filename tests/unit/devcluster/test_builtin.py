"""Secrets, ConfigMaps, Events and Leases: the rules of the real ones."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from devcluster.builtin import CONFIG_MAPS, DATA_LIMIT
from devcluster.patches import apply_merge_patch
from devcluster.store import Store
from kube.cluster import Json
from kube.resources import EVENTS, LEASES, SECRETS, Resource
from tests.unit.devcluster.factories import kind_of, new_store, refusal, secret


@pytest.fixture
def store() -> Store:
    return new_store(definitions_too=False)


def created(store: Store, body: Json, resource: Resource = SECRETS) -> Json:
    kind = kind_of(store, resource)
    return store.create(kind, "default", body).stored.decoded(kind)


def patched(store: Store, patch: Json, resource: Resource = SECRETS, name: str = "inventory") -> Json:
    kind = kind_of(store, resource)
    result = store.patch(kind, "default", name, lambda document: apply_merge_patch(document, patch))
    return result.stored.decoded(kind)


def b64(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


class TestSecrets:
    """Data, type, size and immutability."""

    def test_string_data_is_merged_into_the_data(self, store: Store) -> None:
        body = created(store, secret(data={"a": "YQ=="}, stringData={"a": "other", "b": "bb"}))
        assert body["data"] == {"a": "b3RoZXI=", "b": "YmI="}
        assert "stringData" not in body

    def test_the_type_is_opaque_unless_given(self, store: Store) -> None:
        assert created(store, secret())["type"] == "Opaque"
        assert created(store, secret("typed", type="eno.azure.io/x"))["type"] == "eno.azure.io/x"

    def test_the_body_may_leave_out_what_the_url_says(self, store: Store) -> None:
        body = created(store, {"metadata": {"name": "bare"}})
        assert (body["apiVersion"], body["kind"]) == ("v1", "Secret")

    def test_line_breaks_in_base64_are_ignored(self, store: Store) -> None:
        assert created(store, secret(data={"a": "YQ\n==\r\n"}))["data"] == {"a": "YQ=="}

    def test_a_null_value_is_empty(self, store: Store) -> None:
        assert created(store, secret(data={"a": None}))["data"] == {"a": ""}

    BAD: dict[str, tuple[int, str, Json]] = {  # noqa: RUF012
        "no base64": (400, "BadRequest", {"data": {"a": "%%%"}}),
        "base64 without padding": (400, "BadRequest", {"data": {"a": "YQ"}}),
        "base64 for URLs": (400, "BadRequest", {"data": {"a": "-_-_"}}),
        "a number": (400, "BadRequest", {"data": {"a": 1}}),
        "a list": (400, "BadRequest", {"data": []}),
        "a type that is a number": (400, "BadRequest", {"type": 5}),
        "a key with a blank": (422, "Invalid", {"data": {"a b": "YQ=="}}),
        "a key of two dots": (422, "Invalid", {"data": {"..": "YQ=="}}),
        "a key that is too long": (422, "Invalid", {"data": {"a" * 254: "YQ=="}}),
        "a finalizer without a domain": (422, "Invalid", {"metadata": {"name": "x", "finalizers": ["mine"]}}),
        "a token of nobody": (422, "Invalid", {"type": "kubernetes.io/service-account-token"}),
        "a TLS Secret without its keys": (422, "Invalid", {"type": "kubernetes.io/tls"}),
        "another kind": (400, "BadRequest", {"kind": "ConfigMap"}),
        "another version": (400, "BadRequest", {"apiVersion": "v9"}),
    }

    @pytest.mark.parametrize(("code", "reason", "members"), BAD.values(), ids=BAD)
    def test_a_bad_secret_is_refused(self, store: Store, code: int, reason: str, members: Json) -> None:
        with refusal(code, reason):
            created(store, {**secret(), **members})

    def test_a_bad_value_in_a_patch_is_invalid(self, store: Store) -> None:
        created(store, secret())
        with refusal(422, "Invalid"):
            patched(store, {"data": {"a": "%%%"}})

    def test_data_of_exactly_the_limit_fits(self, store: Store) -> None:
        half = DATA_LIMIT // 2
        created(store, secret(data={"a": b64(half), "b": b64(half)}))

    @pytest.mark.parametrize("sizes", [(DATA_LIMIT + 1,), (DATA_LIMIT, 1)])
    def test_a_byte_more_does_not(self, store: Store, sizes: tuple[int, ...]) -> None:
        with refusal(422, "Invalid") as error:
            created(store, secret(data={f"k{index}": b64(size) for index, size in enumerate(sizes)}))
        assert error.value.body["details"]["causes"] == [
            {
                "reason": "FieldValueTooLong",
                "message": "Too long: may not be more than 1048576 bytes",
                "field": "data",
            }
        ]

    def test_the_type_is_fixed(self, store: Store) -> None:
        created(store, secret())
        with refusal(422, "Invalid"):
            patched(store, {"type": "other"})
        assert patched(store, {"type": None})["type"] == "Opaque"

    IMMUTABLE: dict[str, Json] = {  # noqa: RUF012
        "its data": {"data": {"a": "Yg=="}},
        "its data, by string": {"stringData": {"a": "b"}},
        "its immutability": {"immutable": False},
        "the absence of it": {"immutable": None},
    }

    @pytest.mark.parametrize("patch", IMMUTABLE.values(), ids=IMMUTABLE)
    def test_an_immutable_secret_keeps(self, store: Store, patch: Json) -> None:
        before = created(store, secret(data={"a": "YQ=="}, immutable=True))
        with refusal(422, "Invalid"):
            patched(store, patch)
        kind = kind_of(store, SECRETS)
        assert store.find(kind, "default", "inventory").decoded(kind) == before

    def test_an_immutable_secret_takes_metadata(self, store: Store) -> None:
        created(store, secret(data={"a": "YQ=="}, immutable=True))
        body = patched(store, {"metadata": {"labels": {"a": "b"}}})
        assert body["metadata"]["labels"] == {"a": "b"}

    def test_unknown_fields_are_dropped_with_a_warning(self, store: Store) -> None:
        kind = kind_of(store, SECRETS)
        result = store.create(kind, "default", {**secret(), "extra": 1})
        assert result.warnings == ('unknown field "extra"',)
        assert "extra" not in result.stored.decoded(kind)


def test_a_config_map_has_the_same_limit_in_bytes(store: Store) -> None:
    body: Json = {"metadata": {"name": "a"}, "data": {"a": "é" * (DATA_LIMIT // 2)}}
    created(store, body, CONFIG_MAPS)
    with refusal(422, "Invalid"):
        created(store, {"metadata": {"name": "b"}, "data": {"a": "é" * (DATA_LIMIT // 2) + "x"}}, CONFIG_MAPS)


def event(name: str = "e", **members: Any) -> Json:
    about = {"kind": "Composition", "namespace": "default", "name": "web", "uid": "u"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Recovered", **members}


class TestEvents:
    """Events are kept as the real server keeps them."""

    def test_the_members_that_are_never_left_out(self, store: Store) -> None:
        body = created(store, event(), EVENTS)
        members = ("eventTime", "reportingComponent", "reportingInstance", "source")
        assert [body[name] for name in members] == [None, "", "", {}]

    BAD: dict[str, tuple[int, str, Json]] = {  # noqa: RUF012
        "about another namespace": (422, "Invalid", event(involvedObject={"namespace": "other", "name": "x"})),
        "a count that is a word": (400, "BadRequest", event(count="x")),
        "a time that is a word": (400, "BadRequest", event(firstTimestamp="now")),
        "the new kind without its members": (422, "Invalid", event(eventTime="2026-01-31T12:00:00.000000Z")),
    }

    @pytest.mark.parametrize(("code", "reason", "body"), BAD.values(), ids=BAD)
    def test_a_bad_event_is_refused(self, store: Store, code: int, reason: str, body: Json) -> None:
        with refusal(code, reason):
            created(store, body, EVENTS)

    def test_the_new_kind_of_event_is_taken(self, store: Store) -> None:
        body = event(
            eventTime="2026-01-31T12:00:00.000000Z",
            action="Bury",
            reportingComponent="eno.azure.io/sexton",
            reportingInstance="worker-0",
        )
        assert created(store, body, EVENTS)["eventTime"] == "2026-01-31T12:00:00.000000Z"


def lease(**spec: Any) -> Json:
    return {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", **spec}}


LEASE_FAULTS: dict[str, tuple[int, str, Json]] = {
    "milliseconds": (400, "BadRequest", lease(renewTime="2026-01-31T12:00:00.123Z")),
    "whole seconds": (400, "BadRequest", lease(renewTime="2026-01-31T12:00:00Z")),
    "a time that is a word": (400, "BadRequest", lease(renewTime="now")),
    "no duration": (422, "Invalid", lease(leaseDurationSeconds=0)),
    "negative transitions": (422, "Invalid", lease(leaseTransitions=-1)),
    "a duration that is a word": (400, "BadRequest", lease(leaseDurationSeconds="x")),
}


@pytest.mark.parametrize(("code", "reason", "body"), LEASE_FAULTS.values(), ids=LEASE_FAULTS)
def test_a_bad_lease_is_refused(store: Store, code: int, reason: str, body: Json) -> None:
    with refusal(code, reason):
        created(store, body, LEASES)


def test_times_are_kept_in_utc(store: Store) -> None:
    body = created(store, lease(renewTime="2026-01-31T12:00:00.123456+02:00"), LEASES)
    assert body["spec"]["renewTime"] == "2026-01-31T10:00:00.123456Z"
    body = created(store, event(firstTimestamp="2026-01-31T12:00:00.5+02:00"), EVENTS)
    assert body["firstTimestamp"] == "2026-01-31T10:00:00Z"


def test_a_lease_keeps_its_microseconds(store: Store) -> None:
    body = created(store, lease(renewTime="2026-01-31T12:00:00.123456Z", leaseDurationSeconds=15), LEASES)
    assert body["spec"]["renewTime"] == "2026-01-31T12:00:00.123456Z"
