"""The situations of the watcher's specification, each with a watcher, a worker, Redis and an API server as processes.

Waits are read from objects, so tests shorten them by what objects say: a stamp of an hour ago, less a few seconds.
Takeover is told in `test_leadership`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from devcluster.audit import Entry
from eno.errors import NotFound
from eno.objects import OPT_IN_ANNOTATION, OVERFLOW_LABEL
from eno.retention import YOUNG
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.times import format_time, parse_time
from kube.cluster import Json, Query, list_all
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS, Resource
from runtime.messages import TaskName
from tests.support.factories import STAMP, composition_json, decided, entry, inventory, manifest, slice_json, synthesis
from tests.support.rig import RESYNC, Process, Rig, running_rig

GRACE = timedelta(hours=1)
SOON = timedelta(seconds=RESYNC + 8)
"""Within which what is due is done, on a busy machine as well."""

WAIT = timedelta(seconds=12)
"""Longer than a watcher takes to restart."""

_numbers = count(1)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with running_rig(tmp_path_factory.mktemp("situations"), retirement_grace=GRACE) as rig:
        yield rig


@dataclass
class Site:
    """A namespace with a queue of its own, and what runs in it."""

    rig: Rig
    namespace: str
    settings: dict[str, Any] = field(default_factory=dict)
    parts: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = len(self.rig.writes())

    def watcher(self) -> Process:
        return self._started(self.rig.watcher)

    def worker(self) -> Process:
        return self._started(self.rig.worker)

    def _started(self, start: Callable[..., Process]) -> Process:
        self.parts.append(start(pod_namespace=self.namespace, instance=self.namespace, **self.settings))
        return self.parts[-1]

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """What the condition returned when it first held."""
        return self.rig.until(condition, what, *[part for part in self.parts if part.running])

    def compose(self, name: str, slices: dict[str, list[str]] | None = None, **fields: Any) -> str:
        """A composition without history, its current slices, and its status last of all. Returns its UID."""
        current = fields.pop("current", synthesis(f"of-{name}", slices=list(slices or {})))
        body = composition_json(name, namespace=self.namespace, uid=None, synthesizer=name, current=current, **fields)
        created = self.rig.cluster.create(COMPOSITIONS, self.namespace, body)
        uid = str(created["metadata"]["uid"])
        for each, manifests in (slices or {}).items():
            self.slice(each, name, uid, manifests)
        self.patch(name, {"status": body["status"]}, subresource="status")
        return uid

    def settled(self, name: str, **fields: Any) -> str:
        """A composition for which nothing is to be done but the cleanup of its slices. Returns its UID."""
        decision = {"tombstoneRecoveryStatus": decided("NotNeeded", f"of-{name}")}
        current = synthesis(f"of-{name}", ready=STAMP, reconciled=STAMP, **decision)
        return self.compose(name, current=current, opted_in=False, **fields)

    def slice(self, name: str, owner: str, uid: str, manifests: list[str] | None = None, **fields: Any) -> datetime:
        """A slice that this composition controls. Returns when it was created."""
        body = slice_json(name, manifests or [], namespace=self.namespace, owner=owner, uid=uid, **fields)
        del body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        created = self.rig.cluster.create(RESOURCE_SLICES, self.namespace, body)
        return parse_time(created["metadata"]["creationTimestamp"])

    def remember(self, name: str, **annotations: str) -> str:
        """An inventory under the name of a composition. Returns its own name."""
        (secret,) = inventory([entry()], name=name, namespace=self.namespace, synthesizer=name)
        del secret["metadata"]["uid"], secret["metadata"]["resourceVersion"]
        secret["metadata"]["annotations"] |= annotations
        return str(self.rig.cluster.create(SECRETS, "kube-system", secret)["metadata"]["name"])

    def patch(self, name: str, patch: Json, *, subresource: str = "") -> None:
        self.rig.cluster.merge_patch(COMPOSITIONS, self.namespace, name, patch, subresource=subresource)

    def gone(self, resource: Resource, name: str) -> bool:
        with suppress(NotFound):
            self.rig.cluster.get(resource, "kube-system" if resource == SECRETS else self.namespace, name)
            return False
        return True

    def decision(self, name: str) -> Json:
        """The decision about the current synthesis, empty without one."""
        status = self.rig.cluster.get(COMPOSITIONS, self.namespace, name)["status"]
        found: Json = status["currentSynthesis"].get("tombstoneRecoveryStatus", {})
        return found

    def ends(self, **fields: str) -> list[Json]:
        """How tasks have ended, those with these fields."""
        lines = (line for part in self.parts for line in part.lines("task-ended"))
        return [line for line in lines if fields.items() <= line.items()]

    def writes(self) -> list[Entry]:
        """What was written since there is this site."""
        return self.rig.writes()[self._before :]

    def waiting(self, task: TaskName) -> int:
        """Messages that no worker has taken."""
        return int(self.rig.redis.llen(task.queue(self.namespace)))

    def deleted_at(self, name: str) -> datetime:
        """When a worker deleted it."""
        deletions = [each for each in self.writes() if each.verb == "delete" and each.name == name]
        return parse_time(deletions[0].time)

    def quiet(self) -> None:
        """Wait until there are no messages and two resyncs have brought none."""
        for _ in range(2):
            fence = f"fence-{next(_numbers)}"
            self.compose(fence, current=synthesis("u", tombstoneRecoveryRequired=False))
            self.until(lambda fence=fence: self.decision(fence), "a later composition was decided")  # type: ignore[misc]
            self.until(lambda: not any(self.waiting(task) for task in TaskName), "all messages are taken")


@pytest.fixture
def site(rig: Rig) -> Iterator[Site]:
    namespace = f"site-{next(_numbers)}"
    rig.cluster.create(NAMESPACES, None, {"metadata": {"name": namespace}})
    site = Site(rig, namespace)
    yield site
    for part in site.parts:
        part.kill_all()
    for item in list_all(rig.cluster, Query(SECRETS, "kube-system")).items:
        rig.cluster.delete(SECRETS, "kube-system", item["metadata"]["name"])


def ago(age: timedelta) -> str:
    return format_time(datetime.now(UTC) - age)


def at(line: Json) -> datetime:
    return datetime.fromisoformat(line["time"])


def retried(site: Site, name: str) -> list[Json]:
    return site.ends(task="recover", composition=f"{site.namespace}/{name}", outcome="retry")


def stuck(site: Site) -> str:
    """A composition that cannot be recovered, and overflow of that recovery, old enough otherwise. Returns its UID."""
    site.remember("stuck")
    uid = site.compose("stuck", {"unreadable": ["{"]})
    site.slice("overflow", "stuck", uid, stamp="of-stuck", labels={OVERFLOW_LABEL: "true"})
    return uid


def repair(site: Site) -> None:
    """Let the recovery succeed."""
    fixed = {"spec": {"resources": [{"manifest": manifest()}]}}
    site.rig.cluster.merge_patch(RESOURCE_SLICES, site.namespace, "unreadable", fixed)


def test_a_restart_takes_every_wait_up_where_the_object_says_it_stands(site: Site) -> None:
    site.worker()
    first = site.watcher()
    owner = site.settled("owner")
    stuck(site)
    # Pauses double; this one is longer than a restart.
    pause = timedelta(seconds=3)
    site.until(lambda: _until(retried(site, "stuck")) > datetime.now(UTC) + pause, "a long pause between attempts")
    attempts = len(retried(site, "stuck"))
    due = _until(retried(site, "stuck"))
    created = site.slice("young", "owner", owner)
    secret = site.remember("left", **{UNCLAIMED_SINCE_ANNOTATION: ago(GRACE - WAIT)})
    assert first.end() == 0
    second = site.watcher()
    synced = at(second.lines("caches-synced")[0])

    site.until(lambda: site.gone(RESOURCE_SLICES, "young"), "the slice went")
    assert created + YOUNG <= site.deleted_at("young") < max(created + YOUNG, synced) + SOON

    site.until(lambda: len(retried(site, "stuck")) > attempts, "another attempt")
    assert due <= at(retried(site, "stuck")[attempts]) < max(due, synced) + SOON

    site.until(lambda: site.gone(SECRETS, secret), "the inventory went")
    since = created + WAIT
    assert since - timedelta(seconds=1) <= site.deleted_at(secret) < max(since, synced) + SOON

    looked = [line for line in site.ends(task="cleanup") if at(line) > synced + YOUNG]
    assert looked != [], "the overflow is looked at again and again"
    assert not site.gone(RESOURCE_SLICES, "overflow")
    repair(site)
    site.until(lambda: site.decision("stuck").get("status"), "recovery came to an end")
    site.until(lambda: site.gone(RESOURCE_SLICES, "overflow"), "the overflow went")


def _until(lines: list[Json]) -> datetime:
    """When the last of them is tried again."""
    return parse_time(lines[-1]["until"]) if lines else datetime.min.replace(tzinfo=UTC)


def test_what_became_due_while_nothing_ran_is_done_at_once_after_the_start(site: Site) -> None:
    """All three waits were begun by earlier processes, which left nothing but objects."""
    owner = site.settled("owner")
    failed = {"status": False, "reason": "InventoryGetError", "synthesisUUID": "of-failed"}
    site.compose("failed", current=synthesis("of-failed", tombstoneRecoveryStatus=failed))
    created = site.slice("young", "owner", owner)
    site.slice("overflow", "owner", owner, stamp="of-owner", labels={OVERFLOW_LABEL: "true"})
    secret = site.remember("left", **{UNCLAIMED_SINCE_ANNOTATION: ago(GRACE + WAIT)})
    site.worker()
    site.until(lambda: datetime.now(UTC) > created + YOUNG + timedelta(seconds=1), "the wait is over")
    watcher = site.watcher()
    synced = at(watcher.lines("caches-synced")[0])
    site.until(lambda: site.decision("failed").get("status"), "the recovery was tried again")
    for resource, name in ((RESOURCE_SLICES, "young"), (RESOURCE_SLICES, "overflow"), (SECRETS, secret)):
        site.until(lambda resource=resource, name=name: site.gone(resource, name), f"{name} went")  # type: ignore[misc]
    assert datetime.now(UTC) < synced + SOON


def test_objects_that_no_other_object_points_to_come_back(site: Site) -> None:
    """Where all messages about them are lost: a slice and an inventory that were never seen by this watcher before."""
    owner = site.settled("owner")
    site.slice("unreferenced", "owner", owner)
    secret = site.remember("left")
    for _ in range(2):
        watcher = site.watcher()
        site.until(lambda: site.waiting(TaskName.CLEANUP) and site.waiting(TaskName.RETIRE), "both are asked for")
        assert watcher.end() == 0
        site.rig.redis.flushall()
    site.watcher()
    site.worker()
    site.until(lambda: site.gone(RESOURCE_SLICES, "unreferenced"), "the slice went")
    site.until(lambda: UNCLAIMED_SINCE_ANNOTATION in _annotations(site, secret), "the grace began")


def _annotations(site: Site, secret: str) -> Json:
    found: Json = site.rig.cluster.get(SECRETS, "kube-system", secret)["metadata"]["annotations"]
    return found


def test_our_own_writes_bring_one_more_look_and_no_further_write(site: Site) -> None:
    site.remember("web")
    site.worker()
    site.watcher()
    site.compose("web", {"web-0": [manifest(name="kept")]})
    recovered = {"task": "recover", "composition": f"{site.namespace}/web", "outcome": "done"}
    decided_at = at(site.until(lambda: site.ends(**recovered), "it is decided")[0])
    site.until(lambda: _looks(site, decided_at), "the write was looked at")
    site.quiet()
    before = [each for each in site.writes() if each.name == "web"]
    looks = len(_looks(site, decided_at))
    site.quiet()
    assert [each for each in site.writes() if each.name == "web"] == before
    assert len(_looks(site, decided_at)) <= looks + 2, "not looked at for ever"


def _looks(site: Site, since: datetime) -> list[Json]:
    return [line for line in site.ends(composition=f"{site.namespace}/web") if at(line) > since]


def test_nothing_is_deleted_for_an_object_that_leaves_the_cache_while_its_task_waits(site: Site) -> None:
    site.settings["composition_label_selector"] = "team=a"
    selected = {"metadata": {"labels": {"team": "a"}}}
    uids = {name: site.settled(name, metadata=selected["metadata"]) for name in ("leaves", "stays")}
    for name, uid in uids.items():
        site.slice(f"{name}-litter", name, uid)
    site.watcher()
    site.until(lambda: site.waiting(TaskName.CLEANUP) == 2, "a task for each")
    site.patch("leaves", {"metadata": {"labels": {"team": "b"}}})
    site.worker()
    site.until(lambda: site.gone(RESOURCE_SLICES, "stays-litter"), "the other's slice went")
    site.until(lambda: site.ends(task="cleanup", composition=f"{site.namespace}/leaves"), "its task ended")
    site.compose("fence", metadata=selected["metadata"])
    site.until(lambda: site.decision("fence"), "a later composition was decided")
    assert not site.gone(RESOURCE_SLICES, "leaves-litter")
    assert "leaves-litter" not in {each.name for each in site.writes()}


def test_what_is_out_of_scope_is_left_alone(site: Site) -> None:
    """A namespace and labels that are not ours, with everything in them that we would act on."""
    site.settings["composition_label_selector"] = "team=a"
    elsewhere = Site(site.rig, f"{site.namespace}-else")
    site.rig.cluster.create(NAMESPACES, None, {"metadata": {"name": elsewhere.namespace}})
    for place, labels in ((elsewhere, {"team": "a"}), (site, {"team": "b"}), (site, {})):
        name = f"theirs-{len(labels)}"
        uid = place.compose(name, {f"{name}-0": [manifest()]}, metadata={"labels": labels})
        place.slice(f"{name}-litter", name, uid)
    theirs = elsewhere.remember("left", **{UNCLAIMED_SINCE_ANNOTATION: ago(GRACE + WAIT)})
    uid = site.compose("ours", {"ours-0": [manifest()]}, metadata={"labels": {"team": "a"}})
    site.slice("ours-litter", "ours", uid)
    site.worker()
    site.watcher()
    site.until(lambda: site.decision("ours").get("status"), "ours is decided")
    site.until(lambda: site.gone(RESOURCE_SLICES, "ours-litter"), "our slice went")
    assert {each.name for each in site.writes() if each.name.startswith("theirs")} == set()
    assert not elsewhere.gone(SECRETS, theirs)


def test_who_opts_out_and_in_again_is_handled_from_the_live_state(site: Site) -> None:
    uid = site.compose("web", {"web-0": [manifest()]})
    site.watcher()
    site.until(lambda: site.waiting(TaskName.RECOVER), "a task")
    site.patch("web", {"metadata": {"annotations": {OPT_IN_ANNOTATION: None}}})
    site.worker()
    left = site.until(lambda: site.ends(task="recover"), "it ended")
    assert left[0]["outcome"] == "superseded"
    assert site.writes() == []
    site.slice("web-1", "web", uid, [manifest(name="newer")])
    site.patch("web", {"status": {"currentSynthesis": synthesis("newer", slices=["web-1"])}}, subresource="status")
    site.patch("web", {"metadata": {"annotations": {OPT_IN_ANNOTATION: "true"}}})
    done = site.until(lambda: site.ends(task="recover", outcome="done"), "it is decided")
    assert {line["synthesis"] for line in done} == {"newer"}
    assert site.decision("web")["synthesisUUID"] == "newer"
