"""The main job on real API servers: watcher, Redis and workers as processes, a kube-apiserver upstream and downstream.

Eno's released CustomResourceDefinitions are served, extended by the two fields that tombstone recovery needs.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from console.cast import Cast, Server
from console.clusters import utc_now
from console.plan import preview
from console.play import Play, tombstones
from console.stage import Stage
from console.story import Story, tell
from console.verdict import objections
from devcluster.eno import Eno
from eno.decision import Reason
from eno.errors import NotServed, SextonError
from eno.identity import parse_head
from eno.inventory.entries import build
from eno.inventory.secrets import INVENTORY_NAMESPACE, LINEAGE_KEY, lineage, snapshot, source_of
from kube.cluster import Json, Query, list_all
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_SLICES, SECRETS, Resource
from runtime.settings import Settings, variable
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.redis import running_redis
from tests.support.waiting import until
from workers.context import Context

T = TypeVar("T")

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
CRDS = SHARED / "eno-crds"
MANIFESTS = SHARED / "kube-prometheus.jsonl"
DEADLINE = 120.0
"""Seconds from the start of the processes to the decision, on a busy machine."""

RECOVERY_FIELDS: Json = {
    "tombstoneRecoveryRequired": {"type": "boolean"},
    "tombstoneRecoveryStatus": {
        "type": "object",
        "properties": {
            "status": {"type": "boolean"},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "synthesisUUID": {"type": "string"},
        },
    },
}

pytestmark = pytest.mark.skipif(not CRDS.is_dir(), reason="the released Eno CRDs are not in ../shared/data/eno-crds")


def released_definitions() -> Iterator[Json]:
    """Eno's CustomResourceDefinitions; every synthesis of a composition has the recovery fields, too."""
    for path in sorted(CRDS.glob("*.yaml")):
        definition: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
        if definition["spec"]["names"]["kind"] == COMPOSITIONS.kind:
            (version,) = definition["spec"]["versions"]
            status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
            for name in ("inFlightSynthesis", "currentSynthesis", "previousSynthesis"):
                status[name]["properties"] |= RECOVERY_FIELDS
        yield definition


@pytest.fixture(scope="module")
def upstream(apiserver: ApiServer) -> Iterator[Server]:
    """An API server of its own, with an etcd of its own: the one of the run serves other definitions of Eno's kinds."""
    with running_apiserver(apiserver.assets) as running:
        server = Server("upstream", running.kubeconfig, running.log)
        with closing(server.connect()) as cluster:
            for definition in released_definitions():
                cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
            for kind in (COMPOSITIONS, RESOURCE_SLICES):
                until(partial(_is_served, server, kind), f"{kind.plural} are served")
        yield server


@pytest.fixture(scope="module")
def downstream(apiserver: ApiServer) -> Server:
    """The API server of the run: nothing of Eno's is read from it, but the inventories."""
    return Server("downstream", apiserver.kubeconfig, apiserver.log)


@pytest.fixture
def cast(upstream: Server, downstream: Server, tmp_path: Path) -> Iterator[Cast]:
    """Redis and the settings of every process; the processes start when the test says so."""
    namespace = f"e2e-{secrets.token_hex(4)}"
    with running_redis(tmp_path) as redis, Stage() as stage:
        fields = {
            "kubeconfig": str(upstream.kubeconfig),
            "downstream_kubeconfig": str(downstream.kubeconfig),
            "broker_url": redis.url,
            "instance": namespace,
            "pod_namespace": namespace,
            "composition_namespace": namespace,
            "enable_tombstone_recovery": "true",
        }
        yield Cast(stage, upstream, downstream, Settings.load(**fields), environment(fields))


def environment(fields: Mapping[str, str]) -> dict[str, str]:
    """What the processes see."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SEXTON_", "POD_"))}
    return inherited | {variable(name): value for name, value in fields.items()} | {"no_proxy": "127.0.0.1"}


STORIES = [
    pytest.param(None, None, id="the shop"),
    pytest.param(
        MANIFESTS,
        "app.kubernetes.io/name=grafana",
        id="kube-prometheus without Grafana",
        marks=pytest.mark.skipif(not MANIFESTS.exists(), reason=f"{MANIFESTS.name} is not there"),
    ),
]


@pytest.mark.parametrize(("manifests", "without"), STORIES)
def test_a_lost_history_is_recovered(cast: Cast, manifests: Path | None, without: str | None) -> None:
    story = tell(manifests, without)
    play = Play(
        cast.upstream.connect(), cast.downstream.connect(), cast.settings.pod_namespace or "", "app", "app-synthesizer"
    )
    record_history(cast, play, story)

    play.lose()
    play.create(story.kept)
    before = play.slices()
    assert tombstones(before) == []
    planned = preview(Context(play.upstream, play.downstream, utc_now, cast.settings), play.namespace, play.name)
    cast.start_watcher()
    decision = decided(cast, play)

    after = play.slices()
    assert decision["reason"] == Reason.FINISHED
    assert set(tombstones(after)) == story.discontinued
    assert objections(story, planned, before, after, decision) == []


def record_history(cast: Cast, play: Play, story: Story) -> None:
    """The composition's first life, in which Sexton opens the gate and records the inventory."""
    play.create_namespace()
    cast.start_workers()
    watcher = cast.start_watcher()
    play.create(story.history)
    assert decided(cast, play)["reason"] == Reason.INVENTORY_NOT_FOUND
    Eno(play.upstream, utc_now).reconcile(play.namespace, play.name)
    awaited(cast, "readiness", lambda: _ready(play) or None)
    awaited(cast, "inventory", lambda: _recorded(play) or None)
    cast.stage.stop(watcher)


def _ready(play: Play) -> bool:
    current = play.read().current
    return current is not None and current.ready is not None


def _recorded(play: Play) -> bool:
    """Whether every chunk of the inventory is there, and nothing else of its lineage."""
    entries = build((parse_head(entry.manifest), entry.deleted) for each in play.slices() for entry in each.resources)
    chunks = {secret["metadata"]["name"] for secret in snapshot(source_of(play.read()), entries)}
    selector = f"{LINEAGE_KEY}={lineage(play.namespace, play.synthesizer)}"
    listing = list_all(play.downstream, Query(SECRETS, INVENTORY_NAMESPACE, label_selector=selector))
    return chunks == {secret["metadata"]["name"] for secret in listing.items}


def decided(cast: Cast, play: Play) -> Json:
    """The decision about the current synthesis, as soon as it is published."""
    return awaited(cast, "decision", play.decision)


def awaited(cast: Cast, what: str, look: Callable[[], T | None]) -> T:
    """What `look` finds; an error comes with the last words of every process."""
    try:
        return cast.stage.wait_for(what, look, deadline=time.monotonic() + DEADLINE)
    except SextonError as error:
        for child in cast.stage.children:
            error.add_note(f"--- last lines of {child.name}\n{child.tail()}")
        raise


def _is_served(server: Server, kind: Resource) -> bool:
    with closing(server.connect()) as cluster, suppress(NotServed):
        cluster.list_page(Query(kind), limit=1)
        return True
    return False
