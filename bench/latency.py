"""How long it takes from the write that makes recovery necessary to the worker's first call and to the decision.

Eno's part is played by a client that publishes one synthesis after the other: alone (idle), or many at once (a
backlog, in which each waits for those before it). All instants are those of the API server's answers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from bench import inputs
from bench.figures import Curve, Line, Section
from bench.site import ENO_AGENT, PEER_AGENT, WORKER_AGENT, ApiServer, Site, connect, environment, settings, site
from bench.timeline import Timeline, decisions, first_requests
from bench.timing import percentile
from kube.http import HttpCluster
from kube.resources import COMPOSITIONS
from runtime.messages import TaskName

SHAPE = inputs.Shape()
WORKERS = 2
SHARES = (0.5, 0.95, 0.99)
_SECONDS = 120.0
_QUEUE = TaskName.RECOVER.queue("bench")


@dataclass(frozen=True, slots=True)
class Delays:
    """Milliseconds from each write to the first call about its composition, and to its decision."""

    to_call: Sequence[float]
    to_decision: Sequence[float]

    @property
    def working(self) -> list[float]:
        """From the first call to the decision: the recovery itself."""
        return [end - begin for begin, end in zip(self.to_call, self.to_decision, strict=True)]


def run(*, quick: bool) -> Section:
    """Idle and under a backlog, ours and kopf's."""
    alone, together = (10, 20) if quick else (100, 200)
    with site() as here:
        server = _ours(here, alone + together)
        idle = _play(here, server, WORKER_AGENT, range(alone), _one_by_one)
        burst = _play(here, server, WORKER_AGENT, range(alone, alone + together), _at_once)
    with site() as here:
        server = _kopf(here, alone + together)
        kopf_idle = _play(here, server, PEER_AGENT, range(alone), _one_by_one)
        kopf_burst = _play(here, server, PEER_AGENT, range(alone, alone + together), _at_once)
    lines = [
        *_lines("idle, to first call", idle.to_call, kopf_idle.to_call),
        *_lines("idle, to decision", idle.to_decision, kopf_idle.to_decision),
        *_lines(f"{together} at once, to first call", burst.to_call, kopf_burst.to_call),
        *_lines(f"{together} at once, to decision", burst.to_decision, kopf_burst.to_decision),
    ]
    series = {"Sexton": idle.to_decision, "kopf": kopf_idle.to_decision}
    series |= {"Sexton, to first call": idle.to_call, "the recovery itself": idle.working}
    return Section(
        "latency",
        "Latency",
        lines,
        [_curve(series)],
        [
            f"{WORKERS} processes beside kopf with {WORKERS} threads; the recovery itself took "
            f"{percentile(idle.working, 0.5):.1f} ms (p50, idle). At once, each waits for those before it, so the "
            "bound is throughput.",
        ],
        {"idle": [idle.to_call, idle.to_decision], "burst": [burst.to_call, burst.to_decision]},
    )


def _ours(here: Site, count: int) -> ApiServer:
    server = _server(here, count)
    surroundings = environment(settings(server, here.redis()))
    here.worker(surroundings, WORKERS, _QUEUE)
    watcher = here.watcher(surroundings)
    here.wait_for("synced watcher", lambda: b"caches-synced" in watcher.log.read_bytes() or None, _SECONDS)
    return server


def _kopf(here: Site, count: int) -> ApiServer:
    server = _server(here, count)
    options = ("--threads", str(WORKERS))
    here.python("bench.kopf_operator", *options, environment=environment(settings(server)))

    def watching() -> bool | None:
        fresh = server.timeline.advance()
        return True if any(entry.verb == "list" and entry.resource == "compositions" for entry in fresh) else None

    here.wait_for("watching operator", watching, _SECONDS)
    return server


def _server(here: Site, count: int) -> ApiServer:
    return here.api_server(inputs.lost(index, SHAPE, pending=False) for index in range(count))


def _play(
    here: Site,
    server: ApiServer,
    agent: str,
    indexes: Sequence[int],
    publish: Callable[[Site, HttpCluster, Timeline, Sequence[int]], None],
) -> Delays:
    names = [inputs.composition_name(index) for index in indexes]
    with closing(connect(server, ENO_AGENT)) as eno:
        publish(here, eno, server.timeline, indexes)
    _wait(here, server.timeline, names)
    written = decisions(server.timeline.by(ENO_AGENT))
    theirs = server.timeline.by(agent)
    called, decided = first_requests(theirs), decisions(theirs)
    return Delays(
        [(called[name] - written[name]) * 1000 for name in names],
        [(decided[name] - written[name]) * 1000 for name in names],
    )


def _one_by_one(here: Site, eno: HttpCluster, timeline: Timeline, indexes: Sequence[int]) -> None:
    """Each after the one before is decided and some time has passed, so that nothing falls into a rhythm."""
    spread = random.Random(0)
    for index in indexes:
        _publish(eno, index)
        _wait(here, timeline, [inputs.composition_name(index)])
        time.sleep(0.05 + spread.random() / 10)


def _at_once(_here: Site, eno: HttpCluster, _timeline: Timeline, indexes: Sequence[int]) -> None:
    for index in indexes:
        _publish(eno, index)


def _publish(eno: HttpCluster, index: int) -> None:
    status = inputs.synthesized(index, SHAPE)
    eno.merge_patch(COMPOSITIONS, inputs.NAMESPACE, inputs.composition_name(index), status, subresource="status")


def _wait(here: Site, timeline: Timeline, names: Sequence[str]) -> None:
    """Until the worker, or the operator, has decided all of these."""

    def decided() -> bool | None:
        timeline.advance()
        others = [entry for entry in timeline.entries if entry.agent != ENO_AGENT]
        return True if decisions(others).keys() >= set(names) else None

    here.wait_for("decisions", decided, _SECONDS)


def _lines(what: str, ours: Sequence[float], theirs: Sequence[float]) -> list[Line]:
    return [
        Line(f"{what}, p{share * 100:.0f}", percentile(ours, share), "ms", "kopf", percentile(theirs, share))
        for share in SHARES
    ]


def _curve(series: Mapping[str, Sequence[float]]) -> Curve:
    shares = [number / 100 for number in range(0, 101, 2)]
    points = {name: [(percentile(values, share), 100 * share) for share in shares] for name, values in series.items()}
    return Curve("latency", "From the write to the decision, idle", "milliseconds", "% of recoveries", points)
