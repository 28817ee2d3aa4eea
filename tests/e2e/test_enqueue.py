"""`sexton enqueue` and Celery's own `call`, each with a real Redis and a real worker that carries it out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from console.cast import Server, start_servers
from console.play import Play
from console.stage import Stage
from console.story import Manifest
from eno.identity import parse_head
from runtime.settings import Settings
from tests.support.command import ROOT, Sexton
from tests.support.factories import manifest
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import Worker, running_worker


@dataclass(frozen=True)
class Town:
    """API servers, a Redis and a worker, no watcher: nothing is enqueued but by hand."""

    upstream: Server
    downstream: Server
    settings: Settings
    worker: Worker

    @property
    def sexton(self) -> Sexton:
        """The command as on somebody's own machine: it knows the servers, and nothing of the workers' settings."""
        return Sexton(
            {
                "SEXTON_KUBECONFIG": str(self.upstream.kubeconfig),
                "SEXTON_DOWNSTREAM_KUBECONFIG": str(self.downstream.kubeconfig),
                "SEXTON_BROKER_URL": self.settings.broker_url,
            }
        )

    def settle(self, name: str) -> Play:
        """A new composition in its own lineage, synthesized."""
        play = Play(self.upstream.connect(), self.downstream.connect(), "demo", name, f"{name}-synthesizer")
        play.create_namespace()
        text = manifest(name=name)
        play.create([Manifest(text, parse_head(text))])
        return play

    def ended(self, play: Play, task: str) -> dict[str, Any]:
        """What the worker's log says of the task."""

        def line() -> dict[str, Any] | None:
            lines = self.worker.lines("task-ended")
            about = [each for each in lines if each["composition"] == f"demo/{play.name}" and each["task"] == task]
            return about[-1] if about else None

        found = until(line, f"{task} of {play.name} ended", seconds=60)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    directory = tmp_path_factory.mktemp("town")
    with running_redis(directory) as redis, Stage() as stage:
        upstream, downstream = start_servers(stage, time.monotonic() + 60)
        settings = Settings.load(
            kubeconfig=str(upstream.kubeconfig),
            downstream_kubeconfig=str(downstream.kubeconfig),
            broker_url=redis.url,
            pod_namespace="demo",
            enable_tombstone_recovery=True,
        )
        with running_worker(directory, settings) as worker:
            yield Town(upstream, downstream, settings, worker)


def test_from_enqueue_to_an_inventory_by_hand_alone(town: Town) -> None:
    play = town.settle("by-hand")

    assert town.sexton("enqueue", "recover", "demo/by-hand").out.startswith("enqueued: recover of demo/by-hand")
    assert town.sexton("wait", "demo/by-hand", "--timeout", "60").code == 0
    play.reconcile()
    assert town.sexton("enqueue", "gate", "demo/by-hand").code == 0
    assert town.sexton("wait", "demo/by-hand", "--for", "ready", "--timeout", "60").code == 0
    assert town.sexton("enqueue", "record", "demo/by-hand").code == 0

    assert town.ended(play, "record")["outcome"] == "done"
    assert play.inventory() is not None


def test_a_useless_message_makes_a_worker_do_nothing(town: Town) -> None:
    play = town.settle("useless")
    refused = town.sexton("enqueue", "record", "demo/useless")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "nothing calls for it: undecided" in refused.err

    before = play.read().resource_version
    assert town.sexton("enqueue", "record", "demo/useless", "--force").code == 0

    assert town.ended(play, "record")["outcome"] == "superseded"
    assert (play.read().resource_version, play.inventory_names()) == (before, ())


def test_the_document_names_what_was_sent(town: Town) -> None:
    play = town.settle("document")
    (answer,) = town.sexton("enqueue", "recover", "demo/document", "-o", "json").json["answers"]
    assert (answer["answer"], answer["message"]["uid"]) == ("enqueued", play.read().uid)
    assert town.ended(play, "recover")["outcome"] == "done"


def test_celerys_own_call_is_enough_for_a_backfill(town: Town) -> None:
    play = town.settle("called")
    town.sexton("enqueue", "recover", "demo/called")
    town.ended(play, "recover")
    play.reconcile()
    town.sexton("enqueue", "gate", "demo/called")
    assert town.sexton("wait", "demo/called", "--for", "ready", "--timeout", "60").code == 0
    composition = play.read()
    assert composition.current is not None
    payload = {
        "namespace": "demo",
        "name": "called",
        "uid": composition.uid,
        "synthesis_uuid": composition.current.uuid,
    }
    # Whoever calls has the environment of a worker.
    settings = {"POD_NAMESPACE": "demo", "SEXTON_ENABLE_TOMBSTONE_RECOVERY": "true"}
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "workers",
        "call",
        "sexton.record",
        "--kwargs",
        json.dumps(payload),
    ]

    environment = town.sexton.having(**settings).environment
    called = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (called.returncode, called.stderr) == (0, "")
    assert town.ended(play, "record")["outcome"] == "done"
    assert play.inventory() is not None


def test_the_doctor_sees_who_waits_for_messages(town: Town) -> None:
    def workers() -> str:
        found = town.sexton.having(POD_NAMESPACE="demo")("doctor", "-o", "json")
        (found_of_workers,) = [each["found"] for each in found.json["checks"] if each["check"] == "workers"]
        return str(found_of_workers)

    until(lambda: workers() == "1 worker waiting for messages", "the worker asks for a message")


def test_without_redis_it_is_one_line_and_exit_code_69(town: Town) -> None:
    town.settle("alone")
    found = town.sexton.having(SEXTON_BROKER_URL="redis://127.0.0.1:1/0")("enqueue", "recover", "demo/alone")
    assert (found.code, found.out, found.err.count("\n")) == (69, "", 1)
    assert found.err.startswith("sexton: Redis 127.0.0.1:1/0: not available")
