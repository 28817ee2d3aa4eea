"""What a scrape of a watcher shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kube.cluster import Query
from kube.reflector import Stats, Stop
from kube.resources import COMPOSITIONS, SECRETS
from runtime.messages import TaskName
from tests.unit.watcher.factories import NOW, SCOPE, composition, synthesis
from tests.unit.watcher.test_process import ScriptedCandidate, World
from watcher.follow import CacheSink
from watcher.keys import Kind
from watcher.metrics import WatcherCollector

UPTIME = 1000.0
"""Seconds, on the clock of the streams."""


class Followed:
    """A stream with a history."""

    def __init__(self, query: Query, stats: Stats) -> None:
        self.query, self.stats = query, stats

    def run(self, stop: Stop) -> None:
        """Nothing."""


def scraped(world: World) -> dict[str, float]:
    """What a scrape shows, by `name{label}` without the common prefix."""
    registry = CollectorRegistry()
    registry.register(WatcherCollector(world.watcher, clock=lambda: UPTIME, wall=NOW.timestamp))
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[sample.name.removeprefix("sexton_watcher_") + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


@pytest.fixture
def world() -> World:
    busy = Stats(
        synced=True, lists=2, watches=3, events=40, expired=1, stalls=4, errors=5, checks=6, rewinds=7,
        last_list=900.0, last_event=990.0, last_contact=995.0,
    )  # fmt: skip
    return World(Followed(Query(COMPOSITIONS), busy), Followed(Query(SECRETS), Stats()))  # type: ignore[arg-type]


def test_streams_tell_what_they_went_through(world: World) -> None:
    found = scraped(world)
    of_compositions = {
        name.removesuffix("{compositions}"): value for name, value in found.items() if name.endswith("{compositions}")
    }
    assert of_compositions == {
        "synced": 1,
        "relists_total": 2,
        "watches_total": 3,
        "events_total": 40,
        "errors_total": 5,
        "stalls_total": 4,
        "expired_total": 1,
        "version_checks_total": 6,
        "rewinds_total": 7,
        "last_relist_timestamp_seconds": NOW.timestamp() - 100,
        "last_event_timestamp_seconds": NOW.timestamp() - 10,
        "last_contact_timestamp_seconds": NOW.timestamp() - 5,
    }


def test_what_has_never_happened_has_no_time(world: World) -> None:
    found = scraped(world)
    assert found["synced{secrets}"] == 0
    assert not [name for name in found if name.endswith("seconds{secrets}")]


@pytest.mark.parametrize("leads", [True, False])
def test_whether_it_leads(world: World, leads: bool) -> None:
    candidate: ScriptedCandidate = world.candidate
    candidate.leads = leads
    assert scraped(world)["leader"] == leads


def test_what_is_known_and_what_waits(world: World) -> None:
    sink = CacheSink(Kind.COMPOSITION, SCOPE, world.watcher.cache, world.agenda)
    found = scraped(world)
    assert (found["undecided_compositions"], found["oldest_undecided_seconds"]) == (0, 0)
    synthesized = (NOW - timedelta(minutes=90)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sink.changed(composition(current=synthesis(synthesized=synthesized)))
    sink.changed({"metadata": {"namespace": "prod", "name": "broken", "labels": 7}})
    found = scraped(world)
    assert (found["objects{Composition}"], found["objects{ResourceSlice}"]) == (1, 0)
    assert (found["unreadable_objects{Composition}"], found["unreadable_objects{Secret}"]) == (1, 0)
    assert (found["undecided_compositions"], found["oldest_undecided_seconds"]) == (1, 5400)


def test_an_age_is_never_below_zero_however_the_clocks_differ(world: World) -> None:
    sink = CacheSink(Kind.COMPOSITION, SCOPE, world.watcher.cache, world.agenda)
    ahead = datetime(2027, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sink.changed(composition(current=synthesis(synthesized=ahead)))
    assert scraped(world)["oldest_undecided_seconds"] == 0


def test_what_was_enqueued_is_counted_by_task_from_zero(world: World) -> None:
    assert {scraped(world)[f"enqueued_total{{{task.short}}}"] for task in TaskName} == {0}
    CacheSink(Kind.COMPOSITION, SCOPE, world.watcher.cache, world.agenda).changed(composition())
    while world.watcher.follower.step() is not None:
        pass
    found = scraped(world)
    assert (found["enqueued_total{recover}"], found["enqueued_total{gate}"]) == (1, 1)
    assert (found["looks_total"], found["broker_errors_total"]) == (1, 0)


def test_every_metric_has_a_name_that_prometheus_likes(world: World) -> None:
    for family in WatcherCollector(world.watcher).describe():
        assert family.name.startswith("sexton_watcher_")
        assert family.documentation.endswith(".")
        assert not family.name.endswith("_total"), "the client adds that"
