"""CustomResourceDefinitions: what they make served, what is refused, and the files that come with Sexton."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import definitions
from devcluster.__main__ import load_definitions
from devcluster.store import Store
from eno.errors import UsageError
from kube.cluster import Json
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from tests.unit.devcluster.factories import (
    WIDGETS,
    composition,
    definition,
    kind_of,
    new_store,
    refusal,
    resource_slice,
    widget,
)

RELEASED = Path(__file__).resolve().parents[4] / "shared" / "data" / "eno-crds"


def served(body: Json) -> Store:
    store = new_store(definitions_too=False)
    store.create(definitions.KIND, None, body)
    return store


def test_a_definition_makes_its_kind_served() -> None:
    store = served(definition({"type": "object"}, status=True))
    kind = kind_of(store, WIDGETS)
    assert (kind.resource, kind.singular, kind.list_kind) == (WIDGETS, "widget", "WidgetList")
    assert kind.subresources == ("status",)
    assert store.create(kind, "default", widget({})).created


def test_a_cluster_scoped_kind_has_no_namespaces() -> None:
    store = served(definition({"type": "object"}, scope="Cluster"))
    kind = kind_of(store, WIDGETS)
    assert not kind.resource.namespaced
    assert "namespace" not in store.create(kind, None, widget({})).stored.decoded(kind)["metadata"]
    with refusal(400, "BadRequest"):
        store.create(kind, None, {**widget({}), "metadata": {"name": "x", "namespace": "default"}})


def test_a_changed_definition_is_followed() -> None:
    store = served(definition({"type": "object"}))
    body = store.find(definitions.KIND, None, "widgets.test.example").decoded(definitions.KIND)
    properties = {"size": {"type": "integer"}}
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "object", "properties": properties}
    store.update(definitions.KIND, None, "widgets.test.example", body)
    kind = kind_of(store, WIDGETS)
    assert store.create(kind, "default", widget({"size": 1})).stored.decoded(kind)["spec"] == {"size": 1}


def test_a_definition_counts_as_established_at_once() -> None:
    store = served(definition({"type": "object"}))
    body = store.find(definitions.KIND, None, "widgets.test.example").decoded(definitions.KIND)
    conditions = {condition["type"]: condition["status"] for condition in body["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert body["spec"]["names"]["listKind"] == "WidgetList"


def changed(**spec: object) -> Json:
    body = definition({"type": "object"})
    body["spec"] |= spec
    return body


BAD: dict[str, tuple[int, Json]] = {
    "a name that does not fit": (422, {**changed(), "metadata": {"name": "x.test.example"}}),
    "no group": (422, changed(group="")),
    "no versions": (422, changed(versions=[])),
    "no storage version": (422, changed(versions=[{"name": "v1", "served": True, "storage": False}])),
    "no schema": (422, changed(versions=[{"name": "v1", "served": True, "storage": True}])),
    "no names": (422, changed(names={})),
    "names that are a string": (400, changed(names="widgets")),
    "no spec": (422, {**changed(), "spec": None}),
}


@pytest.mark.parametrize(("code", "body"), BAD.values(), ids=BAD)
def test_a_bad_definition_serves_nothing(code: int, body: Json) -> None:
    store = new_store(definitions_too=False)
    with refusal(code, "Invalid" if code == 422 else "BadRequest"):
        store.create(definitions.KIND, None, body)
    assert store.kind("test.example", "widgets") is None


def synthesis(**members: object) -> Json:
    decision = {"status": False, "reason": "InventoryGetError", "message": "m", "synthesisUUID": "u"}
    return {
        "uuid": "u",
        "observedCompositionGeneration": 1,
        "initialized": "2026-01-31T12:00:00Z",
        "synthesized": "2026-01-31T12:00:00Z",
        "attempts": 1,
        "deferred": False,
        "resourceSlices": [{"name": "slice"}, {}],
        "results": [{"message": "m", "severity": "info", "tags": {"a": "b"}}],
        **({"tombstoneRecoveryRequired": True, "tombstoneRecoveryStatus": decision} if not members else {}),
    }


def test_the_development_definitions_keep_every_field_that_sexton_uses() -> None:
    store = new_store()
    kind = kind_of(store, COMPOSITIONS)
    store.create(kind, "default", composition())
    status = {
        "simplified": {"status": "Ready", "error": "none"},
        **{name: synthesis() for name in ("inFlightSynthesis", "currentSynthesis", "previousSynthesis")},
    }
    result = store.patch(kind, "default", "web", lambda body: {**body, "status": status}, "status")
    assert (result.stored.decoded(kind)["status"], result.warnings) == (status, ())
    slices = kind_of(store, RESOURCE_SLICES)
    body = resource_slice(manifests=["{}"])
    body["spec"] = {"synthesisUUID": "u", "resources": [{"manifest": "{}", "deleted": True}]}
    assert store.create(slices, "default", body).warnings == ()


@pytest.mark.skipif(not RELEASED.is_dir(), reason="the released CRDs of Eno are not at hand")
def test_the_released_definitions_of_eno_are_served_and_drop_the_recovery_fields() -> None:
    store = new_store(definitions_too=False)
    load_definitions(store, [RELEASED])
    kind = kind_of(store, COMPOSITIONS)
    store.create(kind, "default", composition())
    status = {"currentSynthesis": synthesis()}
    result = store.patch(kind, "default", "web", lambda body: {**body, "status": status}, "status")
    kept = result.stored.decoded(kind)["status"]["currentSynthesis"]
    assert kept == synthesis(recovery=False)
    assert len(result.warnings) == 2


def test_files_are_read_alone_and_together(tmp_path: Path) -> None:
    assert len(definitions.load(definitions.development_directory())) == 4
    assert len(definitions.load(definitions.development_directory() / "compositions.yaml")) == 1
    (tmp_path / "kustomization.yaml").write_text("resources: []")
    (tmp_path / "a.yaml").write_text("---\n# nothing\n")
    assert definitions.load(tmp_path) == []


FILES: dict[str, str | None] = {
    "no such file": None,
    "no YAML": "a: [",
    "another kind": "kind: Secret",
    "a list": "- a",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_file_that_holds_no_definitions_is_an_error(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "crd.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as error:
        definitions.load(file)
    assert str(file) in str(error.value)


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        definitions.load(tmp_path)


def test_a_definition_that_is_refused_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text("kind: CustomResourceDefinition\nmetadata: {name: x}\napiVersion: apiextensions.k8s.io/v1\n")
    with pytest.raises(UsageError) as error:
        load_definitions(new_store(), [file])
    assert "spec.group: Required value" in str(error.value)
