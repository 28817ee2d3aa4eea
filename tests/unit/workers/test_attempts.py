"""Going on where one object is refused, and starting over where one has changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from eno.errors import Forbidden, Invalid, SextonError, StartOver, Throttled, Unauthorized, Unreachable
from kube.resources import SECRETS
from tests.support.factories import entry, manifest
from tests.support.tap import Call
from tests.support.world import World, cleanup_message, retire_message
from workers.attempts import ATTEMPTS, every, persistently
from workers.handlers.cleanup import cleanup
from workers.handlers.retire import retire
from workers.outcome import Kind, Outcome

DONE = Outcome(Kind.DONE)
FORBIDDEN = Forbidden("delete x", status=403)


def scripted(done: list[str], **steps: SextonError | None) -> list[Callable[[], str]]:
    """Steps that note their name, or raise."""

    def step(name: str, error: SextonError | None) -> str:
        if error is not None:
            raise error
        done.append(name)
        return name

    return [partial(step, name, error) for name, error in steps.items()]


def test_the_results_of_all_steps_come_in_order() -> None:
    assert every(scripted([], a=None, b=None)) == ["a", "b"]


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        pytest.param([FORBIDDEN], Forbidden, id="one"),
        pytest.param([FORBIDDEN, StartOver("changed")], Forbidden, id="the first of two"),
        pytest.param([Invalid("patch x", status=422), StartOver("changed")], StartOver, id="a retryable one first"),
    ],
)
def test_a_refused_step_keeps_no_other_from_being_done(errors: list[SextonError], raised: type[SextonError]) -> None:
    done: list[str] = []
    steps = scripted(done, a=None, **{f"bad{index}": error for index, error in enumerate(errors)}, z=None)
    with pytest.raises(raised):
        every(steps)
    assert done == ["a", "z"]


@pytest.mark.parametrize("kind", [Unreachable, Throttled, Unauthorized])
def test_an_error_of_the_whole_server_ends_it_at_once(kind: type[Unreachable]) -> None:
    done: list[str] = []
    with pytest.raises(kind):
        every(scripted(done, a=None, b=kind("get x"), c=None))
    assert done == ["a"]


def test_a_lost_race_is_run_again_but_not_for_ever() -> None:
    runs: list[int] = []

    def attempt(lost: int) -> Outcome:
        runs.append(lost)
        if len(runs) <= lost:
            raise StartOver("changed")
        return DONE

    assert persistently(partial(attempt, ATTEMPTS - 1), {}) is DONE
    runs.clear()
    with pytest.raises(StartOver):
        persistently(partial(attempt, ATTEMPTS), {})
    assert len(runs) == ATTEMPTS


def test_a_slice_that_cannot_be_deleted_starves_no_other() -> None:
    world = World()
    composition = world.add_composition()
    now, world.clock.now = world.clock.now, world.clock.now - timedelta(minutes=1)
    world.add_slice("a", [manifest()])
    world.add_slice("b", [manifest()])
    world.clock.now = now

    def deny(call: Call) -> None:
        if str(call) == "delete resourceslices" and call.name == "a":
            raise FORBIDDEN

    world.upstream.before = deny
    with pytest.raises(Forbidden):
        cleanup(cleanup_message("a", "b", uid=composition.uid), world.context)
    assert not world.slice("a").deleting
    assert world.slice("b").deleting


def test_a_secret_that_cannot_be_marked_starves_no_other() -> None:
    world = World()
    for name in ("first", "second"):
        world.remember([entry()], name=name, uuid=f"{name}-1")

    def deny(call: Call) -> None:
        if call.verb == "patch" and call.resource is SECRETS and call.name.startswith("first"):
            raise FORBIDDEN

    world.downstream.before = deny
    with pytest.raises(Forbidden):
        retire(retire_message(), world.context)
    marked = [
        secret["metadata"]["name"].partition("-")[0]
        for secret in world.secrets()
        if "eno.azure.io/inventory-unclaimed-since" in secret["metadata"]["annotations"]
    ]
    assert marked == ["second"]
