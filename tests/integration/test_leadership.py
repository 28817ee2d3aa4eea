"""Several watchers as processes: which of them enqueues, what happens when it ends, stops or is cut off."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eno.errors import NotFound
from kube.config import load_connection
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, RESOURCE_SLICES, Resource
from tests.support.factories import STAMP, decided, synthesis
from tests.support.faults import Answer, status
from tests.support.proxy import Proxy, request
from tests.support.redis import running_redis
from tests.support.watching import NAMESPACE, Running, World, eventually, probe, running_world

PATIENT = ("--lease-retry-period", "0.5")
"""Looks often, and leads through whatever a busy machine does to it."""

HASTY = ("--lease-duration", "6", "--lease-renew-deadline", "4.5", "--lease-retry-period", "0.5")
"""Follows a leader that is gone within seconds."""

FORGETFUL = ("--resync-seconds", "3600")
"""Enqueues nothing a second time unless it has a reason to."""

READY = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decided("NotNeeded", "u")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as world:
        yield world


def leads(watcher: Running) -> Running:
    watcher.until("lease-acquired")
    return watcher


def enqueued(watcher: Running) -> list[str]:
    """The compositions that it has enqueued recover for, each as often as that."""
    lines = watcher.lines("task-enqueued")
    return sorted(line["composition"].partition("/")[2] for line in lines if line["task"] == "recover")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["told to end", "killed"])
def test_whoever_takes_over_with_a_full_cache_enqueued_nothing_before_and_everything_after(
    world: World, number: int
) -> None:
    names = [f"web-{index}" for index in range(5)]
    with world.watching(*HASTY) as first, world.watching(*HASTY) as second:
        leads(first)
        second.until("lease-followed")
        for name in names:
            world.create(name)
        world.create("opted-out", opted_in=False)
        eventually(lambda: sorted(world.messages()) == names, "a message for each")
        assert second.lines("task-enqueued") == []
        first.process.send_signal(number)
        first.ended()
        world.redis.flushall()
        eventually(lambda: sorted(world.messages()) == names, "a message for each, once more")
        # A message is in its queue a moment before the log says so.
        eventually(lambda: enqueued(second) == names, "each of them enqueued once by the second")


def test_a_leader_that_is_told_to_end_is_followed_without_waiting_for_its_lease(world: World) -> None:
    with world.watching(*PATIENT) as first, world.watching(*PATIENT) as second:
        leads(first)
        second.until("lease-followed")
        told = time.monotonic()
        assert first.end() == 0
        leads(second)
        assert time.monotonic() - told < 12, "a lease holds for 15 seconds"
        assert first.lines("lease-released")
        assert world.lease()["holderIdentity"] == second.lines("lease-acquired")[0]["identity"]
        assert world.lease()["leaseTransitions"] == 1


def test_a_leader_that_was_stopped_past_its_lease_enqueues_nothing_more_and_ends(world: World) -> None:
    with world.watching(*HASTY, *FORGETFUL) as first, world.watching(*HASTY, *FORGETFUL) as second:
        leads(first)
        second.until("lease-followed")
        first.process.send_signal(signal.SIGSTOP)
        world.create("web")
        leads(second)
        eventually(lambda: world.messages() == ["web"], "a message of the second")
        world.redis.flushall()
        world.create("api")
        eventually(lambda: world.messages() == ["api"], "another one")
        first.process.send_signal(signal.SIGCONT)
        assert first.ended() == 75
        assert first.complaint.startswith("watcher: lease prod/sexton-watcher: no longer leading (")
        assert first.complaint.count("\n") == 1
        assert first.lines("task-enqueued") == []
        assert world.messages() == ["api"]
        assert (enqueued(second), second.process.poll()) == (["api", "web"], None)


def test_a_lease_that_somebody_takes_from_outside_makes_the_leader_leave(world: World) -> None:
    with world.watching(*PATIENT) as leader:
        leads(leader)
        theft = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}
        world.cluster.merge_patch(LEASES, NAMESPACE, "sexton-watcher", theft)
        assert leader.ended() == 75
        assert "no longer leading (thief holds it); restart this process" in leader.complaint
    with world.watching(*PATIENT) as follower:
        leads(follower)
        assert world.lease()["leaseTransitions"] == 1, "the thief wrote a holder and nothing else"


def test_a_lease_that_somebody_deletes_is_made_again_by_its_holder(world: World) -> None:
    with world.watching(*PATIENT) as first, world.watching(*PATIENT) as second:
        leads(first)
        second.until("lease-followed")
        world.cluster.delete(LEASES, NAMESPACE, "sexton-watcher")

        def made_again() -> bool:
            with suppress(NotFound):
                return bool(world.lease()["holderIdentity"] == first.lines("lease-acquired")[0]["identity"])
            return False

        eventually(made_again, "the lease once more")
        world.create("web")
        eventually(lambda: enqueued(first) == ["web"], "a message of the first")
        assert second.lines("lease-acquired") == []


def test_an_api_server_that_is_away_for_longer_than_a_term_costs_the_leader_and_nothing_else(world: World) -> None:
    with world.watching(*HASTY) as first, world.watching(*HASTY) as second:
        leads(first)
        second.until("lease-followed")
        world.apiserver.process.send_signal(signal.SIGSTOP)
        assert first.ended() == 75
        assert "no longer leading (it was not renewed for" in first.complaint
        second.until("lease-wait")
        world.apiserver.process.send_signal(signal.SIGCONT)
        leads(second)
        world.create("web")
        eventually(lambda: world.messages() == ["web"], "a message")


def test_two_instances_on_one_cluster_lead_side_by_side(world: World) -> None:
    with world.watching(*PATIENT) as first, world.watching(*PATIENT, "--instance", "other") as second:
        leads(first)
        leads(second)
        world.create("web")
        eventually(lambda: world.messages() == world.messages("other") == ["web"], "one message each")
        holders = [world.lease(instance)["holderIdentity"] for instance in ("sexton", "other")]
        assert holders == [each.lines("lease-acquired")[0]["identity"] for each in (first, second)]


def test_whoever_stands_by_is_ready_and_says_that_it_does_not_lead(world: World) -> None:
    flags = (*PATIENT, "--health-port", "0")
    with world.watching(*flags) as first, world.watching(*flags) as second:
        leads(first)
        second.until("lease-followed")
        world.create("web")
        eventually(lambda: enqueued(first) == ["web"], "a message of the first")
        seen = []
        for watcher in (first, second):
            port = watcher.until("probes-started")["port"]
            assert probe(port, "healthz") == (200, "ok\n")
            eventually(lambda port=port: probe(port, "readyz") == (200, "ok\n"), "it is ready")
            code, text = probe(port, "metrics")
            families = {family.name: family for family in text_string_to_metric_families(text)}
            assert code == 200
            assert {"sexton_build_info", "sexton_api_requests", "sexton_watcher_synced"} <= families.keys()
            (leader,) = families["sexton_watcher_leader"].samples
            recover = [each.value for each in families["sexton_watcher_enqueued"].samples if "recover" in str(each)]
            seen.append((leader.value, recover, "sexton_queue_messages" in families))
        assert seen == [(1, [1], True), (0, [0], False)]


def test_a_namespace_that_does_not_exist_is_refused(world: World) -> None:
    with world.watching("--pod-namespace", "nowhere", synced=False) as watcher:
        assert watcher.ended() == 2
        assert watcher.complaint == (
            "watcher: lease nowhere/sexton-watcher: there is no namespace nowhere; "
            "create it, or set POD_NAMESPACE to the one that this process runs in\n"
        )


@pytest.mark.parametrize("kind", [COMPOSITIONS, RESOURCE_SLICES], ids=lambda kind: kind.plural)
def test_kinds_that_are_not_installed_are_refused(world: World, kind: Resource) -> None:
    world.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, kind.qualified)
    with world.watching(synced=False) as watcher:
        assert watcher.ended() == 1
        assert watcher.complaint == (
            f"watcher: list {kind.qualified} prod: the CustomResourceDefinition {kind.qualified} is not installed; "
            f"install Eno; only where there is none to be: kubectl apply -f deploy/crds/{kind.plural}.yaml\n"
        )


@pytest.mark.parametrize("path", [r"/leases", r"/resourceslices", r"/secrets"])
def test_a_permission_that_is_missing_is_refused_with_verb_and_place(world: World, path: str) -> None:
    with Proxy(load_connection(str(world.kubeconfig))) as proxy:
        proxy.rule(request("GET", path), Answer(403, status(403, "Forbidden", "no")))
        kubeconfig = str(proxy.kubeconfig(world.directory / "proxy"))
        with world.watching("--kubeconfig", kubeconfig, synced=False) as watcher:
            assert watcher.ended() == 77
            assert watcher.complaint.count("\n") == 1
            assert f" {path[1:]}" in watcher.complaint
            assert "403 Forbidden" in watcher.complaint
            assert "grant the permission" in watcher.complaint


@pytest.mark.parametrize(
    "answer",
    [Answer(404, b"404 page not found\n"), Answer(503, b"no server is up"), Answer(500, status(500, "InternalError"))],
    ids=["a 404 of a proxy", "503", "500"],
)
def test_an_api_server_that_cannot_answer_yet_is_waited_for(world: World, answer: Answer) -> None:
    with Proxy(load_connection(str(world.kubeconfig))) as proxy:
        proxy.rule(request(), answer)
        kubeconfig = str(proxy.kubeconfig(world.directory / "proxy"))
        with world.watching("--kubeconfig", kubeconfig, *PATIENT, synced=False) as watcher:
            watcher.until("lease-wait")
            watcher.until("reflector.wait")
            world.create("web")
            proxy.heal()
            eventually(lambda: world.messages() == ["web"], "a message")
            assert watcher.process.poll() is None


def test_an_outage_downstream_delays_neither_gate_nor_recovery(world: World) -> None:
    nowhere = world.directory / "nowhere"
    nowhere.write_text(world.kubeconfig.read_text().replace(world.port, "1"))
    world.create("web")
    world.create("settled", current=synthesis("u", **READY))
    with world.watching("--downstream-kubeconfig", str(nowhere), synced=False):
        (message,) = eventually(lambda: world.payloads(task="gate"), "a gate message")
        assert message["name"] == "web"
        assert world.considered() == ["web"]
        assert world.payloads(task="record") == [], "it is not known whether it is stored already"


def test_a_redis_that_is_dead_at_the_start_is_told_of_at_once(world: World) -> None:
    world.broker.stop()
    with world.watching() as watcher:
        assert "start Redis" in watcher.until("broker-unfit")["message"]
        with running_redis(world.directory, port=world.broker.port):
            world.create("web")
            eventually(lambda: world.messages() == ["web"], "a message")
