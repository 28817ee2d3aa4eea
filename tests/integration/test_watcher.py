"""The watcher as a process, between an API server over HTTP and a real Redis."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eno.inventory.secrets import lineage
from eno.objects import OPT_IN_ANNOTATION
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.scope import Scope
from eno.times import format_time
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from runtime.broker import ANSWER_SECONDS
from tests.support.factories import STAMP, SYNTHESIZER, decided, manifest, slice_json, synthesis
from tests.support.redis import running_redis
from tests.support.watching import NAMESPACE, RESYNC, World, eventually, probe, running, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as world:
        yield world


def test_a_composition_that_needs_recovery_gets_exactly_one_message(world: World) -> None:
    with world.watching():
        uid = world.create("web")
        for number in range(30):
            world.annotate("web", touched=str(number))
        assert world.considered() == ["web"]
    (message,) = [each for each in world.payloads() if each["name"] == "web"]
    assert message == {
        "namespace": NAMESPACE,
        "name": "web",
        "uid": uid,
        "synthesis_uuid": "synthesis-of-web",
        "scope": Scope(composition_namespace=NAMESPACE, recovery_namespace=NAMESPACE, recovery_enabled=True).model_dump(
            mode="json"
        ),
    }


def test_what_was_there_before_the_watcher_is_found(world: World) -> None:
    world.create("web")
    with world.watching():
        assert world.considered() == ["web"]


def test_what_is_decided_opted_out_or_out_of_scope_gets_none(world: World) -> None:
    finished = synthesis("u", tombstoneRecoveryStatus=decided("NotNeeded", "u"))
    with world.watching("--all-namespaces"):
        world.create("decided", current=finished)
        world.create("unsynthesized", current=synthesis("u", synthesized=None))
        world.create("opted-out", opted_in=False)
        world.create("elsewhere", namespace="dev")
        assert world.considered() == []


def test_a_selector_is_kept_to(world: World) -> None:
    with world.watching("--composition-label-selector", "team=a"):
        world.create("web")
        patch = {"metadata": {"labels": {"team": "a"}}}
        world.create("api")
        world.cluster.merge_patch(COMPOSITIONS, NAMESPACE, "api", patch)
        eventually(lambda: world.messages() == ["api"], "a message for what is selected alone")


def test_opting_in_later_is_enough(world: World) -> None:
    with world.watching():
        world.create("web", opted_in=False)
        assert world.considered() == []
        world.annotate("web", **{OPT_IN_ANNOTATION: "true"})
        assert world.considered() == ["web"]


def test_after_a_restart_there_is_a_second_message_only_where_the_marker_is_gone(world: World) -> None:
    world.create("kept")
    world.create("gone")
    with world.watching() as watcher:
        assert sorted(world.considered()) == ["gone", "kept"]
        assert watcher.end() == 0
    (marker,) = [key for key in world.redis.scan_iter("sexton:pending:recover:*") if key.endswith(":synthesis-of-gone")]
    world.redis.delete(marker)
    with world.watching():
        assert sorted(world.considered()) == ["gone", "gone", "kept"]


def test_a_flushed_redis_has_every_message_again_within_a_resync(world: World) -> None:
    with world.watching():
        for number in range(20):
            world.create(f"web-{number}")
        eventually(lambda: len(world.messages()) == 20, "20 messages")
        world.redis.flushall()
        started = time.monotonic()
        eventually(lambda: len(set(world.messages())) == 20, "20 messages again")
        assert time.monotonic() - started < 2 * RESYNC + 3


def test_changes_while_redis_is_away_are_enqueued_when_it_is_back(world: World) -> None:
    with world.watching() as watcher:
        world.broker.stop()
        for number in range(5):
            world.create(f"web-{number}")
        watcher.until("broker-lost")
        with running_redis(world.directory, port=world.broker.port):
            eventually(lambda: sorted(world.messages()) == [f"web-{number}" for number in range(5)], "5 messages")
            watcher.until("broker-found")
        assert len(watcher.lines("broker-lost")) == 1
        assert watcher.end() == 0


def test_a_relist_repairs_what_the_watch_of_a_rewound_api_server_never_shows(world: World) -> None:
    """A watch from a version that the new history has not reached yet stays silent: only a relist helps."""
    with world.watching("--relist-seconds", "2") as watcher:
        for number in range(20):
            world.create(f"lost-{number}", opted_in=False)
        world.settle()
        world.apiserver.end()
        watcher.until("reflector.wait")
        with running(world.directory / "second.log", "devcluster", "--port", world.port):
            eventually(world.answers, "an answer from the second API server")
            world.create_namespaces()
            world.create("web")
            eventually(lambda: "web" in world.messages(), "a message for web")
        assert watcher.process.poll() is None


def test_two_instances_share_a_redis_without_disturbing_each_other(world: World) -> None:
    with world.watching(), world.watching("--instance", "other"):
        world.create("web")
        eventually(lambda: world.messages() == world.messages("other") == ["web"], "one message each")


def test_slices_cross_the_wire_as_metadata(world: World) -> None:
    large = slice_json("large", [manifest(name="x", padding="y" * 200_000)], namespace=NAMESPACE, owner="web")
    del large["metadata"]["resourceVersion"]
    world.cluster.create(RESOURCE_SLICES, NAMESPACE, large)
    with world.watching():
        world.settle()
    requests = [json.loads(line) for line in world.audit.read_text().splitlines()]
    lists = [each for each in requests if each["verb"] == "list" and each["userAgent"].startswith("sexton-watcher/")]
    (of_slices,) = [each["bytesOut"] for each in lists if each["resource"] == "resourceslices"]
    assert of_slices < 5_000


READY = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided("NotNeeded", "u")}


def test_a_ready_synthesis_is_recorded_until_it_is_stored(world: World) -> None:
    with world.watching():
        world.create("web", current=synthesis("u", **READY))
        (message,) = eventually(lambda: world.payloads(task="record"), "a record message")
        assert (message["name"], message["synthesis_uuid"]) == ("web", "u")


def test_an_inventory_that_no_object_points_to_is_found_by_every_new_watcher(world: World) -> None:
    world.remember("web")
    for _ in range(2):
        world.redis.flushall()
        with world.watching() as watcher:
            (message,) = eventually(lambda: world.payloads(task="retire"), "a retire message")
            assert (message["namespace"], message["lineage"]) == (NAMESPACE, lineage(NAMESPACE, SYNTHESIZER))
            assert watcher.end() == 0


@pytest.mark.parametrize("passed", [0, 3600], ids=["while it runs", "while nothing runs"])
def test_a_grace_that_ends_is_acted_on(world: World, passed: int) -> None:
    world.remember("web", **{UNCLAIMED_SINCE_ANNOTATION: format_time(datetime.now(UTC) - timedelta(seconds=passed))})
    with world.watching("--retirement-grace", "6"):
        if not passed:
            world.settle()
            assert world.payloads(task="retire") == []
        eventually(lambda: world.payloads(task="retire"), "a retire message")


def test_a_claimed_inventory_calls_for_nothing_until_its_composition_goes(world: World) -> None:
    world.remember("web")
    world.create("web", current=synthesis("u", tombstoneRecoveryStatus=decided("NotNeeded", "u")))
    with world.watching():
        world.settle()
        assert world.payloads(task="retire") == []
        world.cluster.delete(COMPOSITIONS, NAMESPACE, "web")
        eventually(lambda: world.payloads(task="retire"), "a retire message")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_in_order(world: World, number: int) -> None:
    with world.watching() as watcher:
        started = time.monotonic()
        assert watcher.end(number) == 0
        assert time.monotonic() - started < 2


def test_probes_tell_progress_from_readiness(world: World) -> None:
    with world.watching("--health-port", "0") as watcher:
        port = watcher.until("probes-started")["port"]
        assert probe(port, "healthz") == (200, "ok\n")
        eventually(lambda: probe(port, "readyz") == (200, "ok\n"), "it is ready")
        world.broker.stop()
        eventually(lambda: probe(port, "readyz")[0] == 503, "it has noticed")
        assert probe(port, "healthz") == (200, "ok\n")
        assert "not available" in probe(port, "readyz")[1]


def test_no_probe_waits_for_a_redis_that_says_nothing(world: World) -> None:
    """It takes connections, and never answers; about 6 s, ANSWER_SECONDS of them until that is noticed."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        flags = ("--broker-url", f"redis://x:y@127.0.0.1:{silent.getsockname()[1]}/0", "--health-port", "0")
        with world.watching(*flags) as watcher:
            port = watcher.until("probes-started")["port"]

            def told() -> bool:
                started = time.monotonic()
                status, text = probe(port, "readyz")
                assert (status, time.monotonic() - started < ANSWER_SECONDS / 2) == (503, True)
                return "TimeoutError" in text

            eventually(told, "it has noticed")


def test_an_api_server_that_cannot_be_reached_is_waited_for(world: World) -> None:
    nowhere = world.directory / "nowhere"
    nowhere.write_text(world.kubeconfig.read_text().replace(world.port, "1"))
    flags = ("--kubeconfig", str(nowhere), "--health-port", "0")
    with world.watching(*flags, synced=False) as watcher:
        port = watcher.until("probes-started")["port"]
        watcher.until("reflector.wait")
        assert probe(port, "healthz") == (200, "ok\n")
        status, text = probe(port, "readyz")
        assert status == 503
        assert "stream of compositions.eno.azure.io" in text
        assert watcher.end() == 0
