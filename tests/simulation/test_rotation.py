"""History survives (P3): crashes at any write, recorders side by side at every step, a hundred rotations.

After every write of every schedule some complete snapshot that was once Ready can be selected, and it lists what
its synthesis owned.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.interleave import Actor, Explored, explore, play
from tests.support.rotation import Rotation, cut_small, history_is_whole, only_the_current_is_left, owned, selected
from tests.support.world import World
from workers.handlers.record import record

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        yield


def started(*sizes: int) -> Rotation:
    """The first synthesis is recorded, the second is ready, the others are to come."""
    rotation = Rotation(sizes)
    rotation.publish(0)
    record(rotation.message(0), rotation.world.context)
    rotation.publish(1)
    return rotation


def explored(rotation: Rotation, actors: dict[str, Actor], crashes: int) -> Explored:
    """Every schedule, held against P3 after every write, and against P7 and the rules at its end."""
    return explore(
        rotation.world,
        actors,
        check=partial(history_is_whole, rotation),
        final=partial(only_the_current_is_left, rotation),
        crashes=crashes,
    )


@pytest.mark.parametrize(("before", "after"), list(itertools.product(range(1, 5), repeat=2)))
def test_two_crashes_at_any_write_lose_nothing(before: int, after: int) -> None:
    rotation = started(before, after)
    explored(rotation, {"a": rotation.recording(1)}, crashes=2)


@pytest.mark.parametrize("sizes", list(itertools.product((1, 2, 4), repeat=3)), ids=str)
def test_a_newer_synthesis_may_supersede_an_interrupted_recording_anywhere(sizes: tuple[int, ...]) -> None:
    rotation = started(*sizes)
    explored(rotation, {"a": rotation.recording(1, 2), "eno": rotation.publishing(2)}, crashes=2)


@pytest.mark.parametrize("sizes", list(itertools.product((1, 2), repeat=2)), ids=str)
def test_two_workers_record_the_same_synthesis_at_every_step(sizes: tuple[int, ...]) -> None:
    rotation = started(*sizes)
    found = explored(rotation, {"a": rotation.recording(1), "b": rotation.recording(1)}, crashes=2)
    assert found.ends == 1, "every schedule ends in the same Secrets"


@pytest.mark.parametrize("sizes", list(itertools.product((1, 2), repeat=3)), ids=str)
def test_one_worker_records_a_synthesis_while_another_still_records_the_one_before(sizes: tuple[int, ...]) -> None:
    rotation = started(*sizes)
    actors = {"a": rotation.recording(1), "b": rotation.recording(2), "eno": rotation.publishing(2)}
    explored(rotation, actors, crashes=2)


@pytest.mark.parametrize("sizes", list(itertools.product((1, 2), repeat=2)), ids=str)
def test_the_first_two_syntheses_are_recorded_side_by_side(sizes: tuple[int, ...]) -> None:
    rotation = Rotation(sizes)
    rotation.publish(0)
    actors = {"a": rotation.recording(0), "b": rotation.recording(1), "eno": rotation.publishing(1)}
    explore(
        rotation.world,
        actors,
        check=_history_is_whole_once_something_went(rotation),
        final=partial(only_the_current_is_left, rotation),
        crashes=2,
    )


def test_two_workers_take_every_message_of_three_syntheses() -> None:
    rotation = started(1, 1, 1)
    actors = {"a": rotation.recording(1), "b": rotation.recording(1, 2), "eno": rotation.publishing(2)}
    explored(rotation, actors, crashes=1)


def _history_is_whole_once_something_went(rotation: Rotation) -> Callable[[World], None]:
    """Nothing is overwritten, so what was complete stays so until the first delete."""
    start = rotation.world.down.store.version

    def check(world: World) -> None:
        if world.down.store.version - start != len(world.secrets()):
            history_is_whole(rotation, world)

    return check


def test_over_a_hundred_rotations_nothing_is_left_that_the_rules_do_not_keep() -> None:
    sizes = [Random(number).randint(1, 4) for number in range(100)]  # noqa: S311
    rotation = Rotation(sizes)
    for number, size in enumerate(sizes):
        rotation.publish(number)
        record(rotation.message(number), rotation.world.context)
        assert len(rotation.world.secrets()) == size
        assert [entry.id.name for entry in selected(rotation.world).entries()] == owned(number, size)
    only_the_current_is_left(rotation, rotation.world)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_history_of_crashing_recorders_keeps_a_snapshot(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=5), label="chunks")
    rotation = started(*sizes)
    actors = {
        "a": rotation.recording(*range(1, len(sizes))),
        "b": rotation.recording(*range(len(sizes))),
        **{f"eno-{number}": rotation.publishing(number) for number in range(2, len(sizes))},
    }
    crashes = [data.draw(st.integers(0, 4), label="crashes")]

    def choose(names: list[str]) -> str:
        # Eno goes forward: a synthesis is published before the next one is.
        eno = [name for name in names if name.startswith("eno")][:1]
        able = [name for name in names if not name.startswith("eno") and (crashes[0] or not name.endswith("!"))]
        name = data.draw(st.sampled_from([*able, *eno]))
        crashes[0] -= name.endswith("!")
        return name

    play(rotation.world, actors, choose, check=partial(history_is_whole, rotation))
    only_the_current_is_left(rotation, rotation.world)
