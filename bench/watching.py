"""What the watcher costs: memory per object, start-up, bytes read, and what a converged cluster makes it do.

Memory is the resident set of the process above that of one that watches a single composition. Peers watch the same
objects on the same API server, one after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from bench import inputs
from bench.figures import Aim, Bound, Curve, Line, Section
from bench.site import PEER_AGENT, WATCHER_AGENT, ApiServer, Site, environment, resident, settings, site
from bench.timeline import Entry
from console.stage import Child
from kube.cluster import PAGE_SIZE
from runtime.dispatch import Dispatcher
from runtime.settings import Settings
from tests.support.tap import WRITES

SLICES = 4
SHAPE = inputs.Shape(slices=SLICES, manifests=4)
PENDING_SHAPE = inputs.Shape(slices=1, manifests=1, missing=0)
PADDING = 400
"""Bytes of content per manifest: with its head a slice has some 3 KB, little beside real ones."""

AIM_OBJECTS, AIM_MEBIBYTES, AIM_SECONDS = 50_000, 60, 10
SIZES, QUICK_SIZES = (10_000, 50_000, 100_000), (2_000,)
PENDING, QUICK_PENDING = 10_000, 500
CONVERGED, QUICK_CONVERGED = 1_000, 200
IDLE = 1 + SLICES
"""Objects that a process watches when it counts as idle: with none at all, kopf does not say when it is ready."""

_SECONDS = 300.0
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """What a process came to: MiB, seconds until it knew everything, MB that it read for it."""

    memory: float
    seconds: float
    megabytes: float


Watch = Callable[[Site, ApiServer, int], Held]
Found = Mapping[str, Mapping[int, Held]]


def run(*, quick: bool) -> Section:
    """Every size in turn, each with all who watch it."""
    sizes = QUICK_SIZES if quick else SIZES
    found: dict[str, dict[int, Held]] = {who: {} for who in WATCHERS}
    for size in (IDLE, *sizes):
        with site() as here:
            server = here.api_server(_families(size // (1 + SLICES)))
            for who, watch in WATCHERS.items():
                found[who][size] = watch(here, server, size)
    lines = [line for size in sizes for line in _lines(size, found)]
    lines += _linearity(found["ours"], sizes)
    lines.append(_pending(QUICK_PENDING if quick else PENDING))
    lines += _converged(QUICK_CONVERGED if quick else CONVERGED)
    details = {
        who: {str(n): [h.memory, h.seconds, h.megabytes] for n, h in each.items()} for who, each in found.items()
    }
    return Section("watcher", "Watcher", lines, _curves(found, sizes), _notes(found), details)


def _families(compositions: int) -> Iterator[inputs.Family]:
    """A converged cluster, with an inventory for each composition."""
    return (inputs.settled(index, SHAPE, padding=PADDING) for index in range(compositions))


def _ours(here: Site, server: ApiServer, _objects: int, *, recovering: str = "false") -> Held:
    """Inventories are followed only where history is recovered."""
    with here.redis() as broker:
        surroundings = environment(settings(server, broker, enable_tombstone_recovery=recovering))
        start = partial(here.watcher, surroundings)
        return _observe(here, server, start, b"caches-synced", WATCHER_AGENT)


def _peer(name: str, here: Site, server: ApiServer, objects: int) -> Held:
    options = (name, "--kubeconfig", str(server.kubeconfig), "--objects", str(objects))
    start = partial(here.python, "bench.peers", *options, environment=environment({}))
    return _observe(here, server, start, b"synced", "kopf" if name == "kopf" else PEER_AGENT)


def _observe(here: Site, server: ApiServer, start: Callable[[], Child], mark: bytes, agent: str) -> Held:
    """Start it, wait for the mark in its log, look at it, end it."""
    server.timeline.advance()
    known = len(server.timeline.entries)
    started = time.monotonic()
    child = start()
    here.wait_for("everything seen", lambda: mark in child.log.read_bytes() or None, _SECONDS)
    seconds = time.monotonic() - started
    time.sleep(_SETTLE_SECONDS)
    memory = resident(child)
    here.stop(child)
    server.timeline.advance()
    read = [each for each in server.timeline.entries[known:] if each.agent.startswith(agent)]
    return Held(memory, seconds, sum(each.sent for each in read) / 1e6)


WATCHERS: Mapping[str, Watch] = {
    "ours": _ours,
    "recovering": partial(_ours, recovering="true"),
    "informer": partial(_peer, "informer"),
    "kopf": partial(_peer, "kopf"),
}


def _lines(size: int, found: Found) -> list[Line]:
    memory = {who: each[size].memory - each[IDLE].memory for who, each in found.items()}
    at = {who: each[size] for who, each in found.items()}
    objects = f"{size:,} objects"
    inventories = size // (1 + SLICES)
    aim = Aim(Bound.AT_MOST, AIM_MEBIBYTES) if size == AIM_OBJECTS else None
    return [
        Line(f"memory, {objects}", memory["ours"], "MiB", "informer", memory["informer"], aim),
        Line(f"memory, {objects}", memory["ours"], "MiB", "kopf", memory["kopf"]),
        Line("  per object", memory["ours"] * 1024 / size, "KiB", "informer", memory["informer"] * 1024 / size),
        Line(f"  with {inventories:,} inventories more", memory["recovering"], "MiB"),
        Line(f"start-up, {objects}", at["ours"].seconds, "s", "informer", at["informer"].seconds),
        Line(f"start-up, {objects}", at["ours"].seconds, "s", "kopf", at["kopf"].seconds),
        Line(f"read at start, {objects}", at["ours"].megabytes, "MB", "whole", at["informer"].megabytes),
    ]


def _linearity(ours: Mapping[int, Held], sizes: Sequence[int]) -> list[Line]:
    """Memory of one more object among many, beside one among few; nothing where there are no two steps."""
    steps = [(ours[b].memory - ours[a].memory) * 1024 / (b - a) for a, b in pairwise((IDLE, *sizes))]
    aim = Aim(Bound.AT_MOST, 1.1, of_ratio=True)
    return [Line("one more object, last step", steps[-1], "KiB", "first", steps[0], aim)] if len(steps) > 1 else []


def _pending(compositions: int) -> Line:
    """From the start of the process until every composition's recover and gate are in their queues."""
    with site() as here:
        families = (inputs.unrecorded(inputs.lost(index, PENDING_SHAPE)) for index in range(compositions))
        server = here.api_server(families)
        fields = settings(server, here.redis())
        with closing(Dispatcher.connect(Settings.load(**fields))) as queue:
            started = time.monotonic()
            here.watcher(environment(fields))

            def complete() -> bool | None:
                return True if sum(queue.lengths().values()) >= 2 * compositions else None

            here.wait_for("all messages", complete, _SECONDS)
            seconds = time.monotonic() - started
    aim = Aim(Bound.AT_MOST, AIM_SECONDS) if compositions == PENDING else None
    return Line(f"start to {2 * compositions:,} messages queued", seconds, "s", aim=aim)


def _converged(compositions: int) -> list[Line]:
    """A start and a relist where nothing is to be done: requests, and messages."""
    with site() as here:
        server = here.api_server(_families(compositions))
        fields = settings(server, here.redis(), relist_seconds="3")
        here.watcher(environment(fields))
        kinds = (compositions, compositions * SLICES, compositions)
        pages = sum(math.ceil(count / PAGE_SIZE) for count in kinds)

        def listed() -> bool | None:
            server.timeline.advance()
            return True if len(_lists(server)) >= 2 * pages else None

        here.wait_for("second list", listed, _SECONDS)
        time.sleep(_SETTLE_SECONDS)
        requests = _lists(server)
        writes = [
            each for each in server.timeline.by(WATCHER_AGENT) if each.verb in WRITES and each.resource != "leases"
        ]
        with closing(Dispatcher.connect(Settings.load(**fields))) as queue:
            messages = sum(queue.lengths().values())
    objects = sum(kinds)
    return [
        Line(f"lists of {objects:,} converged objects", len(requests[:pages]), "calls", "pages", pages),
        Line("  tasks queued by start and relist", messages, "", aim=Aim(Bound.AT_MOST, 0)),
        Line("  writes, but for its Lease", len(writes), "", aim=Aim(Bound.AT_MOST, 0)),
    ]


def _lists(server: ApiServer) -> list[Entry]:
    return [each for each in server.timeline.by(WATCHER_AGENT) if each.verb == "list"]


def _curves(found: Found, sizes: Sequence[int]) -> list[Curve]:
    names = {"ours": "Sexton", "informer": "official informer", "kopf": "kopf"}
    memory = {
        name: [(size, found[who][size].memory - found[who][IDLE].memory) for size in sizes]
        for who, name in names.items()
    }
    seconds = {name: [(size, found[who][size].seconds) for size in sizes] for who, name in names.items()}
    return [
        Curve("watcher-memory", "Memory above an idle process", "objects", "MiB", memory),
        Curve("watcher-start", "Start of the process until all is known", "objects", "seconds", seconds),
    ]


def _notes(found: Found) -> list[str]:
    idle = ", ".join(f"{who} {found[who][IDLE].memory:.0f} MiB" for who in ("ours", "informer", "kopf"))
    return [
        f"Objects are compositions with {SLICES} slices each. Where history is recovered, the watcher also follows "
        f"inventories, here one a composition. Idle processes: {idle}.",
        "The informer keeps whole objects, as it does by design; the kopf operator a name and a version of each.",
    ]
