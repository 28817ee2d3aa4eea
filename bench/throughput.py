"""Recoveries per second from end to end, beside an empty queue, beside no queue, and beside kopf.

End to end: the watcher finds compositions that need recovery, Redis queues them, workers recover them over HTTP.
Peers do the same recoveries with the product's own handler, on the same API server, in the same run. The clock
runs from the first decisions, when everybody is at work, to the last, by the API server's own log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from statistics import median

import redis as redis_client
from celery import Celery

from bench import inputs
from bench.figures import Aim, Bound, Curve, Line, Section
from bench.site import FAR, PEER_AGENT, ApiServer, Site, connect, cpu_seconds, environment, settings, site
from bench.timeline import decisions
from bench.timing import seconds
from kube.resources import COMPOSITIONS
from runtime.messages import TaskName
from runtime.sender import celery_configuration
from runtime.settings import Settings

SHAPE = inputs.Shape()
POOLS = (1, 2, 4, 8)
_QUEUE = TaskName.RECOVER.queue("bench")
_NOTHING = TaskName.GATE.queue("bench")
_SECONDS = 180.0
_CLIENTS = 32
_SERVER = "API server"

CALLS = 10
"""Requests of one recovery of SHAPE: the minimum (bench.calls), and its Event."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: recoveries a second, and how many cores each process kept busy meanwhile."""

    rate: float
    cores: Mapping[str, float] = field(default_factory=dict)

    @property
    def milliseconds(self) -> float:
        """Processor time of a recovery, by all processes together."""
        return 1000 * sum(self.cores.values()) / self.rate

    @property
    def ceiling(self) -> float:
        """Recoveries a second at which the busiest process other than the API server fills a core."""
        return self.rate / max(busy for name, busy in self.cores.items() if name != _SERVER)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: pools near and far, rounds, and recoveries per process of the pool."""

    near_pools: Sequence[int]
    far_pools: Sequence[int]
    rounds: int
    near: int
    far: int

    @classmethod
    def of(cls, *, quick: bool) -> Plan:
        """Enough for a steady rate, or for a rough one."""
        return cls((2,), (1, 8), 1, 40, 4) if quick else cls(POOLS, POOLS, 2, 120, 16)

    def pools(self, delay: float) -> Sequence[int]:
        """Those to measure at this distance."""
        return self.far_pools if delay else self.near_pools

    def count(self, pool: int, delay: float) -> int:
        """Compositions of one run."""
        return self.far * pool + 10 if delay else self.near + 20 * pool


def run(*, quick: bool) -> Section:
    """Measure in turns: bare, ours, kopf, ours, kopf, …"""
    plan = Plan.of(quick=quick)
    near = _measure(plan, 0.0)
    far = _measure(plan, FAR)
    capacity = _capacity(200 if quick else 2000)
    nothing = {pool: _nothing(pool, 400 if quick else 2000) for pool in plan.near_pools}
    few, many = plan.far_pools[0], plan.far_pools[-1]
    lines = [
        *(Line(f"queue alone, {pool} processes", nothing[pool], "/s") for pool in plan.near_pools),
        *_lines(near, "loopback", plan.near_pools),
        Line(
            "processor time of a recovery, loopback",
            near["ours"][plan.near_pools[-1]].milliseconds,
            "ms",
            "kopf",
            near["kopf"][plan.near_pools[-1]].milliseconds,
        ),
        *_lines(far, f"+{FAR:.0f} ms", plan.far_pools),
        Line(
            f"queue and framework, +{FAR:.0f} ms, 1 process",
            far["ours"][few].rate,
            "/s",
            "handler alone",
            far["bare"][1].rate,
            Aim(Bound.AT_LEAST, 0.9, of_ratio=True),
        ),
        Line(
            f"from {few} to {many} processes, +{FAR:.0f} ms",
            far["ours"][many].rate,
            "/s",
            f"{few} process",
            far["ours"][few].rate,
            Aim(Bound.AT_LEAST, 6, of_ratio=True),
        ),
    ]
    curves = [_curve("near", "API server on loopback", near), _curve("far", f"API server {FAR:.0f} ms away", far)]
    return Section(
        "throughput",
        "Throughput",
        lines,
        curves,
        _notes(near, far, (plan.near_pools[-1], many), capacity),
        _details(near, far, nothing),
    )


Found = dict[str, dict[int, Sample]]


def _measure(plan: Plan, delay: float) -> Found:
    found: Found = {"bare": {1: _bare(plan.count(1, delay), delay)}, "ours": {}, "kopf": {}}
    for pool in plan.pools(delay):
        count = plan.count(pool, delay)
        samples: dict[str, list[Sample]] = {"ours": [], "kopf": []}
        for _ in range(plan.rounds):
            samples["ours"].append(_ours(pool, count, delay))
            samples["kopf"].append(_kopf(pool, count, delay))
        for who, each in samples.items():
            found[who][pool] = _middle(each)
    return found


def _middle(samples: Sequence[Sample]) -> Sample:
    rate = median(sample.rate for sample in samples)
    return Sample(rate, min(samples, key=lambda sample: abs(sample.rate - rate)).cores)


def _ours(pool: int, count: int, delay: float) -> Sample:
    with site() as here:
        server, near = _servers(here, count, delay)
        broker = here.redis()
        surroundings = environment(settings(server, broker))
        worker = here.worker(surroundings, pool, _QUEUE)
        watcher = here.watcher(surroundings)
        processes = {_SERVER: near.child.process.pid, "workers": worker.process.pid}
        processes |= {"watcher": watcher.process.pid, "Redis": broker.pid}
        return _observe(here, near, count, pool, processes)


def _kopf(pool: int, count: int, delay: float) -> Sample:
    with site() as here:
        server, near = _servers(here, count, delay)
        options = ("--threads", str(pool))
        operator = here.python("bench.kopf_operator", *options, environment=environment(settings(server)))
        processes = {_SERVER: near.child.process.pid, "kopf": operator.process.pid}
        return _observe(here, near, count, pool, processes)


def _bare(count: int, delay: float) -> Sample:
    with site() as here:
        server, near = _servers(here, count, delay)
        # It ends when it is through, which is no failure: it is started last and looked at by its effect.
        child = here.python("bench.bare", environment=environment(settings(server)))
        return _observe(here, near, count, 1, {_SERVER: near.child.process.pid, "bare": child.process.pid})


def _servers(here: Site, count: int, delay: float) -> tuple[ApiServer, ApiServer]:
    """As clients see it, and as it is."""
    near = here.api_server(inputs.lost(index, SHAPE) for index in range(count))
    return (here.delayed(near, delay) if delay else near), near


def _observe(here: Site, server: ApiServer, count: int, pool: int, processes: Mapping[str, int]) -> Sample:
    """The rate between the decisions that end everybody's second recovery and the last decision."""
    first = min(2 * pool, count // 3)
    before: dict[str, float] = {}

    def at_work() -> bool | None:
        server.timeline.advance()
        return True if len(decisions(server.timeline.entries)) >= first else None

    def through() -> bool | None:
        server.timeline.advance()
        return True if len(decisions(server.timeline.entries)) >= count else None

    here.wait_for("first decisions", at_work, _SECONDS)
    started = time.monotonic()
    before = {name: _cpu(pid) for name, pid in processes.items()}
    here.wait_for("last decision", through, _SECONDS)
    lasted = time.monotonic() - started
    after = {name: _cpu(pid) for name, pid in processes.items()}
    instants = sorted(decisions(server.timeline.entries).values())
    rate = (count - first) / (instants[-1] - instants[first - 1])
    return Sample(rate, {name: max(0.0, after[name] - before[name]) / lasted for name in processes})


def _cpu(pid: int) -> float:
    with suppress(FileNotFoundError):
        return cpu_seconds(pid)
    return 0.0


def _capacity(count: int) -> float:
    """Requests a second that the delaying proxy passes at least: as many as these clients manage to send."""
    with site() as here:
        far = here.delayed(here.api_server([inputs.lost(0, SHAPE)]), FAR)
        with closing(connect(far, PEER_AGENT)) as cluster, ThreadPoolExecutor(_CLIENTS) as clients:
            name = inputs.composition_name(0)

            def ask(_: int) -> None:
                cluster.get(COMPOSITIONS, inputs.NAMESPACE, name, metadata_only=True)

            return count / seconds(lambda: list(clients.map(ask, range(count))))


def _nothing(pool: int, count: int) -> float:
    """Tasks a second that do nothing: queued beforehand, timed while the worker empties the queue."""
    with site() as here:
        broker = here.redis()
        fields = {"broker_url": broker.url, "instance": "bench", "pod_namespace": inputs.NAMESPACE}
        producer = Celery(
            "bench-producer", set_as_current=False, config_source=celery_configuration(Settings(**fields))
        )
        for _ in range(count):
            producer.send_task("bench.nothing", queue=_NOTHING)
        producer.close()
        with redis_client.Redis.from_url(broker.url) as client:
            here.worker(environment(fields), pool, _NOTHING, app="bench.noop")
            seen: list[tuple[float, int]] = []
            while not seen or seen[-1][1] > 0:
                seen.append((time.monotonic(), int(client.llen(_NOTHING))))
                time.sleep(0.005)
        steady = [(at, left) for at, left in seen if left < 0.9 * count]
        (start, most), (end, least) = steady[0], steady[-1]
        return (most - least) / (end - start)


def _lines(found: Found, where: str, pools: Sequence[int]) -> list[Line]:
    at_least_as_fast = Aim(Bound.AT_LEAST, 1, of_ratio=True)
    return [
        Line(
            f"recoveries, {pool} process{'es' if pool > 1 else ''}, {where}",
            found["ours"][pool].rate,
            "/s",
            f"kopf, {pool} thread{'s' if pool > 1 else ''}",
            found["kopf"][pool].rate,
            at_least_as_fast,
        )
        for pool in pools
    ]


def _curve(name: str, title: str, found: Found) -> Curve:
    names = {"ours": "Sexton", "kopf": "kopf, one process"}
    series = {label: [(pool, sample.rate) for pool, sample in found[who].items()] for who, label in names.items()}
    series["handler alone, one process"] = [(pool, found["bare"][1].rate) for pool in found["ours"]]
    return Curve(f"throughput-{name}", f"Recoveries, {title}", "processes or threads", "recoveries per second", series)


def _notes(near: Found, far: Found, pools: tuple[int, int], capacity: float) -> list[str]:
    here, there = pools
    cpus = len(os.sched_getaffinity(0))
    needed = CALLS * max(samples[there].rate for samples in (far["ours"], far["kopf"]))
    return [
        f"A recovery here takes {CALLS} requests and waits for each. The proxy that delays them passes at least "
        f"{capacity:.0f} a second; {needed:.0f} were needed at most, so it is not the bound.",
        f"{cpus} cores allow {1000 * cpus / near['ours'][here].milliseconds:.0f} recoveries a second; "
        f"kopf's process ends at {near['kopf'][here].ceiling:.0f}, however many cores there are.",
        f"Cores in use on loopback with {here} processes: {_cores(near['ours'][here])}; "
        f"kopf with {here} threads: {_cores(near['kopf'][here])}.",
        f"Cores in use {FAR:.0f} ms away with {there} processes: {_cores(far['ours'][there])}; "
        f"kopf: {_cores(far['kopf'][there])}.",
    ]


def _cores(sample: Sample) -> str:
    parts = [f"{name} {busy:.2f}" for name, busy in sample.cores.items()]
    return f"{', '.join(parts)} (sum {sum(sample.cores.values()):.2f})"


def _details(near: Found, far: Found, nothing: Mapping[int, float]) -> dict[str, object]:
    def plain(found: Found) -> dict[str, dict[str, object]]:
        return {
            who: {str(pool): {"rate": each.rate, "cores": dict(each.cores)} for pool, each in samples.items()}
            for who, samples in found.items()
        }

    return {"near": plain(near), "far": plain(far), "nothing": {str(pool): rate for pool, rate in nothing.items()}}
