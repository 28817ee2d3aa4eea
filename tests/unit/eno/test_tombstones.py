"""What is owed, what is held, and what a tombstone carries."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import MalformedManifest
from eno.identity import ResourceId
from eno.inventory.entries import Entry
from eno.tombstones import Debt, Manifests, manifests, mass_burial, missing, settle, tombstone, unseen
from tests.support.factories import entry, head, manifest, patch_manifest, resource_slice

CRD = "apiextensions.k8s.io"


def names(entries: tuple[Entry, ...] | list[Entry]) -> list[str]:
    return [each.id.name for each in entries]


def test_what_no_manifest_mentions_is_missing_in_inventory_order() -> None:
    current = manifests([resource_slice("s", [manifest(name="b")])])
    assert names(missing([entry(name="c"), entry(name="b"), entry(name="a"), entry(name="c")], current)) == ["c", "a"]


@pytest.mark.parametrize(
    "mention",
    [
        pytest.param(manifest(name="web"), id="desired"),
        pytest.param((manifest(name="web"), True), id="tombstone"),
        pytest.param(patch_manifest("ConfigMap", "web"), id="Patch target"),
        pytest.param(
            manifest(name="web", annotations={"eno.azure.io/disable-reconciliation": "true"}), id="not managed by Eno"
        ),
    ],
)
def test_every_current_manifest_counts_as_wanted(mention: str | tuple[str, bool]) -> None:
    assert missing([entry()], manifests([resource_slice("s", [mention])])) == []


@pytest.mark.parametrize(
    ("owned", "mentioned"),
    [
        pytest.param(entry("Ingress", group="extensions"), ("networking.k8s.io/v1", "shop"), id="an older group"),
        pytest.param(entry("Service"), ("v1", ""), id="the manifest leaves the namespace open"),
        pytest.param(entry("Service", namespace=""), ("v1", "shop"), id="the inventory leaves the namespace open"),
    ],
)
def test_what_a_manifest_may_mean_is_not_missing(owned: Entry, mentioned: tuple[str, str]) -> None:
    version, namespace = mentioned
    current = manifests([resource_slice("s", [manifest(owned.id.kind, "web", namespace, version)])])
    assert missing([owned], current) == []


def test_what_a_sibling_wants_is_not_buried() -> None:
    sibling = manifests([resource_slice("s", [manifest(name="shared"), patch_manifest("ConfigMap", "patched")])])
    absent = [entry(name=name) for name in ("shared", "patched", "own")]
    assert names(settle(absent, Manifests(), [sibling], []).buried) == ["own"]


def test_what_an_unsynthesized_sibling_is_remembered_to_own_is_not_buried() -> None:
    assert names(settle([entry(name="a"), entry(name="b")], Manifests(), [], [entry(name="a")]).buried) == ["b"]


def test_what_a_sibling_may_mean_is_not_buried() -> None:
    sibling = manifests([resource_slice("s", [manifest("Ingress", "web", "shop", "networking.k8s.io/v1")])])
    assert settle([entry("Ingress", group="extensions")], Manifests(), [sibling], []) == Debt()


def test_a_tombstone_of_a_sibling_is_no_wish() -> None:
    sibling = manifests([resource_slice("s", [(manifest(name="web"), True)])])
    assert names(settle([entry()], Manifests(), [sibling], []).buried) == ["web"]


NAMESPACE = entry("Namespace", "shop", "")
WIDGETS = entry("CustomResourceDefinition", "widgets.example.com", "", CRD)


@pytest.mark.parametrize(
    ("owed", "living", "held"),
    [
        pytest.param(NAMESPACE, head(namespace="shop"), True, id="a namespace something lives in"),
        pytest.param(NAMESPACE, head(namespace="other"), False, id="a namespace nothing lives in"),
        pytest.param(
            NAMESPACE, head("ClusterRole", "x", "shop", "rbac.authorization.k8s.io/v1"), False, id="cluster-scoped"
        ),
        pytest.param(
            entry("Namespace", "default", ""), head(namespace=""), True, id="an open namespace may mean default"
        ),
        pytest.param(
            entry("Namespace", "shop", "", group="x.io"), head(namespace="shop"), False, id="a Namespace of others"
        ),
        pytest.param(WIDGETS, head("Widget", api_version="example.com/v2"), True, id="a definition in use"),
        pytest.param(WIDGETS, head("Gadget", api_version="example.com/v1"), True, id="another kind of its group"),
        pytest.param(WIDGETS, head("Widget", api_version="example.org/v1"), False, id="a definition not in use"),
        pytest.param(
            entry("CustomResourceDefinition", "widgets.example.com", "", "x.io"),
            head("Widget", api_version="example.com/v1"),
            False,
            id="a definition of others",
        ),
    ],
)
@pytest.mark.parametrize("sibling", [False, True], ids=["own", "sibling's"])
def test_what_something_wanted_lives_in_is_held(owed: Entry, living: object, held: bool, sibling: bool) -> None:
    lives = Manifests(desired=(living,))  # type: ignore[arg-type]
    debt = settle([owed], Manifests() if sibling else lives, [lives] if sibling else [], [])
    assert debt == (Debt(held=(owed.id,)) if held else Debt(buried=(owed,)))


def test_a_patch_keeps_the_namespace_of_its_target() -> None:
    current = manifests([resource_slice("s", [patch_manifest("ConfigMap", "web", namespace="shop")])])
    assert settle([NAMESPACE], current, [], []).held == (NAMESPACE.id,)


def test_tombstones_hold_nothing_so_that_a_retry_decides_alike() -> None:
    current = manifests([resource_slice("s", [(manifest(namespace="shop"), True)])])
    assert settle([NAMESPACE], current, [], []) == Debt(buried=(NAMESPACE,))


def test_a_malformed_manifest_is_named_by_slice_and_index() -> None:
    with pytest.raises(MalformedManifest, match=r"resourceslice apps/bad manifest 1: malformed manifest"):
        manifests([resource_slice("good", [manifest()]), resource_slice("bad", [manifest(), "{"])])


def test_a_tombstone_carries_identity_labels_and_the_saved_annotations_only() -> None:
    buried = entry("Deployment", group="apps", labels={"b": "ü", "a": "1"}, annotations={"eno.azure.io/x": "1"})
    assert tombstone(buried) == (
        '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"eno.azure.io/x":"1"},'
        '"labels":{"a":"1","b":"ü"},"name":"web","namespace":"shop"}}'
    )


def test_a_tombstone_without_namespace_and_labels_is_minimal() -> None:
    assert json.loads(tombstone(NAMESPACE)) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


SEEN = {"reconciled": True}
GRAVE = (manifest(name="web"), True)


@pytest.mark.parametrize(
    ("current", "debt", "expected"),
    [
        pytest.param([manifest(name="x")], [entry()], False, id="never loaded"),
        pytest.param(([manifest(name="x")], [SEEN]), [entry()], True, id="loaded, and something is buried now"),
        pytest.param(([manifest(name="x")], [SEEN]), [], False, id="loaded, and nothing is owed"),
        pytest.param(([manifest(name="x"), GRAVE], [SEEN]), [], True, id="buried by an earlier attempt, unseen"),
        pytest.param(([manifest(name="x"), GRAVE], [SEEN, {}]), [], True, id="buried, not reconciled yet"),
        pytest.param(([manifest(name="x"), GRAVE], [SEEN, SEEN]), [], False, id="buried and reconciled"),
        pytest.param(
            ([manifest(name="x"), (manifest(name="other"), True)], [SEEN]), [], False, id="buried by Eno, not owed"
        ),
    ],
)
def test_eno_must_load_again_what_it_loaded_without_the_tombstones(
    current: object, debt: list[Entry], expected: bool
) -> None:
    resources, states = current if isinstance(current, tuple) else (current, None)
    found = manifests([resource_slice("s", resources, states=states)])  # type: ignore[arg-type]
    assert unseen([entry()], found, Debt(tuple(debt))) is expected


def test_a_synthesis_is_loaded_when_any_of_its_slices_is() -> None:
    assert manifests([resource_slice("first", [manifest()], states=[SEEN]), resource_slice("second")]).loaded


@pytest.mark.parametrize(
    ("buried", "size", "mass"),
    [(11, 20, True), (10, 20, False), (19, 19, False), (20, 20, True), (0, 100, False), (51, 100, True)],
)
def test_more_than_half_of_twenty_or_more_is_a_mass_burial(buried: int, size: int, mass: bool) -> None:
    debt = Debt(tuple(entry(name=str(index)) for index in range(buried)))
    assert mass_burial(debt, size) is mass


identities = st.builds(
    ResourceId,
    st.sampled_from(["", "apps", "extensions"]),
    st.sampled_from(["Deployment", "Namespace", "ConfigMap"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["x", "y"]),
)


@given(st.lists(identities), st.lists(identities), st.lists(identities))
def test_nothing_that_anybody_wants_is_ever_buried(
    recorded: list[ResourceId], own: list[ResourceId], siblings: list[ResourceId]
) -> None:
    def desired(ids: list[ResourceId]) -> Manifests:
        texts = [manifest(i.kind, i.name, i.namespace, f"{i.group}/v1" if i.group else "v1") for i in ids]
        return manifests([resource_slice("s", texts)])

    inventory = [Entry(identity, "v1") for identity in recorded]
    debt = settle(missing(inventory, desired(own)), desired(own), [desired(siblings)], [])
    buried = {each.id for each in debt.buried}
    assert buried.isdisjoint(own)
    assert buried.isdisjoint(siblings)
    assert len(buried) == len(debt.buried), "each identity once"
    assert buried | set(debt.held) <= set(recorded)
