"""Creating, replacing and patching: what the server decides, what it refuses, what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.objects import decode
from devcluster.patches import apply_merge_patch
from devcluster.statuses import Refusal
from devcluster.store import Result, Store, WriteOptions
from kube.cluster import Json
from kube.resources import COMPOSITIONS, LEASES, SECRETS, Resource
from tests.unit.devcluster.factories import (
    WIDGETS,
    composition,
    kind_of,
    new_store,
    refusal,
    secret,
    widget,
    widget_store,
)

ABSENT = object()


@pytest.fixture
def store() -> Store:
    return new_store()


def created(store: Store, body: Json, resource: Resource = COMPOSITIONS) -> Json:
    kind = kind_of(store, resource)
    return store.create(kind, "default", body).stored.decoded(kind)


def current(store: Store, name: str = "web", resource: Resource = COMPOSITIONS) -> Json:
    kind = kind_of(store, resource)
    return store.find(kind, "default", name).decoded(kind)


def updated(store: Store, body: Json, subresource: str = "", resource: Resource = COMPOSITIONS) -> Json:
    kind = kind_of(store, resource)
    name = body["metadata"]["name"]
    return store.update(kind, "default", name, body, subresource).stored.decoded(kind)


def merged(
    store: Store,
    patch: Json,
    subresource: str = "",
    resource: Resource = COMPOSITIONS,
    name: str = "web",
    options: WriteOptions | None = None,
) -> Result:
    return store.patch(
        kind_of(store, resource),
        "default",
        name,
        lambda document: apply_merge_patch(document, patch),
        subresource,
        options or WriteOptions(),
    )


def test_the_server_decides_the_system_fields(store: Store) -> None:
    wished = {
        "uid": "11111111-1111-1111-1111-111111111111",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "selfLink": "/x",
        "managedFields": [],
    }
    body = created(store, composition(meta=wished, status={"simplified": {"status": "Ready"}}))
    assert body["metadata"].pop("uid") != wished["uid"]
    assert body["metadata"] == {
        "name": "web",
        "namespace": "default",
        "generation": 1,
        "resourceVersion": str(store.version),
        "creationTimestamp": "2026-01-31T12:00:00Z",
    }
    assert "status" not in body


def test_empty_metadata_is_left_out(store: Store) -> None:
    empty: Json = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    assert created(store, composition(meta=empty))["metadata"].keys().isdisjoint(empty)


def test_a_null_label_value_is_the_empty_string(store: Store) -> None:
    assert created(store, composition(meta={"labels": {"a": None}}))["metadata"]["labels"] == {"a": ""}


REFUSED_BODIES: dict[str, tuple[int, str, Any]] = {
    "no object": (400, "BadRequest", []),
    "no kind": (400, "BadRequest", {"apiVersion": "eno.azure.io/v1", "metadata": {"name": "x"}}),
    "no apiVersion": (400, "BadRequest", {"kind": "Composition", "metadata": {"name": "x"}}),
    "another version": (400, "BadRequest", {**composition("x"), "apiVersion": "eno.azure.io/v9"}),
    "another kind": (422, "Invalid", {**composition("x"), "kind": "Symphony"}),
    "another namespace": (400, "BadRequest", composition("x", meta={"namespace": "other"})),
    "no name": (422, "Invalid", {**composition(), "metadata": {}}),
    "a name in capitals": (422, "Invalid", composition("Web")),
    "a name that is too long": (422, "Invalid", composition("a" * 254)),
    "a resourceVersion": (500, "", composition("x", meta={"resourceVersion": "5"})),
    "metadata that is a string": (400, "BadRequest", {**composition(), "metadata": "x"}),
    "a label that is a number": (400, "BadRequest", composition("x", meta={"labels": {"a": 1}})),
    "finalizers that are a string": (400, "BadRequest", composition("x", meta={"finalizers": "a/b"})),
    "a creationTimestamp that is none": (400, "BadRequest", composition("x", meta={"creationTimestamp": "now"})),
    "a spec that is a string": (422, "Invalid", {**composition("x"), "spec": "helm"}),
}


@pytest.mark.parametrize(("code", "reason", "body"), REFUSED_BODIES.values(), ids=REFUSED_BODIES)
def test_a_wrong_body_creates_nothing(store: Store, code: int, reason: str, body: Any) -> None:
    before = store.version
    with refusal(code, reason):
        created(store, body)
    assert store.version == before


def test_a_taken_name_is_refused(store: Store) -> None:
    created(store, composition())
    with refusal(409, "AlreadyExists") as error:
        created(store, composition())
    assert error.value.body["details"] == {"name": "web", "group": "eno.azure.io", "kind": "compositions"}
    assert error.value.message == 'compositions.eno.azure.io "web" already exists'


def test_a_generated_name_gets_a_suffix_of_five(store: Store) -> None:
    first = created(store, {**composition(), "metadata": {"generateName": "web-"}})["metadata"]["name"]
    second = created(store, {**composition(), "metadata": {"generateName": "web-"}})["metadata"]["name"]
    assert first != second
    assert first.startswith("web-")
    assert len(first) == len("web-") + 5


def test_a_long_generated_name_is_cut_to_63(store: Store) -> None:
    name = created(store, {**composition(), "metadata": {"generateName": "w" * 200}})["metadata"]["name"]
    assert len(name) == 63


def test_a_name_wins_over_a_generated_one(store: Store) -> None:
    assert created(store, composition(meta={"generateName": "x-"}))["metadata"]["name"] == "web"


def test_every_write_has_a_version_of_its_own(store: Store) -> None:
    before = store.version
    first = created(store, composition("a"))
    second = created(store, secret("b"), SECRETS)
    versions = [int(body["metadata"]["resourceVersion"]) for body in (first, second)]
    assert versions == [before + 1, before + 2] == list(range(before + 1, store.version + 1))


def test_a_write_that_changes_nothing_is_none(store: Store) -> None:
    body = created(store, composition(meta={"labels": {"a": "b"}}))
    version = store.version
    assert updated(store, dict(body)) == body
    assert merged(store, {"metadata": {"labels": {"a": "b"}}}).stored.decoded(kind_of(store, COMPOSITIONS)) == body
    assert merged(store, {"status": {}}, "status").stored.version > version, "an empty status is a change"
    assert store.version == version + 1


def test_true_is_not_one_when_changes_are_looked_for() -> None:
    store = widget_store({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    kind = kind_of(store, WIDGETS)
    body = store.create(kind, "default", widget({"free": True})).stored.decoded(kind)
    version = store.version
    store.update(kind, "default", "w", {**body, "spec": {"free": 1}})
    assert store.version == version + 1


STALE: dict[str, tuple[int, str, Any]] = {
    "an older one": (409, "Conflict", "1"),
    "none": (422, "Invalid", ABSENT),
    "an empty one": (422, "Invalid", ""),
    "zero": (422, "Invalid", "0"),
    "a word": (500, "", "abc"),
}


@pytest.mark.parametrize(("code", "reason", "version"), STALE.values(), ids=STALE)
def test_an_update_needs_the_current_resource_version(store: Store, code: int, reason: str, version: Any) -> None:
    body = created(store, composition())
    before = current(store)
    if version is ABSENT:
        del body["metadata"]["resourceVersion"]
    else:
        body["metadata"]["resourceVersion"] = version
    body["spec"]["synthesizer"]["name"] = "other"
    with refusal(code, reason):
        updated(store, body)
    assert current(store) == before


def test_built_in_kinds_take_an_update_without_a_resource_version(store: Store) -> None:
    created(store, secret(), SECRETS)
    body = updated(store, secret(data={"a": "YQ=="}), resource=SECRETS)
    assert body["data"] == {"a": "YQ=="}


def test_leases_do_not(store: Store) -> None:
    lease: Json = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}
    created(store, dict(lease), LEASES)
    with refusal(409, "Conflict"):
        updated(store, {**lease, "metadata": {"name": "leader", "resourceVersion": "1"}}, resource=LEASES)


def test_a_lease_is_created_by_an_update(store: Store) -> None:
    lease: Json = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}
    result = store.update(kind_of(store, LEASES), "default", "leader", lease)
    assert result.created


WRONG_UPDATES: dict[str, tuple[int, str, Json]] = {
    "another name": (400, "BadRequest", {"name": "other"}),
    "no name": (400, "BadRequest", {"name": None}),
    "another namespace": (400, "BadRequest", {"namespace": "other"}),
    "another uid": (409, "Conflict", {"uid": "22222222-2222-2222-2222-222222222222"}),
    "a deletionTimestamp": (422, "Invalid", {"deletionTimestamp": "2001-01-01T00:00:00Z"}),
    "a grace period": (422, "Invalid", {"deletionGracePeriodSeconds": 5}),
    "a bad label": (422, "Invalid", {"labels": {"a b": "c"}}),
}


@pytest.mark.parametrize(("code", "reason", "meta"), WRONG_UPDATES.values(), ids=WRONG_UPDATES)
def test_an_update_that_contradicts_the_object_changes_nothing(
    store: Store, code: int, reason: str, meta: Json
) -> None:
    body = created(store, composition())
    before = current(store)
    body["metadata"] |= meta
    with refusal(code, reason):
        kind = kind_of(store, COMPOSITIONS)
        store.update(kind, "default", "web", body)
    assert current(store) == before


def test_an_update_may_leave_the_uid_out(store: Store) -> None:
    body = created(store, composition())
    uid = body["metadata"].pop("uid")
    body["spec"]["synthesizer"]["name"] = "other"
    assert updated(store, body)["metadata"]["uid"] == uid


@pytest.mark.parametrize("member", ["generation", "creationTimestamp"])
def test_an_update_cannot_change_what_the_server_decided(store: Store, member: str) -> None:
    body = created(store, composition())
    before = current(store)
    body["metadata"][member] = 99 if member == "generation" else "2001-01-01T00:00:00Z"
    assert updated(store, body) == before


def test_an_update_of_a_missing_object_is_not_found(store: Store) -> None:
    with refusal(404, "NotFound"):
        updated(store, composition("nobody", meta={"resourceVersion": "5", "uid": "x"}))


class TestStatus:
    """The status subresource: each side leaves the other alone."""

    def test_a_write_to_the_object_leaves_the_status(self, store: Store) -> None:
        created(store, composition())
        merged(store, {"status": {"simplified": {"status": "Ready"}}}, "status")
        merged(store, {"spec": {"synthesizer": {"name": "x"}}, "status": {"simplified": {"status": "No"}}})
        body = current(store)
        assert body["status"] == {"simplified": {"status": "Ready"}}
        assert body["spec"]["synthesizer"]["name"] == "x"

    def test_a_write_to_the_status_leaves_everything_else(self, store: Store) -> None:
        created(store, composition())
        before = current(store)
        patch = {
            "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]},
            "spec": {"synthesizer": {"name": "x"}},
            "status": {"simplified": {"status": "Ready"}},
        }
        merged(store, patch, "status")
        body = current(store)
        assert body.pop("status") == {"simplified": {"status": "Ready"}}
        before["metadata"].pop("resourceVersion")
        body["metadata"].pop("resourceVersion")
        assert body == before

    def test_a_status_update_needs_the_current_resource_version(self, store: Store) -> None:
        body = created(store, composition())
        merged(store, {"metadata": {"labels": {"a": "b"}}})
        with refusal(409, "Conflict"):
            updated(store, {**body, "status": {"simplified": {}}}, "status")

    def test_an_invalid_status_changes_nothing(self, store: Store) -> None:
        created(store, composition())
        before = current(store)
        with refusal(422, "Invalid") as error:
            merged(store, {"status": {"currentSynthesis": {"attempts": "x", "ready": "yesterday"}}}, "status")
        causes = error.value.body["details"]["causes"]
        assert [cause["field"] for cause in causes] == [
            "status.currentSynthesis.attempts",
            "status.currentSynthesis.ready",
        ]
        assert current(store) == before


GENERATIONS: dict[str, tuple[Json, str, int]] = {
    "a change of the spec": ({"spec": {"synthesizer": {"name": "x"}}}, "", 2),
    "a change of labels": ({"metadata": {"labels": {"a": "b"}}}, "", 1),
    "a change of finalizers": ({"metadata": {"finalizers": ["a.b/c"]}}, "", 1),
    "a change of the status": ({"status": {"simplified": {"status": "x"}}}, "status", 1),
    "a wish": ({"metadata": {"generation": 9}}, "", 1),
    "nothing": ({}, "", 1),
}


@pytest.mark.parametrize(("patch", "subresource", "expected"), GENERATIONS.values(), ids=GENERATIONS)
def test_the_generation_counts_changes_of_the_spec(store: Store, patch: Json, subresource: str, expected: int) -> None:
    created(store, composition())
    merged(store, patch, subresource)
    assert current(store)["metadata"]["generation"] == expected


def test_secrets_have_no_generation(store: Store) -> None:
    assert "generation" not in created(store, secret(), SECRETS)["metadata"]


class TestMergePatch:
    """RFC 7386, and what a patch may say about the metadata."""

    def test_null_removes_and_the_rest_stays(self, store: Store) -> None:
        created(store, composition(meta={"labels": {"a": "1", "b": "2"}}))
        merged(store, {"metadata": {"labels": {"a": None, "c": "3"}}})
        assert current(store)["metadata"]["labels"] == {"b": "2", "c": "3"}

    def test_lists_are_replaced(self, store: Store) -> None:
        created(store, composition(meta={"finalizers": ["a.b/c", "a.b/d"]}))
        merged(store, {"metadata": {"finalizers": ["a.b/d"]}})
        assert current(store)["metadata"]["finalizers"] == ["a.b/d"]

    def test_nulls_below_a_new_member_are_left_out(self, store: Store) -> None:
        created(store, composition())
        merged(store, {"metadata": {"labels": {"a": None, "b": "1"}}})
        assert current(store)["metadata"]["labels"] == {"b": "1"}

    REFUSED: dict[str, tuple[int, str, Json]] = {  # noqa: RUF012
        "a stale resourceVersion": (409, "Conflict", {"metadata": {"resourceVersion": "1"}}),
        "no resourceVersion": (422, "Invalid", {"metadata": {"resourceVersion": None}}),
        "a resourceVersion that is a number": (422, "Invalid", {"metadata": {"resourceVersion": 5}}),
        "another uid": (422, "Invalid", {"metadata": {"uid": "x"}}),
        "another name": (400, "BadRequest", {"metadata": {"name": "other"}}),
        "no name": (400, "BadRequest", {"metadata": {"name": None}}),
        "no metadata": (400, "BadRequest", {"metadata": None}),
        "another namespace": (400, "BadRequest", {"metadata": {"namespace": "other"}}),
        "another kind": (422, "Invalid", {"kind": "Other"}),
        "no kind": (422, "Invalid", {"kind": None}),
        "another version": (422, "Invalid", {"apiVersion": "eno.azure.io/v9"}),
        "labels that are numbers": (422, "Invalid", {"metadata": {"labels": {"a": 1}}}),
        "metadata that is a string": (422, "Invalid", {"metadata": "x"}),
    }

    @pytest.mark.parametrize(("code", "reason", "patch"), REFUSED.values(), ids=REFUSED)
    def test_a_wrong_patch_changes_nothing(self, store: Store, code: int, reason: str, patch: Json) -> None:
        created(store, composition())
        before = current(store)
        with refusal(code, reason):
            merged(store, {"spec": {"synthesizer": {"name": "x"}}, **patch})
        assert current(store) == before

    def test_the_current_resource_version_is_met(self, store: Store) -> None:
        version = created(store, composition())["metadata"]["resourceVersion"]
        merged(store, {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}})
        assert current(store)["metadata"]["labels"] == {"a": "b"}

    def test_a_patch_of_a_missing_object_is_not_found(self, store: Store) -> None:
        with refusal(404, "NotFound"):
            merged(store, {}, name="nobody")


class TestFieldValidation:
    """Unknown fields are dropped, with a warning, silently or not at all."""

    @staticmethod
    def unknown() -> Json:
        return composition(spec={"synthesizer": {"name": "x"}, "bogus": 1}, extra=2)

    @pytest.mark.parametrize("validation", ["Warn", "Ignore"])
    def test_they_are_dropped(self, store: Store, validation: Any) -> None:
        kind = kind_of(store, COMPOSITIONS)
        body = {**self.unknown(), "metadata": {"name": "web", "bogus": 1}}
        result = store.create(kind, "default", body, WriteOptions(validation))
        stored = result.stored.decoded(kind)
        assert stored["spec"] == {"synthesizer": {"name": "x"}}
        assert "extra" not in stored
        assert "bogus" not in stored["metadata"]
        paths = ["extra", "metadata.bogus", "spec.bogus"]
        expected = [f'unknown field "{path}"' for path in paths] if validation == "Warn" else []
        assert list(result.warnings) == expected

    def test_strictly_a_new_object_with_them_is_a_bad_request(self, store: Store) -> None:
        with refusal(400, "BadRequest") as error:
            store.create(kind_of(store, COMPOSITIONS), "default", self.unknown(), WriteOptions("Strict"))
        assert error.value.message.endswith('strict decoding error: unknown field "extra", unknown field "spec.bogus"')

    def test_strictly_a_patch_that_adds_them_is_invalid(self, store: Store) -> None:
        created(store, composition())
        before = current(store)
        with refusal(422, "Invalid") as error:
            merged(store, {"status": {"bogus": 1}}, "status", options=WriteOptions("Strict"))
        assert error.value.message.endswith('strict decoding error: unknown field "status.bogus"')
        assert current(store) == before


def test_a_dry_run_answers_and_writes_nothing(store: Store) -> None:
    before = store.version
    kind = kind_of(store, COMPOSITIONS)
    assert store.create(kind, "default", composition(), WriteOptions(dry_run=True)).created
    assert store.version == before
    with refusal(404, "NotFound"):
        store.find(kind, "default", "web")


def test_an_object_above_the_limit_of_etcd_is_refused(store: Store) -> None:
    big = {"spec": {"synthesisEnv": [{"name": "a", "value": "x" * 1_572_864}]}}
    with refusal(500, "") as error:
        created(store, {**composition(), **big})
    assert error.value.message == "etcdserver: request is too large"


def test_a_stored_object_is_out_of_its_authors_reach(store: Store) -> None:
    body = composition(meta={"labels": {"a": "b"}})
    labels = body["metadata"]["labels"]
    kind = kind_of(store, COMPOSITIONS)
    first = store.create(kind, "default", body).stored
    labels["a"] = "changed"
    first.decoded(kind)["metadata"]["labels"]["a"] = "changed"
    assert current(store)["metadata"]["labels"] == {"a": "b"}
    assert first.labels == {"a": "b"}


def test_metadata_alone_is_the_same_metadata(store: Store) -> None:
    body = created(store, composition(meta={"labels": {"a": "b"}}))
    partial = decode(store.find(kind_of(store, COMPOSITIONS), "default", "web").partial())
    assert partial == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }


def test_a_refusal_is_a_status_object(store: Store) -> None:
    with pytest.raises(Refusal) as error:
        store.find(kind_of(store, COMPOSITIONS), "default", "nobody")
    assert error.value.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'compositions.eno.azure.io "nobody" not found',
        "reason": "NotFound",
        "details": {"name": "nobody", "group": "eno.azure.io", "kind": "compositions"},
        "code": 404,
    }
