"""What a decision costs: manifest heads beside other parsers, and missing identities with their plan by size."""

from __future__ import annotations

import gc
import json
import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from bench import inputs
from bench.figures import Aim, Bound, Curve, Line, Section
from bench.timing import alternating, growth, linearithmic_growth, seconds
from eno.identity import parse_head
from eno.inventory.entries import Entry
from eno.objects import ResourceSlice
from eno.packing import Plan, pack
from eno.tombstones import Manifests, manifests, missing, settle, tombstone
from tests.support.factories import resource_slice

AIM_IDENTITIES, AIM_SLICES, AIM_MILLISECONDS = 10_000, 20, 20
SIZES = ((1_000, 20), (10_000, 20), (10_000, 200), (100_000, 200), (100_000, 2_000))
"""Identities in the inventory, and the slices over which the wanted half of them is spread."""

_ROUNDS = 5


class _Metadata(BaseModel):
    """The metadata of any object, whole."""

    model_config = ConfigDict(extra="allow")

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Document(BaseModel):
    """A manifest as a model that keeps everything, like the generated ones of client libraries."""

    model_config = ConfigDict(extra="allow")

    apiVersion: str
    kind: str
    metadata: _Metadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """An inventory, and slices that hold every other resource of it."""

    identities: int
    slices: Sequence[ResourceSlice]
    inventory: Sequence[Entry]

    @classmethod
    def of(cls, identities: int, slices: int) -> Case:
        """Half of the resources are missing, more than any ordinary loss."""
        texts = inputs.numbered(identities)
        kept = texts[::2]
        size = len(kept) // slices
        parts = [kept[index * size : (index + 1) * size] for index in range(slices)]
        found = [resource_slice(f"slice-{index}", part) for index, part in enumerate(parts)]
        return cls(identities, found, inputs.remembered(texts))

    def decide(self, current: Manifests) -> Plan:
        """Missing identities, holds, tombstones, and where they go."""
        debt = settle(missing(self.inventory, current), current, [], [])
        return pack([tombstone(entry) for entry in debt.buried], self.slices)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of reading the heads and of the decision, and MiB at its peak beyond its inputs."""

    identities: int
    slices: int
    heads: float
    decision: float
    peak: float


def run(*, quick: bool) -> Section:
    """Compare and scale."""
    lines, heads = _heads(quick=quick)
    costs = [_cost(*size) for size in (SIZES[:3] if quick else SIZES)]
    aimed = next(cost for cost in costs if (cost.identities, cost.slices) == (AIM_IDENTITIES, AIM_SLICES))
    for cost in costs:
        lines.append(_line(cost, Aim(Bound.AT_MOST, AIM_MILLISECONDS) if cost is aimed else None))
    ends = (costs[0].identities, costs[-1].identities)
    exponent = growth([(cost.identities, cost.decision) for cost in costs])
    limit = linearithmic_growth(*ends)
    lines.append(
        Line(
            f"growth from {ends[0]:,} to {ends[1]:,}: exponent",
            exponent,
            "",
            "n log n",
            limit,
            # A tenth more is noise: the smaller sizes fit into the processor's caches.
            Aim(Bound.AT_MOST, 1.1, of_ratio=True),
        )
    )
    largest = max(costs, key=lambda cost: cost.peak)
    lines.append(Line(f"peak memory, {largest.identities:,} identities", largest.peak, "MiB"))
    return Section(
        "decision",
        "Decision",
        lines,
        [_curve(costs)],
        [
            heads,
            "A decision is missing identities, holds, tombstones and the plan, with half of the inventory missing; "
            "the heads are read before it, once per manifest. Peak memory by tracemalloc, beyond the inputs.",
        ],
        {"costs": [[cost.identities, cost.slices, cost.heads, cost.decision, cost.peak] for cost in costs]},
    )


def _heads(*, quick: bool) -> tuple[list[Line], str]:
    """Heads per second beside whole documents, on the same slices."""
    documents, origin = inputs.whole_documents()
    slices = inputs.full_slices(documents, 2 if quick else 8)
    texts = [text for each in slices for text in each]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    parsers: dict[str, Callable[[str], object]] = {
        "ours": parse_head,
        "orjson": orjson.loads,
        "json": json.loads,
        "pydantic": _Document.model_validate_json,
    }
    found = alternating({name: partial(_parse_all, parse, texts) for name, parse in parsers.items()}, _ROUNDS)
    lines = [
        Line("manifest heads", len(texts) / found["ours"], "/s", name, len(texts) / found[name])
        for name in parsers
        if name != "ours"
    ]
    lines.append(
        Line("the same in bytes", megabytes / found["ours"], "MB/s", "orjson, whole", megabytes / found["orjson"])
    )
    average = megabytes * 1000 / len(texts)
    note = f"Heads: {origin}, {average:.1f} KB on average, {len(slices)} slices of up to 512 KiB."
    return lines, note


def _parse_all(parse: Callable[[str], object], texts: Sequence[str]) -> None:
    for text in texts:
        parse(text)


def _cost(identities: int, slices: int) -> Cost:
    case = Case.of(identities, slices)
    current = manifests(case.slices)
    gc.collect()
    rounds = _ROUNDS if identities <= AIM_IDENTITIES else 2
    taken = alternating({"heads": lambda: manifests(case.slices), "decision": lambda: case.decide(current)}, rounds)
    tracemalloc.start()
    seconds(lambda: case.decide(current))
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return Cost(identities, slices, taken["heads"], taken["decision"], peak)


def _line(cost: Cost, aim: Aim | None) -> Line:
    what = f"decision: {cost.identities:,} identities, {cost.slices:,} slices"
    return Line(what, cost.decision * 1000, "ms", "their heads", cost.heads * 1000, aim)


def _curve(costs: Sequence[Cost]) -> Curve:
    largest: dict[int, float] = {}
    for cost in costs:
        largest[cost.identities] = max(cost.decision * 1000, largest.get(cost.identities, 0.0))
    sizes = sorted(largest)
    unit = largest[sizes[0]] / _linearithmic(sizes[0])
    return Curve(
        "decision",
        "One decision, half of the inventory missing",
        "identities in the inventory",
        "milliseconds",
        {
            "measured": [(size, largest[size]) for size in sizes],
            "n log n from the smallest": [(size, unit * _linearithmic(size)) for size in sizes],
        },
        logarithmic=True,
    )


def _linearithmic(size: float) -> float:
    return size * math.log(size)
