"""retire through its handler: mark, wait, ask once more, delete. The wait is on the Secret, never in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from eno.errors import Conflict, Forbidden, Invalid, MalformedObject, ServerError, StartOver
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from kube.resources import COMPOSITIONS, SECRETS
from tests.support.factories import NAMESPACE, NOW, Json, decided, entry, synthesis
from tests.support.tap import fail, once, raising
from tests.support.world import World, retire_message
from workers.handlers.retire import retire
from workers.outcome import Kind, Outcome

PREFIX = "eno.azure.io/inventory-"
KUBE_SYSTEM = "kube-system"
GRACE = timedelta(days=7)
RECOVERED = synthesis(tombstoneRecoveryStatus=decided())


class Crash(BaseException):
    """The end of the process: nothing handles it."""


def run(world: World, **context: Any) -> Outcome:
    return retire(retire_message(), replace(world.context, **context))


def kept(world: World) -> list[str]:
    """The synthesis UUIDs that are still stored."""
    return sorted(each["metadata"]["annotations"][f"{PREFIX}synthesis-uuid"] for each in world.secrets())


def marks(world: World) -> list[str | None]:
    return [each["metadata"].get("annotations", {}).get(UNCLAIMED_SINCE_ANNOTATION) for each in world.secrets()]


def mark(world: World, since: datetime | str) -> None:
    """Mark every Secret, as an earlier task did."""
    text = since if isinstance(since, str) else since.strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in world.secrets():
        note = {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: text}}}
        world.down.merge_patch(SECRETS, KUBE_SYSTEM, each["metadata"]["name"], note)


def test_an_unclaimed_inventory_is_marked_with_now() -> None:
    world = World()
    world.remember([entry()])
    outcome = run(world)
    assert outcome == Outcome(Kind.WAITING, "1 × unclaimed since now", NOW + GRACE)
    assert marks(world) == ["2026-03-01T12:00:00Z"]
    assert world.writes == ["patch secrets"]


def test_the_mark_changes_nothing_else() -> None:
    world = World()
    (before,) = world.remember([entry()])
    run(world)
    (after,) = world.secrets()
    del after["metadata"]["annotations"][UNCLAIMED_SINCE_ANNOTATION]
    for secret in (before, after):
        del secret["metadata"]["resourceVersion"]
        secret["metadata"].pop("managedFields", None)
    assert {**before, "kind": "", "apiVersion": ""} == {**after, "kind": "", "apiVersion": ""}


def test_a_claimed_inventory_costs_two_lists_and_no_write() -> None:
    world = World()
    world.add_composition(current=RECOVERED)
    world.remember([entry()])
    assert run(world) == Outcome(Kind.UNCHANGED, "1 × claimed: shop exists")
    assert world.downstream.counts() == {"list secrets": 1}
    assert world.upstream.counts() == {"list compositions": 1}


def test_within_the_grace_nothing_is_written_however_often_it_is_looked_at() -> None:
    world = World()
    world.remember([entry()])
    run(world)
    for hours in (1, 24, 5 * 24, 22):
        world.clock.advance(hours=hours)
        outcome = run(world)
        assert (outcome.kind, outcome.until) == (Kind.WAITING, NOW + GRACE)
    assert world.writes == ["patch secrets"]
    assert kept(world) == ["synthesis-1"]


def test_what_is_claimed_again_within_the_grace_loses_its_mark_and_starts_anew_later() -> None:
    world = World()
    world.remember([entry()])
    run(world)
    world.clock.advance(days=6)
    world.add_composition(current=RECOVERED)
    assert run(world).kind is Kind.DONE
    assert marks(world) == [None]
    world.clock.advance(days=6)
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    assert run(world).until == NOW + timedelta(days=12) + GRACE
    assert kept(world) == ["synthesis-1"]


def test_a_claim_that_was_taken_back_while_its_marks_were_removed_begins_the_grace_anew_for_all() -> None:
    world = World()
    world.remember([entry()], uuid="old", synthesized="2026-02-01T00:00:00Z")
    world.remember([entry()], uuid="new", synthesized="2026-02-02T00:00:00Z")
    mark(world, NOW - timedelta(days=30))
    world.add_composition(current=RECOVERED)
    world.downstream.after = once(raising(Crash()), on="patch secrets")
    with pytest.raises(Crash):
        run(world)
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    run(world)
    assert kept(world) == ["new", "old"], "and not the older one alone"
    world.clock.advance(days=7)
    run(world)
    assert kept(world) == []


def test_after_the_grace_it_is_deleted_and_then_there_is_nothing_to_do() -> None:
    world = World()
    world.remember([entry()])
    run(world)
    world.clock.advance(days=7)
    assert run(world) == Outcome(Kind.DONE, "1 × unclaimed for longer than the grace")
    assert world.secrets() == []
    assert run(world) == Outcome(Kind.UNCHANGED, "nothing is stored")


@pytest.mark.parametrize(
    ("before", "ahead"),
    [
        pytest.param(timedelta(0), GRACE, id="before it was marked"),
        pytest.param(timedelta(days=3), timedelta(days=4), id="within the grace"),
        pytest.param(timedelta(days=9), timedelta(0), id="after the grace, which passed while nothing ran"),
    ],
)
def test_a_restart_neither_restarts_nor_skips_the_grace(before: timedelta, ahead: timedelta) -> None:
    """Nothing is kept between two tasks but what is on the Secret, so a restart is a new task."""
    world = World()
    world.remember([entry()])
    if before:
        mark(world, NOW - before)
    outcome = run(world)
    if ahead:
        assert outcome.until == NOW + ahead
        world.clock.now = NOW + ahead - timedelta(seconds=1)
        run(world)
        assert kept(world) == ["synthesis-1"]
        world.clock.now = NOW + ahead
        run(world)
    assert world.secrets() == []


def test_a_clock_that_was_set_back_only_waits_longer() -> None:
    world = World()
    world.remember([entry()])
    run(world)
    world.clock.advance(days=-30)
    assert run(world).until == NOW + GRACE
    assert world.writes == ["patch secrets"]


@pytest.mark.parametrize("whose", ["ours", "the API server's"])
def test_a_clock_that_is_8_days_ahead_deletes_nothing_early(whose: str) -> None:
    world = World()
    world.remember([entry()])
    run(world)
    ahead = NOW + timedelta(days=8)
    if whose == "ours":
        outcome = run(world, clock=lambda: ahead)
    else:
        world.clock.now = ahead
        outcome = run(world, clock=lambda: NOW)
    assert outcome.until == NOW + GRACE
    assert kept(world) == ["synthesis-1"]


@pytest.mark.parametrize("days", [-8, 8], ids=["set back", "set ahead"])
def test_a_wrong_clock_while_it_is_marked_deletes_nothing_early(days: int) -> None:
    world = World()
    world.remember([entry()])
    run(world, clock=lambda: NOW + timedelta(days=days))
    assert run(world).kind is Kind.WAITING
    world.clock.advance(days=7, seconds=-1)
    run(world)
    assert kept(world) == ["synthesis-1"]


def test_a_grace_of_0_keeps_everything_for_ever() -> None:
    world = World(settings={"retirement_grace": timedelta(0)})
    world.remember([entry()])
    mark(world, NOW - timedelta(days=400))
    world.clock.advance(days=400)
    assert run(world) == Outcome(Kind.UNCHANGED, "1 × unclaimed, and kept for ever")
    assert world.writes == []


def test_siblings_that_share_a_synthesizer_claim_only_their_own() -> None:
    world = World()
    world.add_composition("twin", current=RECOVERED)
    world.remember([entry()])
    world.remember([entry()], name="twin", uuid="twin-1")
    run(world)
    world.clock.advance(days=7)
    run(world)
    assert kept(world) == ["twin-1"]
    assert marks(world) == [None]


def test_a_renamed_composition_claims_history_until_it_was_recovered() -> None:
    world = World()
    world.add_composition("renamed", current=synthesis())
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    assert run(world).kind is Kind.DONE
    assert marks(world) == [None]
    world.patch_composition(
        "renamed", subresource="status", status={"currentSynthesis": {"tombstoneRecoveryStatus": decided()}}
    )
    run(world)
    world.clock.advance(days=7)
    run(world)
    assert world.secrets() == []


def test_an_opted_out_composition_claims_nothing_until_it_opts_in_again() -> None:
    world = World()
    world.add_composition(current=RECOVERED, opted_in=False)
    world.remember([entry()])
    run(world)
    assert marks(world) == ["2026-03-01T12:00:00Z"]
    world.patch_composition(metadata={"annotations": {"eno.azure.io/recovery-enabled": "true"}})
    run(world)
    assert marks(world) == [None]


def test_a_composition_that_is_deleting_claims_its_inventory_to_the_end() -> None:
    world = World()
    world.add_composition(current=RECOVERED, opted_in=False)
    world.patch_composition(metadata={"finalizers": ["eno.azure.io/cleanup"]})
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    run(world)
    assert marks(world) == [None]


def test_a_label_selector_does_not_hide_who_claims() -> None:
    world = World(settings={"composition_label_selector": "team=x"})
    world.add_composition(current=RECOVERED)
    world.remember([entry()])
    assert run(world) == Outcome(Kind.UNCHANGED, "1 × claimed: shop exists")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"enable_tombstone_recovery": False}, id="disabled"),
        pytest.param({"pod_namespace": "other", "all_namespaces": True}, id="not the recovery namespace"),
        pytest.param({"composition_namespace": "other"}, id="not watched"),
    ],
)
def test_a_message_about_something_out_of_scope_changes_nothing(settings: dict[str, Any]) -> None:
    world = World(settings=settings)
    world.remember([entry()])
    assert run(world) == Outcome(Kind.NOT_IN_SCOPE, "outside the recovery scope")
    assert world.upstream.calls == world.downstream.calls == []


def test_a_forged_message_about_the_lineage_of_another_namespace_changes_nothing() -> None:
    world = World()
    world.remember([entry()], namespace="elsewhere")
    message = retire_message(namespace="elsewhere").model_copy(update={"namespace": NAMESPACE})
    assert retire(message, world.context) == Outcome(Kind.UNCHANGED, "nothing is stored")
    assert world.writes == []


def test_what_merely_carries_the_label_is_never_touched() -> None:
    world = World()
    (secret,) = world.remember([entry()])
    labels = secret["metadata"]["labels"]
    for name, kind in (("unrelated", "Opaque"), (f"{secret['metadata']['name'][:-17]}", "example.com/other")):
        note = {UNCLAIMED_SINCE_ANNOTATION: "2020-01-01T00:00:00Z"}
        metadata = {"name": name, "labels": labels, "annotations": note}
        world.down.create(SECRETS, KUBE_SYSTEM, {"metadata": metadata, "type": kind, "data": {}})
    mark(world, NOW - timedelta(days=30))
    run(world)
    assert sorted(each["metadata"]["name"] for each in world.secrets()) == sorted(
        ["unrelated", secret["metadata"]["name"][:-17]]
    )


def test_the_newest_snapshot_goes_last() -> None:
    world = World()
    for uuid, day in (("b", "02"), ("c", "03"), ("a", "01")):
        world.remember([entry()], uuid=uuid, synthesized=f"2026-02-{day}T00:00:00Z")
    mark(world, NOW - timedelta(days=30))
    left: list[list[str]] = []
    world.downstream.after = lambda call: left.append(kept(world)) if call.verb == "delete" else None
    run(world)
    assert left == [["b", "c"], ["c"], []]


def test_what_is_newer_stays_when_what_is_older_cannot_be_deleted() -> None:
    world = World()
    for uuid, day in (("b", "02"), ("a", "01")):
        world.remember([entry()], uuid=uuid, synthesized=f"2026-02-{day}T00:00:00Z")
    mark(world, NOW - timedelta(days=30))
    world.downstream.before = fail(Forbidden("delete secrets", status=403, reason="Forbidden"), on="delete secrets")
    with pytest.raises(Forbidden):
        run(world)
    assert kept(world) == ["a", "b"]


def test_inventories_of_other_lineages_are_not_looked_at() -> None:
    world = World()
    world.add_composition("twin", current=RECOVERED, synthesizer="other")
    world.remember([entry()])
    world.remember([entry()], name="twin", synthesizer="other", uuid="twin-1")
    assert run(world).reason == "1 × unclaimed since now"
    world.clock.advance(days=7)
    run(world)
    assert kept(world) == ["twin-1"]


def test_the_grace_that_ends_first_is_waited_for() -> None:
    world = World()
    world.remember([entry()], name="first")
    mark(world, NOW - timedelta(days=1))
    world.remember([entry()], name="second")
    assert run(world).until == NOW - timedelta(days=1) + GRACE


def _recreate(world: World) -> None:
    world.add_composition(current=RECOVERED)


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_claim_that_comes_while_it_is_deleted_keeps_the_rest(deleted: int) -> None:
    world = World()
    world.remember([entry()], uuid="a", synthesized="2026-02-01T00:00:00Z")
    world.remember([entry()], uuid="b", synthesized="2026-02-02T00:00:00Z")
    mark(world, NOW - timedelta(days=30))
    # The first list plans; each delete is preceded by another.
    world.upstream.before = once(partial(_recreate, world), on="list compositions", nth=2 + deleted)
    assert run(world).kind is Kind.DONE
    assert kept(world) == ["a", "b"][deleted:]
    assert marks(world) == [None] * (2 - deleted)


@pytest.mark.parametrize("call", ["list secrets", "list compositions"])
@pytest.mark.parametrize("since", [timedelta(0), timedelta(days=30)], ids=["unmarked", "due"])
def test_a_list_that_fails_is_never_absence(call: str, since: timedelta) -> None:
    world = World()
    world.add_composition(current=RECOVERED)
    world.remember([entry()])
    if since:
        mark(world, NOW - since)
    tap = world.downstream if call == "list secrets" else world.upstream
    tap.before = once(raising(ServerError(call, status=500)), on=call)
    with pytest.raises(ServerError):
        run(world)
    assert world.writes == []


def test_a_list_that_fails_half_way_is_never_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.add_composition("a", current=RECOVERED)
    world.add_composition(current=RECOVERED)
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    inner = world.upstream.list_page

    def one_by_one(query: Any, *, continue_token: str = "", **_: Any) -> Any:
        if continue_token:
            raise ServerError("list compositions", status=500)
        return inner(query, limit=1)

    monkeypatch.setattr(world.upstream, "list_page", one_by_one)
    with pytest.raises(ServerError):
        run(world)
    assert world.writes == []


def test_the_last_look_must_be_complete_too() -> None:
    world = World()
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    world.upstream.before = once(raising(ServerError("list", status=500)), on="list compositions", nth=2)
    with pytest.raises(ServerError):
        run(world)
    assert world.writes == []


def test_a_composition_that_cannot_be_read_may_be_a_claim() -> None:
    world = World()
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    inner = world.upstream.list_page

    def damaged(query: Any, **options: Any) -> Any:
        page = inner(query, **options)
        broken: Json = {"kind": "Composition", "metadata": {"name": "shop", "namespace": NAMESPACE}, "status": 7}
        return replace(page, items=[*page.items, broken])

    world.upstream.list_page = damaged  # type: ignore[method-assign]
    with pytest.raises(MalformedObject):
        run(world)
    assert world.writes == []


def edit(world: World) -> None:
    for each in world.secrets():
        note = {"metadata": {"annotations": {"note": "edited"}}}
        world.down.merge_patch(SECRETS, KUBE_SYSTEM, each["metadata"]["name"], note)


@pytest.mark.parametrize(
    ("since", "call"),
    [(None, "patch secrets"), (timedelta(days=30), "delete secrets")],
    ids=["before the mark", "before the delete"],
)
def test_a_secret_that_is_edited_meanwhile_is_judged_anew(since: timedelta | None, call: str) -> None:
    world = World()
    world.remember([entry()])
    if since:
        mark(world, NOW - since)
    world.downstream.before = once(partial(edit, world), on=call)
    run(world)
    assert world.writes == [call, call], "the first of them was refused"


def test_a_secret_that_is_claimed_and_unmarked_meanwhile_survives_its_delete() -> None:
    world = World()
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))

    def reclaim() -> None:
        _recreate(world)
        (each,) = world.secrets()
        note = {"metadata": {"annotations": {UNCLAIMED_SINCE_ANNOTATION: None}}}
        world.down.merge_patch(SECRETS, KUBE_SYSTEM, each["metadata"]["name"], note)

    world.downstream.before = once(reclaim, on="delete secrets")
    assert run(world).kind is Kind.UNCHANGED
    assert kept(world) == ["synthesis-1"]


@pytest.mark.parametrize("since", [None, timedelta(days=30)], ids=["to be marked", "to be deleted"])
def test_a_secret_that_is_gone_meanwhile_is_no_error(since: timedelta | None) -> None:
    world = World()
    (secret,) = world.remember([entry()])
    if since:
        mark(world, NOW - since)
    call = "delete secrets" if since else "patch secrets"
    world.downstream.before = once(lambda: world.down.delete(SECRETS, KUBE_SYSTEM, secret["metadata"]["name"]), on=call)
    run(world)
    assert world.secrets() == []


def test_a_patch_that_is_refused_for_good_is_an_error_and_does_not_loop() -> None:
    world = World()
    world.remember([entry()])
    world.downstream.before = once(raising(Invalid("patch secrets", status=422)), on="patch secrets")
    with pytest.raises(Invalid):
        run(world)
    assert world.writes == ["patch secrets"]


def test_a_secret_that_changes_all_the_time_is_left_to_a_later_task() -> None:
    world = World()
    world.remember([entry()])
    mark(world, NOW - timedelta(days=30))
    world.downstream.before = fail(Conflict("delete secrets", status=409), on="delete secrets", times=3)
    with pytest.raises(StartOver):
        run(world)
    run(world)
    assert world.secrets() == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_crash_between_any_two_writes_is_taken_up_again(at: int) -> None:
    def prepared() -> World:
        world = World()
        for number in range(3):
            world.remember([entry()], uuid=f"u{number}", synthesized=f"2026-02-0{number + 1}T00:00:00Z")
        return world

    for verb, since in (("patch secrets", None), ("delete secrets", timedelta(days=30))):
        world = prepared()
        if since:
            mark(world, NOW - since)
        world.downstream.after = once(raising(Crash()), on=verb, nth=at)
        with pytest.raises(Crash):
            run(world)
        run(world)
        assert world.downstream.writes.count(verb) == 3
        assert marks(world) == ([] if since else ["2026-03-01T12:00:00Z"] * 3)


def test_every_delete_and_mark_is_bound_to_uid_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    (secret,) = world.remember([entry()])
    bound: list[Any] = []
    patch, delete = world.downstream.json_patch, world.downstream.delete

    def patching(resource: Any, namespace: Any, name: Any, operations: Any, **options: Any) -> Json:
        bound.append([(each["op"], each["path"]) for each in operations[:2]])
        return patch(resource, namespace, name, operations, **options)

    def deleting(*args: Any, **preconditions: Any) -> None:
        bound.append(sorted(preconditions))
        delete(*args, **preconditions)

    monkeypatch.setattr(world.downstream, "json_patch", patching)
    monkeypatch.setattr(world.downstream, "delete", deleting)
    run(world)
    world.add_composition(current=RECOVERED)
    run(world)
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")
    mark(world, NOW - timedelta(days=30))
    run(world)
    tests = [("test", "/metadata/uid"), ("test", "/metadata/resourceVersion")]
    assert bound == [tests, tests, ["resource_version", "uid"]]
    assert secret["metadata"]["uid"]


def test_retirement_never_reads_what_an_inventory_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.remember([entry()])
    asked: list[bool] = []
    inner = world.downstream.list_page
    monkeypatch.setattr(
        world.downstream,
        "list_page",
        lambda query, **options: asked.append(query.metadata_only) or inner(query, **options),
    )
    run(world)
    assert asked == [True]
