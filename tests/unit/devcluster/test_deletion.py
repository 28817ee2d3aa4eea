"""Deleting: preconditions, finalizers, namespaces on their way out, definitions and their objects."""

from __future__ import annotations

import pytest

from devcluster import definitions
from devcluster.builtin import CONFIG_MAPS
from devcluster.patches import apply_merge_patch
from devcluster.store import DeleteOptions, Result, Store
from kube.cluster import Json
from kube.resources import COMPOSITIONS, LEASES, NAMESPACES, SECRETS
from tests.unit.devcluster.factories import Clock, composition, kind_of, new_store, refusal, secret

HELD = {"finalizers": ["eno.azure.io/cleanup"]}


@pytest.fixture
def store() -> Store:
    return new_store()


def created(store: Store, body: Json) -> Json:
    kind = kind_of(store, COMPOSITIONS)
    return store.create(kind, "default", body).stored.decoded(kind)


def deleted(store: Store, options: DeleteOptions | None = None) -> Result:
    return store.delete(kind_of(store, COMPOSITIONS), "default", "web", options or DeleteOptions())


def patched(store: Store, patch: Json) -> Result:
    kind = kind_of(store, COMPOSITIONS)
    return store.patch(kind, "default", "web", lambda document: apply_merge_patch(document, patch))


def current(store: Store) -> Json:
    kind = kind_of(store, COMPOSITIONS)
    return store.find(kind, "default", "web").decoded(kind)


def gone(store: Store) -> bool:
    return store.table(kind_of(store, COMPOSITIONS)).get("default/web") is None


def test_an_object_without_finalizers_goes_at_once(store: Store) -> None:
    created(store, composition())
    assert deleted(store).removed
    assert gone(store)


def test_a_second_delete_finds_nothing(store: Store) -> None:
    created(store, composition())
    deleted(store)
    with refusal(404, "NotFound"):
        deleted(store)


PRECONDITIONS: dict[str, DeleteOptions] = {
    "another uid": DeleteOptions(uid="x"),
    "another resourceVersion": DeleteOptions(resource_version="1"),
    "both": DeleteOptions(uid="x", resource_version="1"),
}


@pytest.mark.parametrize("options", PRECONDITIONS.values(), ids=PRECONDITIONS)
@pytest.mark.parametrize("meta", [{}, HELD], ids=["free", "held"])
def test_an_unmet_precondition_deletes_nothing(store: Store, options: DeleteOptions, meta: Json) -> None:
    body = created(store, composition(meta=meta))
    with refusal(409, "Conflict"):
        deleted(store, options)
    assert current(store) == body


def test_met_preconditions_delete(store: Store) -> None:
    meta = created(store, composition())["metadata"]
    deleted(store, DeleteOptions(uid=meta["uid"], resource_version=meta["resourceVersion"]))
    assert gone(store)


class TestHeld:
    """An object that a finalizer holds."""

    def test_it_is_marked_and_stays(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        assert not deleted(store).removed
        meta = current(store)["metadata"]
        assert meta["deletionTimestamp"] == "2026-01-31T12:00:00Z"
        assert meta["deletionGracePeriodSeconds"] == 0
        assert meta["generation"] == 2

    def test_a_second_delete_changes_nothing(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        deleted(store)
        body, version = current(store), store.version
        assert isinstance(store.clock, Clock)
        store.clock.pass_seconds(60)
        deleted(store)
        assert (current(store), store.version) == (body, version)

    def test_it_can_still_be_written(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        deleted(store)
        patched(store, {"metadata": {"labels": {"a": "b"}}, "spec": {"synthesizer": {"name": "x"}}})
        assert current(store)["metadata"]["generation"] == 3

    def test_the_mark_cannot_be_taken_back(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        deleted(store)
        patched(store, {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}})
        assert current(store)["metadata"]["deletionTimestamp"] == "2026-01-31T12:00:00Z"

    @pytest.mark.parametrize("finalizers", [["eno.azure.io/cleanup", "a.b/new"], ["a.b/new"]])
    def test_it_takes_no_new_finalizer(self, store: Store, finalizers: list[str]) -> None:
        created(store, composition(meta=HELD))
        deleted(store)
        body = current(store)
        with refusal(422, "Invalid") as error:
            patched(store, {"metadata": {"finalizers": finalizers}})
        assert 'found new finalizers []string{"a.b/new"}' in error.value.message
        assert current(store) == body

    def test_it_goes_with_the_last_finalizer(self, store: Store) -> None:
        created(store, composition(meta={"finalizers": ["a.b/1", "a.b/2"]}))
        deleted(store)
        assert not patched(store, {"metadata": {"finalizers": ["a.b/2"]}}).removed
        assert patched(store, {"metadata": {"finalizers": None}}).removed
        assert gone(store)

    def test_its_name_stays_taken(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        deleted(store)
        with refusal(409, "AlreadyExists") as error:
            created(store, composition())
        assert error.value.message.startswith("object is being deleted: ")

    def test_a_finalizer_that_goes_while_nobody_deletes_removes_nothing(self, store: Store) -> None:
        created(store, composition(meta=HELD))
        patched(store, {"metadata": {"finalizers": None}})
        assert not gone(store)


POLICIES: dict[str, tuple[str | None, list[str] | None]] = {
    "none given": (None, None),
    "background": ("Background", None),
    "foreground": ("Foreground", ["foregroundDeletion"]),
    "orphan": ("Orphan", ["orphan"]),
}


@pytest.mark.parametrize(("policy", "finalizers"), POLICIES.values(), ids=POLICIES)
def test_the_propagation_policy_becomes_a_finalizer(
    store: Store, policy: str | None, finalizers: list[str] | None
) -> None:
    created(store, composition())
    deleted(store, DeleteOptions(propagation=policy))
    assert gone(store) == (finalizers is None)
    if finalizers:
        assert current(store)["metadata"]["finalizers"] == finalizers


def test_a_dry_run_deletes_nothing(store: Store) -> None:
    created(store, composition())
    deleted(store, DeleteOptions(dry_run=True))
    assert not gone(store)


class TestNamespaces:
    """A namespace is there, on its way out, or not there."""

    def test_the_system_namespaces_are_there_from_the_start(self, store: Store) -> None:
        names = [item.name for _, item in store.table(kind_of(store, NAMESPACES)).select("")]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]

    @pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
    def test_they_cannot_be_deleted(self, store: Store, name: str) -> None:
        with refusal(403, "Forbidden"):
            store.delete(kind_of(store, NAMESPACES), None, name)

    def test_a_new_one_is_active_and_carries_its_name_as_a_label(self, store: Store) -> None:
        kind = kind_of(store, NAMESPACES)
        body = store.create(kind, None, {"metadata": {"name": "team"}}).stored.decoded(kind)
        assert body["status"] == {"phase": "Active"}
        assert body["spec"] == {"finalizers": ["kubernetes"]}
        assert body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}

    def test_nothing_is_created_in_one_that_is_not_there(self, store: Store) -> None:
        with refusal(404, "NotFound") as error:
            store.create(kind_of(store, SECRETS), "nowhere", secret())
        assert error.value.message == 'namespaces "nowhere" not found'

    def test_nothing_is_created_in_one_on_its_way_out(self, store: Store) -> None:
        self._terminating(store)
        for resource, body in (
            (SECRETS, secret("late")),
            (COMPOSITIONS, composition("late")),
            (CONFIG_MAPS, {"metadata": {"name": "taken"}}),
        ):
            with refusal(403, "Forbidden") as error:
                store.create(kind_of(store, resource), "team", body)
            (cause,) = error.value.body["details"]["causes"]
            assert cause == {
                "reason": "NamespaceTerminating",
                "message": "namespace team is being terminated",
                "field": "metadata.namespace",
            }

    def test_nor_by_an_update_that_would_create(self, store: Store) -> None:
        self._terminating(store)
        with refusal(403, "Forbidden"):
            store.update(kind_of(store, LEASES), "team", "late", {"metadata": {"name": "late"}})

    def test_what_is_in_it_can_still_be_written_and_deleted(self, store: Store) -> None:
        self._terminating(store)
        kind = kind_of(store, CONFIG_MAPS)
        store.update(kind, "team", "taken", {"metadata": {"name": "taken"}, "data": {"a": "b"}})
        assert store.delete(kind, "team", "taken").removed

    def test_it_goes_when_both_kinds_of_finalizers_are_gone(self, store: Store) -> None:
        self._terminating(store)
        kind = kind_of(store, NAMESPACES)
        body = store.find(kind, None, "team").decoded(kind)
        assert body["status"]["phase"] == "Terminating"
        assert "deletionGracePeriodSeconds" not in body["metadata"]
        body["spec"]["finalizers"] = []
        assert store.update(kind, None, "team", body, "finalize").removed

    def test_its_spec_is_changed_by_finalize_only(self, store: Store) -> None:
        kind = kind_of(store, NAMESPACES)
        body = store.create(kind, None, {"metadata": {"name": "team"}}).stored.decoded(kind)
        body["spec"], body["status"] = {}, {"phase": "Terminating"}
        after = store.update(kind, None, "team", body).stored.decoded(kind)
        assert after["spec"] == {"finalizers": ["kubernetes"]}
        assert after["status"] == {"phase": "Active"}

    @staticmethod
    def _terminating(store: Store) -> None:
        store.create(kind_of(store, NAMESPACES), None, {"metadata": {"name": "team"}})
        store.create(kind_of(store, CONFIG_MAPS), "team", {"metadata": {"name": "taken"}})
        assert not store.delete(kind_of(store, NAMESPACES), None, "team").removed


def test_a_definition_takes_its_objects_along(store: Store) -> None:
    created(store, composition(meta=HELD))
    version = store.version
    store.delete(definitions.KIND, None, "compositions.eno.azure.io")
    assert store.kind("eno.azure.io", "compositions") is None
    last = [(change.resource[1], change.after) for change in store.changes_since(version)]
    assert last == [("customresourcedefinitions", None), ("compositions", None)]
