"""cleanup through its handler: each sentence of its specification, on the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from devcluster.eno import Eno
from eno.errors import Conflict, Forbidden, Invalid, NotFound, ServerError, SextonError, StartOver
from eno.times import format_time
from kube.cluster import Query
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, Resource
from tests.support.factories import NAMESPACE, NOW, UUID, Json, decided, entry, manifest, synthesis
from tests.support.interleave import Actor, explore
from tests.support.tap import Tap, fail, once
from tests.support.world import Clock, World, cleanup_message, recover_message
from workers.context import Context
from workers.handlers.cleanup import cleanup
from workers.handlers.recover import recover
from workers.outcome import Kind, Outcome

SLICES = Query(RESOURCE_SLICES, NAMESPACE)
OURS, THEIRS = "eno.azure.io/cleanup", "example.org/hold"
UNNEEDED = "delete: nothing needs it"
RELEASED = "release: it is terminating and nothing waits for it"


def old_slice(world: World, name: str = "a", **fields: Any) -> None:
    """A slice that is older than 5 s and terminating if `deleting`."""
    deleting = fields.pop("deleting", False)
    created, world.clock.now = world.clock.now, world.clock.now - timedelta(minutes=1)
    world.add_slice(name, [manifest()], **fields)
    world.clock.now = created
    if deleting:
        world.up.delete(RESOURCE_SLICES, NAMESPACE, name)


def run(world: World, *names: str, uuid: str | None = None, uid: str | None = None, **fields: Any) -> Outcome:
    """Send what a watcher would send whose cache is up to date."""
    with suppress(NotFound):
        live = world.composition()
        uid = live.uid if uid is None else uid
        uuid = (live.current.uuid if live.current else "") if uuid is None else uuid
    message = cleanup_message(*(names or ("a",)), uid="gone" if uid is None else uid, uuid=uuid or "", **fields)
    return cleanup(message, world.context)


def slices(world: World) -> dict[str, list[str]]:
    """Name and finalizers of every slice that is there."""
    return {each["metadata"]["name"]: each["metadata"].get("finalizers", []) for each in world.all(RESOURCE_SLICES)}


def terminating(world: World, name: str = "a") -> bool:
    return world.slice(name).deleting


def settle_down(world: World, *names: str) -> None:
    """Run until there is nothing left to do."""
    for _ in range(5):
        before = len(world.writes)
        run(world, *names)
        if len(world.writes) == before:
            return
    raise AssertionError("cleanup goes on writing")


@dataclass
class Recording(Tap):
    """Remembers patches and deletes as they were sent."""

    sent: list[Any] = field(default_factory=list)

    def json_patch(self, resource: Resource, namespace: Any, name: Any, operations: Any, **options: Any) -> Json:
        self.sent.append(list(operations))
        return super().json_patch(resource, namespace, name, operations, **options)

    def delete(self, resource: Resource, namespace: Any, name: Any, **preconditions: Any) -> None:
        self.sent.append(preconditions)
        super().delete(resource, namespace, name, **preconditions)


# --- what is read, and what is written ----------------------------------------------------------------------


def test_a_slice_that_nothing_needs_goes_in_two_steps() -> None:
    world = World()
    world.add_composition()
    old_slice(world)
    assert run(world) == Outcome(Kind.DONE, f"1 × {UNNEEDED}")
    assert terminating(world)
    assert run(world) == Outcome(Kind.DONE, f"1 × {RELEASED}")
    assert slices(world) == {}


def test_each_slice_and_then_the_composition_are_read_live() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["b"]))
    for name in ("a", "b"):
        old_slice(world, name)
    run(world, "a", "b")
    assert [f"{call} {call.name}" for call in world.upstream.calls] == [
        "get resourceslices a",
        "get compositions shop",
        "delete resourceslices a",
        "get resourceslices b",
        "get compositions shop",
    ]


def test_a_delete_carries_uid_and_version() -> None:
    world = World()
    world.add_composition()
    old_slice(world)
    before = world.slice("a")
    world.upstream = recording = Recording(world.up)
    run(world)
    assert recording.sent == [{"uid": before.uid, "resource_version": before.resource_version}]


def test_a_release_tests_uid_and_version_and_the_value_at_its_index() -> None:
    world = World()
    world.add_composition()
    old_slice(world, finalizers=[THEIRS, OURS], deleting=True)
    before = world.slice("a")
    world.upstream = recording = Recording(world.up)
    run(world)
    assert recording.sent == [
        [
            {"op": "test", "path": "/metadata/uid", "value": before.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": before.resource_version},
            {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]
    ]


def test_the_composition_is_never_modified() -> None:
    world = World()
    before = world.add_composition()
    old_slice(world, "a")
    old_slice(world, "b", deleting=True)
    settle_down(world, "a", "b")
    assert slices(world) == {}
    assert world.composition() == before


def test_a_slice_that_is_gone_is_success() -> None:
    world = World()
    world.add_composition()
    assert run(world) == Outcome(Kind.UNCHANGED, "nothing is left")


@pytest.mark.parametrize("deleting", [False, True], ids=["delete", "release"])
def test_a_slice_that_goes_meanwhile_is_success(deleting: bool) -> None:
    world = World()
    world.add_composition()
    old_slice(world, deleting=deleting)

    def let_go() -> None:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"finalizers": None}})
        with suppress(NotFound):
            world.up.delete(RESOURCE_SLICES, NAMESPACE, "a")

    on = "patch resourceslices" if deleting else "delete resourceslices"
    world.upstream.before = once(let_go, on=on)
    run(world)
    assert slices(world) == {}


def test_the_reason_of_every_fate_is_in_the_outcome_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["b"]))
    for name in ("a", "b", "c"):
        old_slice(world, name, deleting=name == "c")
    with caplog.at_level(logging.INFO, logger="workers.handlers.cleanup"):
        outcome = run(world, "a", "b", "c")
    assert outcome == Outcome(
        Kind.DONE, f"1 × {UNNEEDED}; 1 × keep: the current synthesis references it; 1 × {RELEASED}"
    )
    told = [(vars(record)["action"], vars(record)["slice"], record.getMessage()) for record in caplog.records]
    assert told == [
        ("slice-delete", "a", "nothing needs it"),
        ("slice-keep", "b", "the current synthesis references it"),
        ("slice-release", "c", "it is terminating and nothing waits for it"),
    ]


def test_converged_makes_no_write_whatever_is_enqueued_again() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a"]), previousSynthesis=synthesis("old", slices=["b"]))
    for name in ("a", "b", "c"):
        old_slice(world, name)
    old_slice(world, "held", finalizers=[THEIRS], deleting=True)
    names = ("a", "b", "c", "held")
    settle_down(world, *names)
    assert slices(world) == {"a": [OURS], "b": [OURS], "held": [THEIRS]}
    before = len(world.writes)
    for advance in (0, 600, 86_400):
        world.clock.advance(seconds=advance)
        for uuid in (UUID, "older", ""):
            run(world, *names, uuid=uuid)
    assert len(world.writes) == before


# --- owners -------------------------------------------------------------------------------------------------

REFERENCE: Json = {
    "apiVersion": "eno.azure.io/v1",
    "kind": "Composition",
    "name": "shop",
    "uid": "u",
    "controller": True,
}
NO_OWNERS = {
    "no owner": [],
    "not a controller": [{**REFERENCE, "controller": False}],
    "another kind": [{**REFERENCE, "kind": "Symphony"}],
    "another group": [{**REFERENCE, "apiVersion": "apps/v1"}],
}


@pytest.mark.parametrize("references", NO_OWNERS.values(), ids=NO_OWNERS.keys())
def test_without_a_controlling_composition_a_slice_is_left_alone_and_reported(
    references: list[Json], caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    old_slice(world, ownerReferences=references)
    with caplog.at_level(logging.WARNING, logger="workers.handlers.cleanup"):
        assert run(world, uid="", name="") == Outcome(Kind.UNCHANGED, "1 × keep: no composition controls it")
    assert [record.getMessage() for record in caplog.records] == ["no composition controls it"]
    assert world.writes == []


@pytest.mark.parametrize("references", NO_OWNERS.values(), ids=NO_OWNERS.keys())
def test_without_a_controlling_composition_a_terminating_slice_is_released(references: list[Json]) -> None:
    world = World(settings={"composition_label_selector": "a=b"})
    old_slice(world, ownerReferences=references, deleting=True)
    assert run(world, uid="", name="") == Outcome(Kind.DONE, f"1 × {RELEASED}")
    assert slices(world) == {}


def test_a_slice_of_another_owner_than_the_watcher_saw_is_kept() -> None:
    world = World()
    world.add_composition()
    old_slice(world)
    for deleting in (False, True):
        if deleting:
            world.up.delete(RESOURCE_SLICES, NAMESPACE, "a")
        for uid in ("another", ""):
            assert run(world, uid=uid).reason == "1 × keep: it has another owner than the watcher saw"
    assert world.writes == []


def test_a_slice_whose_composition_is_gone_goes_by_the_conditions_that_are_left() -> None:
    world = World()
    old_slice(world)
    assert run(world) == Outcome(Kind.DONE, f"1 × {UNNEEDED}")
    settle_down(world)
    assert slices(world) == {}


def test_a_slice_whose_composition_was_recreated_goes_unless_the_new_one_refers_to_it() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a"]))
    old_slice(world, "a", uid="former")
    old_slice(world, "b", uid="former")
    old_slice(world, "c", uid="former", deleting=True)
    outcome = run(world, "a", "b", "c", uid="former")
    assert outcome.reason == f"1 × {UNNEEDED}; 1 × keep: the current synthesis references it; 1 × {RELEASED}"


# --- scope --------------------------------------------------------------------------------------------------


def test_a_message_about_another_namespace_changes_nothing() -> None:
    world = World(settings={"composition_namespace": "other"})
    world.add_composition()
    old_slice(world)
    assert run(world) == Outcome(Kind.NOT_IN_SCOPE, "namespace apps is outside other")
    assert world.upstream.calls == []


@pytest.mark.parametrize("deleting", [False, True], ids=["alive", "terminating"])
def test_slices_of_a_composition_that_the_selector_leaves_out_are_left_alone(deleting: bool) -> None:
    world = World(settings={"composition_label_selector": "a=b"})
    world.add_composition()
    old_slice(world, deleting=deleting)
    assert run(world).reason == "1 × keep: out of scope: labels do not match a=b"
    assert world.writes == []


def test_where_a_selector_is_set_and_the_composition_is_gone_slices_are_released_and_never_deleted() -> None:
    world = World(settings={"composition_label_selector": "a=b"})
    old_slice(world, "a")
    old_slice(world, "b", deleting=True)
    unproven = "keep: its composition is gone, so the label selector cannot be checked"
    assert run(world, "a", "b").reason == f"1 × {unproven}; 1 × {RELEASED}"
    assert slices(world) == {"a": [OURS]}
    assert not terminating(world)


def test_slices_of_compositions_that_are_not_opted_in_are_cleaned_up_too() -> None:
    world = World()
    world.add_composition(opted_in=False)
    old_slice(world)
    assert run(world).kind is Kind.DONE


# --- terminating slices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "released"),
    [
        pytest.param({"slices": ["a"]}, False, id="current is not reconciled: it is needed for deletion"),
        pytest.param({"slices": ["a"], "reconciled": format_time(NOW)}, True, id="current is reconciled"),
        pytest.param({"slices": ["b"]}, True, id="current does not refer to it"),
    ],
)
def test_a_terminating_slice_is_released_unless_current_still_needs_it(current: Json, released: bool) -> None:
    world = World()
    world.add_composition(current=synthesis(**current))
    old_slice(world, deleting=True)
    run(world)
    assert slices(world) == ({} if released else {"a": [OURS]})


def test_a_release_leaves_the_finalizers_of_others() -> None:
    world = World()
    world.add_composition()
    old_slice(world, finalizers=[THEIRS, OURS, "example.org/other"], deleting=True)
    run(world)
    assert slices(world) == {"a": [THEIRS, "example.org/other"]}
    assert run(world) == Outcome(Kind.UNCHANGED, "1 × keep: only finalizers of others hold it")
    assert len(world.writes) == 1


class Earlier(Tap):
    """Answers the first read of the slice with what it was before."""

    before_that: Json | None = None

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        found = super().get(resource, namespace, name, metadata_only=metadata_only)
        if resource == RESOURCE_SLICES and self.before_that is not None:
            found, self.before_that = self.before_that, None
        return found


@pytest.mark.parametrize("after", [[THEIRS, OURS], [OURS, THEIRS]], ids=["before ours", "after ours"])
@pytest.mark.parametrize("between", [False, True], ids=["before the read", "between read and patch"])
def test_a_finalizer_that_somebody_else_inserts_survives(after: list[str], between: bool) -> None:
    world = World()
    world.add_composition()
    old_slice(world)
    seen = world.up.get(RESOURCE_SLICES, NAMESPACE, "a")
    world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"finalizers": after}})
    world.up.delete(RESOURCE_SLICES, NAMESPACE, "a")
    world.upstream = earlier = Earlier(world.up)
    if between:
        # A server takes no new finalizer on a terminating object, so the deletion has to be in between, too.
        seen["metadata"]["deletionTimestamp"] = format_time(NOW)
        earlier.before_that = seen
    run(world)
    assert slices(world) == {"a": [THEIRS]}


def test_a_finalizer_of_somebody_else_that_goes_meanwhile_does_not_make_us_remove_another() -> None:
    world = World()
    world.add_composition()
    old_slice(world, finalizers=[THEIRS, OURS, "example.org/other"], deleting=True)

    def let_go() -> None:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"finalizers": [OURS, "example.org/other"]}})

    world.upstream.before = once(let_go, on="patch resourceslices")
    run(world)
    assert slices(world) == {"a": ["example.org/other"]}


# --- all others ---------------------------------------------------------------------------------------------


def test_a_young_slice_waits_for_the_rest_of_5_s_by_its_own_creation_time() -> None:
    world = World()
    world.add_composition()
    world.add_slice("a", [manifest()])
    world.clock.advance(seconds=2)
    outcome = run(world)
    assert outcome.kind is Kind.WAITING
    assert outcome.until == NOW + timedelta(seconds=5) + datetime.resolution
    world.clock.now = outcome.until
    assert run(world).kind is Kind.DONE, "at that instant it goes; nothing was remembered"


def test_the_earliest_wait_counts_and_does_not_keep_others_from_going() -> None:
    world = World()
    world.add_composition()
    world.add_slice("a", [manifest()])
    world.clock.advance(seconds=1)
    world.add_slice("b", [manifest()])
    old_slice(world, "c")
    outcome = run(world, "b", "a", "c")
    assert outcome == Outcome(
        Kind.WAITING, f"1 × {UNNEEDED}; 2 × keep: it is young", NOW + timedelta(seconds=5) + datetime.resolution
    )
    assert terminating(world, "c")


@pytest.mark.parametrize("which", ["currentSynthesis", "previousSynthesis"])
def test_a_slice_that_current_or_previous_refers_to_is_kept(which: str) -> None:
    world = World()
    world.add_composition(current=synthesis())
    world.patch_composition(subresource="status", status={which: synthesis(UUID, slices=["", "a"])})
    old_slice(world)
    run(world)
    assert not terminating(world)


@pytest.mark.parametrize(
    ("live", "asked"),
    [
        pytest.param(synthesis(), "older", id="another synthesis is current"),
        pytest.param({}, UUID, id="none is current any more"),
        pytest.param(synthesis(), "", id="one is current since"),
    ],
)
@pytest.mark.parametrize("deleting", [False, True], ids=["alive", "terminating"])
def test_where_the_watchers_view_and_the_live_one_differ_the_slice_is_kept(
    live: Json, asked: str, deleting: bool
) -> None:
    world = World()
    world.add_composition(current=live)
    old_slice(world, deleting=deleting)
    assert run(world, uuid=asked).reason == "1 × keep: the watcher saw another synthesis"
    assert world.writes == []


def test_where_the_composition_is_gone_since_the_watcher_asked_the_slice_is_kept_until_it_asks_again() -> None:
    world = World()
    old_slice(world, uid="gone")
    assert run(world, uuid=UUID).reason == "1 × keep: the watcher saw another synthesis"
    assert run(world).kind is Kind.DONE


class Synthesizing:
    """A composition whose second synthesis runs. Eno's clock may be ahead of the API server's."""

    def __init__(self, *, ahead: timedelta = timedelta(0)) -> None:
        self.world = World(clock=Clock())
        self.world.add_composition(current=synthesis(slices=["a"], **DECIDED))
        self.world.add_slice("a", [manifest()])
        self.world.clock.advance(hours=1)
        self.ahead = ahead
        self.uuids = iter(["synthesis-3", "synthesis-4", "synthesis-5"])
        self.start()

    @property
    def eno(self) -> Eno:
        return Eno(self.world.up, lambda: self.world.clock() + self.ahead, lambda: next(self.uuids))

    def start(self) -> str:
        """Start a synthesis on request and return its UUID."""
        request = {"eno.azure.io/force-resynthesis": self.world.composition().latest_uuid}
        self.world.patch_composition(metadata={"annotations": request})
        uuid = self.eno.dispatch(NAMESPACE, "shop")
        assert uuid is not None
        return uuid

    def make_slice(self) -> str:
        """What the executor does before it publishes."""
        (name,) = self.eno.write_slices(NAMESPACE, "shop", [manifest()])
        return name

    def finish(self, uuid: str, name: str) -> None:
        """Publish, and let the gate of the new synthesis be somebody else's business."""
        assert self.eno.publish(NAMESPACE, "shop", uuid, [name])


DECIDED: Json = {"tombstoneRecoveryStatus": decided()}


@pytest.mark.parametrize("ahead", [-9, 0, 9], ids=["behind", "in step", "ahead"])
@pytest.mark.parametrize("minutes", [0, 1, 9, 30, 600])
def test_a_slice_made_by_a_running_synthesis_is_never_deleted_however_slow_it_is(ahead: int, minutes: int) -> None:
    scene = Synthesizing(ahead=timedelta(minutes=ahead))
    name = scene.make_slice()
    assert scene.world.slice(name).synthesis_uuid == UUID, "it is stamped with the older UUID"
    scene.world.clock.advance(minutes=minutes, seconds=6)
    assert run(scene.world, name).reason == "1 × keep: it may belong to the in-flight synthesis"
    scene.finish("synthesis-3", name)
    assert run(scene.world, name).reason == "1 × keep: the current synthesis references it"
    assert not terminating(scene.world, name)


def test_a_slice_of_a_canceled_synthesis_is_deleted_once_that_is_superseded() -> None:
    scene = Synthesizing(ahead=timedelta(minutes=9))
    name = scene.make_slice()
    scene.world.clock.advance(minutes=1)
    scene.eno.cancel(NAMESPACE, "shop")
    uuid = scene.start()
    successor = scene.make_slice()
    scene.world.clock.advance(minutes=1)
    assert run(scene.world, name).kind is Kind.UNCHANGED, "nobody can tell it from the successor's"
    scene.finish(uuid, successor)
    settle_down(scene.world, name, successor, "a")
    assert sorted(slices(scene.world)) == sorted(["a", successor])


def test_a_slice_of_a_canceled_synthesis_is_deleted_while_no_other_runs() -> None:
    scene = Synthesizing()
    name = scene.make_slice()
    scene.eno.cancel(NAMESPACE, "shop")
    scene.world.clock.advance(seconds=6)
    settle_down(scene.world, name, "a")
    assert list(slices(scene.world)) == ["a"]


def test_a_slice_far_older_than_the_running_synthesis_is_deleted_meanwhile() -> None:
    scene = Synthesizing(ahead=timedelta(minutes=9))
    old_slice(scene.world, "left-over")
    scene.world.clock.now = NOW + timedelta(hours=2)
    scene.world.patch_composition(subresource="status", status={"inFlightSynthesis": None})
    scene.start()
    settle_down(scene.world, "left-over", "a")
    assert list(slices(scene.world)) == ["a"]


# --- overflow -----------------------------------------------------------------------------------------------


def with_overflow(world: World) -> str:
    """Run a recovery until its overflow slice is written but not published; return its name."""
    world.add_composition(current=synthesis(slices=["full"]))
    world.add_slice("full", [manifest(name="x" * 524_200)])
    world.remember([entry(name="lost")])
    world.upstream.before = fail(ServerError("crash", status=500), on="patch compositions/status", times=2)
    with pytest.raises(ServerError):
        recover(recover_message(world.composition()), world.context)
    world.upstream = Tap(world.up)
    (name,) = [name for name in slices(world) if name != "full"]
    world.clock.advance(seconds=6)
    return name


def test_overflow_that_is_not_published_yet_is_kept_and_looked_at_again_every_5_s() -> None:
    world = World()
    name = with_overflow(world)
    for _ in range(3):
        outcome = run(world, name)
        assert outcome == Outcome(
            Kind.WAITING, "1 × keep: its recovery has not published it yet", world.clock() + timedelta(seconds=5)
        )
        world.clock.advance(minutes=10)
    assert world.writes == []


def test_an_unmarked_slice_is_not_protected_by_a_recovery_that_is_pending() -> None:
    world = World()
    with_overflow(world)
    old_slice(world, stamp=UUID)
    assert run(world).kind is Kind.DONE


def _supersede(world: World) -> None:
    world.patch_composition(subresource="status", status={"currentSynthesis": {"uuid": "synthesis-3"}})


def _finish_without_it(world: World) -> None:
    status = {"currentSynthesis": {"tombstoneRecoveryStatus": decided("InventoryNotFound")}}
    world.patch_composition(subresource="status", status=status)


def _opt_out(world: World) -> None:
    world.patch_composition(metadata={"annotations": {"eno.azure.io/recovery-enabled": None}})


def _begin_deletion(world: World) -> None:
    world.patch_composition(metadata={"finalizers": [OURS]})
    world.up.delete(COMPOSITIONS, NAMESPACE, "shop")


def _finish_deletion(world: World) -> None:
    _begin_deletion(world)
    world.patch_composition(metadata={"finalizers": None})


@pytest.mark.parametrize(
    "change",
    [_supersede, _finish_without_it, _opt_out, _begin_deletion, _finish_deletion],
    ids=lambda change: change.__name__.strip("_").replace("_", " "),
)
def test_overflow_is_removed_when_nothing_will_publish_it_any_more(change: Callable[[World], None]) -> None:
    world = World()
    name = with_overflow(world)
    uid = world.composition().uid
    change(world)
    for _ in range(2):
        run(world, name, uid=uid)
    assert name not in slices(world)


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["get resourceslices", "get compositions", "delete resourceslices"])
@pytest.mark.parametrize(
    "error", [ServerError("call", status=503), Forbidden("call", status=403)], ids=["server error", "forbidden"]
)
def test_a_failing_call_is_never_absence(on: str, error: SextonError) -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["a"] if on == "get compositions" else []))
    old_slice(world)
    world.upstream.before = fail(error, on=on)
    with pytest.raises(type(error)):
        run(world)
    assert not terminating(world)


def test_a_slice_that_cannot_be_judged_is_kept_and_does_not_keep_others_from_going(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.add_composition()
    old_slice(world, "a")
    old_slice(world, "b")

    class Garbled(Tap):
        def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
            found = super().get(resource, namespace, name, metadata_only=metadata_only)
            return {**found, "spec": 7} if name == "a" else found

    world.upstream = Garbled(world.up)
    outcome = run(world, "a", "b")
    assert outcome.kind is Kind.DONE
    assert "1 × keep: it cannot be judged: spec:" in outcome.reason
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert not terminating(world, "a")
    assert terminating(world, "b")


def test_a_slice_that_changes_before_it_is_deleted_is_judged_anew() -> None:
    world = World()
    world.add_composition()
    old_slice(world)

    def adopt() -> None:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"labels": {"touched": "true"}}})
        world.patch_composition(subresource="status", status={"previousSynthesis": {"resourceSlices": [{"name": "a"}]}})

    world.upstream.before = once(adopt, on="delete resourceslices")
    assert run(world).reason == "1 × keep: the previous synthesis references it"
    assert not terminating(world)


def test_a_slice_that_was_recreated_under_its_name_is_not_deleted_for_the_former_one() -> None:
    world = World()
    world.add_composition()
    old_slice(world)

    def recreate() -> None:
        world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"finalizers": None}})
        world.up.delete(RESOURCE_SLICES, NAMESPACE, "a")
        world.add_slice("a", [manifest()])

    world.upstream.before = once(recreate, on="delete resourceslices")
    assert run(world).kind is Kind.WAITING, "the new one is young"
    assert not terminating(world)


def test_a_slice_that_changes_all_the_time_is_left_to_a_later_task() -> None:
    world = World()
    world.add_composition()
    old_slice(world)

    def touch(call: object) -> None:
        if str(call) == "delete resourceslices":
            stamp = str(len(world.upstream.calls))
            world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, "a", {"metadata": {"labels": {"touched": stamp}}})

    world.upstream.before = touch
    with pytest.raises(StartOver):
        run(world)
    assert world.writes.count("delete resourceslices") == 3


@pytest.mark.parametrize(
    "error",
    [Invalid("patch", status=422), ServerError("patch", status=500), Conflict("patch", status=409)],
    ids=["422", "500", "409"],
)
def test_a_refused_release_of_an_unchanged_slice_is_raised_as_it_is(error: SextonError) -> None:
    world = World()
    world.add_composition()
    old_slice(world, deleting=True)
    world.upstream.before = fail(error, on="patch resourceslices")
    with pytest.raises(type(error)) as caught:
        run(world)
    assert caught.value is error
    assert run(world).kind is Kind.DONE


# --- interleavings ------------------------------------------------------------------------------------------


def cleaning(world: World, *names: str) -> Actor:
    """A worker with a message about these slices, as the watcher sees the composition now."""
    composition = world.composition()
    message = cleanup_message(*names, uid=composition.uid, uuid=UUID)

    def work(context: Context) -> None:
        for _ in range(2):
            with suppress(SextonError):
                cleanup(message, context)

    return Actor(work, frozenset({RESOURCE_SLICES}))


def nothing_needed_ends(world: World) -> None:
    """P4: no slice that current or previous refers to is missing or terminating."""
    composition = world.composition()
    for each in (composition.current, composition.previous):
        for name in each.slice_names if each else ():
            assert name is None or not world.slice(name).deleting


def test_overflow_survives_a_cleanup_at_every_step_of_its_recovery() -> None:
    world = World()
    name = with_overflow(world)
    message = recover_message(world.composition())
    world.up.merge_patch(RESOURCE_SLICES, NAMESPACE, name, {"metadata": {"finalizers": None}})
    world.up.delete(RESOURCE_SLICES, NAMESPACE, name)
    late = Clock(world.clock.now + timedelta(hours=1))

    def clean(context: Context) -> None:
        # Its clock is ahead, so that the slice that is about to be written is old at once.
        act = cleaning(world, "full", name).act
        act(Context(context.upstream, context.downstream, late, context.settings, context.corrections))

    actors = {
        "recover": Actor(lambda context: recover(message, context), frozenset({COMPOSITIONS, RESOURCE_SLICES})),
        "cleanup": Actor(clean, frozenset({RESOURCE_SLICES})),
    }

    def recovered(world: World) -> None:
        nothing_needed_ends(world)
        recover(message, world.context)
        assert world.tombstones() == ["lost"]

    assert explore(world, actors, check=nothing_needed_ends, final=recovered, crashes=2).ends


@pytest.mark.parametrize("ahead", [-9, 0, 9], ids=["behind", "in step", "ahead"])
def test_a_running_synthesis_keeps_its_slices_through_a_cleanup_at_every_step(ahead: int) -> None:
    scene = Synthesizing(ahead=timedelta(minutes=ahead))
    scene.world.patch_composition(subresource="status", status={"inFlightSynthesis": None})
    scene.world.clock.advance(hours=1)
    late = Clock(scene.world.clock.now + timedelta(minutes=30))

    def synthesize(context: Context) -> None:
        eno = Eno(context.upstream, lambda: scene.world.clock() + scene.ahead, lambda: "synthesis-9")
        uuid = eno.dispatch(NAMESPACE, "shop")
        if uuid is not None:
            eno.publish(NAMESPACE, "shop", uuid, eno.write_slices(NAMESPACE, "shop", [manifest()]))

    def clean(context: Context) -> None:
        # As a watcher would that sees every slice there is.
        late_context = Context(context.upstream, context.downstream, late, context.settings, context.corrections)
        uid = scene.world.composition().uid
        for uuid in (UUID, "synthesis-9"):
            names = [each["metadata"]["name"] for each in context.upstream.list_page(SLICES).items]
            with suppress(SextonError):
                cleanup(cleanup_message(*names, uid=uid, uuid=uuid), late_context)

    actors = {
        "eno": Actor(synthesize, frozenset({COMPOSITIONS, RESOURCE_SLICES}), mortal=False),
        "cleanup": Actor(clean, frozenset({RESOURCE_SLICES})),
    }

    def published(world: World) -> None:
        nothing_needed_ends(world)
        current = world.composition().current
        assert current is not None
        assert current.uuid == "synthesis-9"

    assert explore(scene.world, actors, check=nothing_needed_ends, final=published).ends


def test_two_cleanups_in_any_order_of_their_calls_end_alike() -> None:
    world = World()
    world.add_composition(current=synthesis(slices=["b"]))
    for name in ("a", "b"):
        old_slice(world, name)

    def only_the_needed_is_left(world: World) -> None:
        settle_down(world, "a", "b")
        assert slices(world) == {"b": [OURS]}

    actors = {"first": cleaning(world, "a", "b"), "second": cleaning(world, "b", "a")}
    assert explore(world, actors, check=nothing_needed_ends, final=only_the_needed_is_left, crashes=1).ends
