"""Retire and reclaim at every step: two workers, crashes after every write, a composition that comes back or goes.

What is claimed when it is looked at for the last time stays; in the end nothing marked is claimed, nothing
unclaimed is unmarked, and nothing more is written.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from eno.objects import Composition
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.resources import COMPOSITIONS, SECRETS
from tests.support.factories import NAMESPACE, NOW, composition_json, decided, entry, synthesis
from tests.support.interleave import Actor, explore
from tests.support.world import World, retire_message
from workers.context import Context
from workers.handlers.retire import retire

PREFIX = "eno.azure.io/inventory-"
RECOVERED = synthesis(tombstoneRecoveryStatus=decided())
RETIRING = Actor(lambda context: retire(retire_message(), context), frozenset({SECRETS}))


def _reclaim(context: Context) -> None:
    body = composition_json(uid=None, current=RECOVERED)
    context.upstream.create(COMPOSITIONS, NAMESPACE, body)


def _leave(context: Context) -> None:
    context.upstream.delete(COMPOSITIONS, NAMESPACE, "shop")


COMES = Actor(_reclaim, frozenset({COMPOSITIONS}), mortal=False)
GOES = Actor(_leave, frozenset({COMPOSITIONS}), mortal=False)


def stored(world: World, since: timedelta | None) -> None:
    """Two snapshots of `shop`; marked that long ago, or not at all."""
    for number in (1, 2):
        for secret in world.remember([entry()], uuid=f"u{number}", synthesized=f"2026-02-0{number}T00:00:00Z"):
            if since is not None:
                note = {UNCLAIMED_SINCE_ANNOTATION: (NOW - since).strftime("%Y-%m-%dT%H:%M:%SZ")}
                body = {"metadata": {"annotations": note}}
                world.down.merge_patch(SECRETS, "kube-system", secret["metadata"]["name"], body)


def claimed(world: World) -> bool:
    return any(Composition.from_json(each).opted_in for each in world.all(COMPOSITIONS))


def the_newest_goes_last(world: World) -> None:
    uuids = [each["metadata"]["annotations"][f"{PREFIX}synthesis-uuid"] for each in world.secrets()]
    assert sorted(uuids) in ([], ["u2"], ["u1", "u2"])


def it_ends_quiet(world: World) -> None:
    for _ in range(2):
        retire(retire_message(), world.context)
    before = len(world.writes)
    retire(retire_message(), world.context)
    assert len(world.writes) == before
    marks = [UNCLAIMED_SINCE_ANNOTATION in each["metadata"]["annotations"] for each in world.secrets()]
    assert all(mark is not claimed(world) for mark in marks)


@pytest.mark.parametrize("since", [None, timedelta(days=3), timedelta(days=8)], ids=["unmarked", "marked", "due"])
@pytest.mark.parametrize("other", [COMES, GOES, None], ids=["it comes back", "it goes", "nothing happens"])
def test_two_workers_retire_at_every_step(since: timedelta | None, other: Actor | None) -> None:
    world = World()
    stored(world, since)
    if other is GOES:
        world.add_composition(current=RECOVERED)
    actors = {"a": RETIRING, "b": RETIRING, **({"eno": other} if other else {})}
    explore(world, actors, check=the_newest_goes_last, final=it_ends_quiet, crashes=2)


def test_what_was_claimed_before_the_workers_began_is_never_deleted() -> None:
    world = World()
    stored(world, timedelta(days=8))
    world.add_composition(current=RECOVERED)

    def nothing_is_gone(now: World) -> None:
        assert len(now.secrets()) == 2

    explore(world, {"a": RETIRING, "b": RETIRING}, check=nothing_is_gone, final=it_ends_quiet, crashes=2)
