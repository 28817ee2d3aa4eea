"""What no API server does alone: the store's own server also does what a controller manager would.

A kube-apiserver without one leaves all of this undone, so this runs on the store only.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from eno.errors import NotFound
from kube.cluster import Json
from kube.resources import NAMESPACES, SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.space import Space
from tests.support.waiting import until

pytestmark = pytest.mark.servers("http")

HOLD = ["example.com/hold"]


def owned(name: str, *owners: Json, **members: Any) -> Json:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return with_metadata(probe(name), ownerReferences=references, **members)


def names(space: Space) -> list[str]:
    return space.names(PROBES)


def test_what_is_owned_goes_with_its_owner(space: Space) -> None:
    owner = space.probe("owner")
    space.create(PROBES, owned("child", owner))
    space.create(PROBES, owned("grandchild", space.get(PROBES, "child")))
    space.probe("stranger")
    space.delete(PROBES, "owner")
    until(lambda: names(space) == ["stranger"], "the dependents are gone")


def test_what_has_another_owner_stays(space: Space) -> None:
    one, two = space.probe("one"), space.probe("two")
    space.create(PROBES, owned("child", one, two))
    space.create(PROBES, owned("only", one))
    space.delete(PROBES, "one")
    until(lambda: names(space) == ["child", "two"], "what only it owned is gone")


def test_an_owner_of_the_same_name_is_not_the_owner(space: Space) -> None:
    owner = space.probe("owner")
    stranger = with_metadata(owner, uid="11111111-2222-3333-4444-555555555555")
    space.create(PROBES, owned("child", stranger))
    until(lambda: names(space) == ["owner"], "what belongs to a uid that is gone is gone, too")


def test_in_the_foreground_the_owner_waits_for_what_blocks_it(space: Space) -> None:
    owner = space.probe("owner")
    space.create(PROBES, owned("child", owner, finalizers=HOLD))
    space.ask("DELETE", PROBES, "owner", "propagationPolicy=Foreground")
    until(lambda: "deletionTimestamp" in space.get(PROBES, "child")["metadata"], "the child is being deleted")
    assert names(space) == ["child", "owner"]
    space.merge_patch(PROBES, {"metadata": {"finalizers": None}}, "child")
    until(lambda: names(space) == [], "both are gone")


def test_an_orphan_is_left_behind_without_its_owner(space: Space) -> None:
    owner = space.probe("owner")
    space.create(PROBES, owned("child", owner))
    space.ask("DELETE", PROBES, "owner", body=json.dumps({"propagationPolicy": "Orphan"}).encode())
    until(lambda: names(space) == ["child"], "the owner is gone")
    assert "ownerReferences" not in space.get(PROBES, "child")["metadata"]


def test_a_deleted_namespace_is_emptied_and_goes(space: Space) -> None:
    name = f"{space.namespace}-gone"
    space.cluster.create(NAMESPACES, None, {"metadata": {"name": name}})
    there = Space(space.cluster, name, space.server)
    there.probe("a")
    there.create(SECRETS, {"metadata": {"name": "a"}})
    space.cluster.delete(NAMESPACES, None, name)

    def gone() -> bool:
        try:
            space.cluster.get(NAMESPACES, None, name)
        except NotFound:
            return True
        return False

    until(gone, "the namespace is gone")
    assert there.state() == []
