"""What is remembered downstream, what recovery would choose of it today, and what is wrong with the rest.

A restore test without a restore: the worker's own rules, asked on live reads and never acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from eno.decision import nothing_to_record
from eno.errors import InvalidInventory, SextonError
from eno.identity import ResourceId
from eno.inventory.entries import Entry, build
from eno.inventory.secrets import INVENTORY_NAMESPACE, LINEAGE_KEY, StoredChunk, UnusableChunk, source_of
from eno.inventory.selection import (
    FUTURE_TOLERANCE,
    Absent,
    Candidate,
    Lineage,
    Snapshot,
    TooYoung,
    adopt,
    decode,
    select,
)
from eno.objects import Composition, ObjectView
from eno.retirement import Holding
from eno.times import format_time
from eno.tombstones import manifests
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS, SECRETS
from workers.context import Context
from workers.reading import INVENTORY_PAGE, Neighbours, list_inventory, read_slices

_TYPE = "Opaque"


@dataclass(frozen=True, slots=True)
class Stored:
    """One snapshot as it is stored, whole or not. `defects` is empty when a recovery could trust it."""

    chunks: tuple[StoredChunk, ...]
    unclaimed_since: datetime | None
    defects: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Namespace and name of the composition it was made of."""
        source = self.chunks[0].source
        return f"{source.namespace}/{source.composition}"

    @property
    def state(self) -> str:
        """One line for people."""
        return "; ".join(self.defects) or "complete"

    def entries(self) -> tuple[Entry, ...]:
        """What its readable chunks list."""
        found: list[Entry] = []
        for chunk in self.chunks:
            try:
                found += decode(chunk)
            except InvalidInventory:
                continue
        return tuple(found)

    def to_json(self) -> Json:
        """For machines."""
        source = self.chunks[0].source
        return {
            "namespace": source.namespace,
            "composition": source.composition,
            "synthesizer": source.synthesizer,
            "synthesis": source.synthesis_uuid,
            "synthesized": format_time(source.synthesized),
            "secrets": [chunk.name for chunk in self.chunks],
            "chunks": self.chunks[0].count,
            "unclaimed_since": format_time(self.unclaimed_since) if self.unclaimed_since else None,
            "defects": list(self.defects),
        }


@dataclass(frozen=True, slots=True)
class Remembered:
    """Everything under the lineage label: snapshots, Secrets that cannot be trusted, and Secrets that are not ours."""

    snapshots: tuple[Stored, ...] = ()
    unusable: tuple[UnusableChunk, ...] = ()
    foreign: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """For machines."""
        return {
            "snapshots": [each.to_json() for each in self.snapshots],
            "unusable": [{"secret": each.name, "defect": each.defect} for each in self.unusable],
            "ignored": list(self.foreign),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """What a recovery of the composition would find today.

    `choice` says which snapshot it would take and why, or why none. `missing` is owned by the ready synthesis and
    not in that snapshot. `stored` counts the snapshots of the lineage, whole or not. `problem` is empty when nothing
    is wrong. `findings` are about the rest.
    """

    composition: Composition
    choice: str
    chosen: Stored | None = None
    stored: int = 0
    entries: int = 0
    missing: tuple[ResourceId, ...] = ()
    problem: str = ""
    findings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: the history can be relied on, or none is owed yet."""
        return not self.problem

    @property
    def verdict(self) -> str:
        """One line for people."""
        if self.problem:
            return self.problem
        if self.chosen is not None:
            return "reliable"
        return "nothing usable stored yet" if self.stored else "nothing stored yet"

    def to_json(self) -> Json:
        """For machines."""
        return {
            "composition": self.composition.title,
            "ok": self.ok,
            "verdict": self.verdict,
            "problem": self.problem,
            "choice": self.choice,
            "chosen": self.chosen.to_json() if self.chosen else None,
            "entries": self.entries,
            "missing": [identity._asdict() for identity in self.missing],
            "findings": list(self.findings),
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """The outcome of a selection: a snapshot, or a reason why there is none; `problem` where that is no good end."""

    choice: str
    snapshot: Snapshot | None = None
    entries: Sequence[Entry] = field(default_factory=tuple)
    problem: str = ""


def remembered(secrets: Iterable[Mapping[str, object]], *, payloads: bool) -> Remembered:
    """The Secrets of a list, sorted out. `payloads`: their data was read, so it is checked too."""
    groups: dict[tuple[str, str, str, str], list[Holding]] = {}
    unusable, foreign = [], []
    for secret in secrets:
        holding = Holding.of(secret)
        if holding is None:
            foreign.append(ObjectView.from_json(secret).name)
        elif isinstance(holding.stored, UnusableChunk):
            unusable.append(holding.stored)
        else:
            source = holding.stored.source
            key = (source.namespace, source.composition, source.synthesizer, source.synthesis_uuid)
            groups.setdefault(key, []).append(holding)
    snapshots = [_stored(groups[key], payloads=payloads) for key in groups]
    snapshots.sort(key=lambda each: (each.title, each.chunks[0].source.synthesized))
    return Remembered(tuple(snapshots), tuple(unusable), tuple(foreign))


def list_remembered(cluster: Cluster, *, payloads: bool) -> Remembered:
    """Everything under the lineage label, from one complete list; without `payloads` as metadata. Raises ApiError."""
    query = Query(
        SECRETS,
        INVENTORY_NAMESPACE,
        label_selector=LINEAGE_KEY,
        field_selector=f"type={_TYPE}",
        metadata_only=not payloads,
    )
    # Metadata alone does not tell the type; the server has selected by it.
    secrets = ({**item, "type": _TYPE} for item in list_all(cluster, query, page_size=INVENTORY_PAGE).items)
    return remembered(secrets, payloads=payloads)


def only(found: Remembered, namespace: str, name: str = "") -> Remembered:
    """The snapshots of one namespace, or of one composition in it; what cannot be told stays."""
    snapshots = tuple(
        each
        for each in found.snapshots
        if each.chunks[0].source.namespace == namespace and name in ("", each.chunks[0].source.composition)
    )
    return Remembered(snapshots, found.unusable, found.foreign)


def verify_all(context: Context) -> list[Verification]:
    """Every opted-in composition of the watch scope. Raises ApiError when they cannot be listed."""
    scope = context.settings.scope
    query = Query(COMPOSITIONS, scope.composition_namespace or None, label_selector=scope.label_selector)
    compositions = [Composition.from_json(item) for item in list_all(context.upstream, query).items]
    return [
        verify(each, context)
        for each in sorted(compositions, key=lambda each: each.title)
        if each.opted_in and scope.outside_watch(each) is None
    ]


def verify(composition: Composition, context: Context) -> Verification:
    """What a recovery of this composition would find. Raises ApiError when the inventory cannot be read."""
    secrets = list_inventory(context.downstream, composition)
    found = _choose(composition, secrets, context)
    everything = remembered(secrets, payloads=True)
    chosen = next((each for each in everything.snapshots if _is(each, found.snapshot)), None)
    problem = found.problem
    missing: tuple[ResourceId, ...] = ()
    if not problem and nothing_to_record(composition) is None:
        problem, missing = _coverage(composition, found, context)
    return Verification(
        composition,
        found.choice,
        chosen,
        len(everything.snapshots),
        len(found.entries),
        missing,
        problem,
        tuple(_findings(everything, chosen, context.clock())),
    )


def _choose(composition: Composition, secrets: Sequence[Json], context: Context) -> _Found:
    now = context.clock()
    try:
        selected = select(Lineage.read(secrets), composition.name, now)
        if isinstance(selected, Candidate):
            found = adopt(selected, composition, Neighbours(context.upstream, composition).all, now)
        else:
            found = selected
        match found:
            case Snapshot():
                return _Found(_because(found, composition), found, found.entries())
            case TooYoung(until):
                return _Found(f"it would wait until {format_time(until)}, then adopt history of another name")
            case Absent(why):
                return _Found(f"nothing: {why or 'no inventory is stored'}")
    except InvalidInventory as error:
        return _Found("nothing: the inventory is invalid", problem=error.summary)


def _because(snapshot: Snapshot, composition: Composition) -> str:
    source = snapshot.source
    made = f"synthesis {source.synthesis_uuid} of {format_time(source.synthesized)}"
    if source.composition == composition.name:
        return f"{made}, the newest complete snapshot of its own name"
    return f"{made} of {source.composition}, since nobody else can claim it"


def _coverage(composition: Composition, found: _Found, context: Context) -> tuple[str, tuple[ResourceId, ...]]:
    """What the ready synthesis owns and the chosen snapshot does not list, and what to say of it."""
    try:
        owned = build((head, False) for head in manifests(read_slices(context.upstream, composition)).desired)
    except SextonError as error:
        return f"the current slices cannot be read: {error.summary}", ()
    listed = {entry.id for entry in found.entries}
    missing = tuple(entry.id for entry in owned if entry.id not in listed)
    if found.snapshot is None:
        return "the ready synthesis is not recorded", missing
    if missing:
        return f"the snapshot lacks {len(missing)} of {len(owned)} resources that the ready synthesis owns", missing
    if found.snapshot.source == source_of(composition) and list(found.entries) != owned:
        return "the snapshot of the ready synthesis does not list what it owns", ()
    return "", ()


def _findings(found: Remembered, chosen: Stored | None, now: datetime) -> Iterable[str]:
    """What is wrong with everything that would not be chosen, a line each."""
    for each in found.unusable:
        yield f"Secret {each.name}: {each.defect}"
    for stored in found.snapshots:
        if stored is chosen:
            continue
        source = stored.chunks[0].source
        ahead = source.synthesized > now + FUTURE_TOLERANCE
        why = "stamped in the future" if ahead else "not the one that would be chosen"
        yield f"Secret {stored.chunks[0].name}: synthesis {source.synthesis_uuid} of {stored.title}: " + (
            "; ".join(stored.defects) or why
        )
    for name in found.foreign:
        yield f"Secret {name}: carries the label and is no inventory; it is ignored"


def _stored(group: Sequence[Holding], *, payloads: bool) -> Stored:
    chunks = tuple(
        sorted((each.stored for each in group if isinstance(each.stored, StoredChunk)), key=lambda each: each.index)
    )
    since = [each.since for each in group if each.since is not None]
    return Stored(chunks, max(since, default=None), tuple(_defects(chunks, payloads=payloads)))


def _defects(chunks: Sequence[StoredChunk], *, payloads: bool) -> Iterable[str]:
    first = chunks[0]
    indexes = [each.index for each in chunks]
    absent = [str(index) for index in range(first.count) if index not in indexes]
    if absent:
        yield f"chunk {', '.join(absent[:5])} of {first.count} is missing"
    for each in chunks:
        if each.terminating:
            yield f"Secret {each.name} is terminating"
        if indexes.count(each.index) > 1:
            yield f"Secret {each.name} is one of {indexes.count(each.index)} for chunk {each.index}"
        if (each.source, each.count) != (first.source, first.count):
            yield f"Secret {each.name} disagrees with {first.name}"
    if payloads:
        try:
            Snapshot(first.source, tuple(chunks)).entries()
        except InvalidInventory as error:
            yield error.summary


def _is(stored: Stored, snapshot: Snapshot | None) -> bool:
    return snapshot is not None and stored.chunks == snapshot.chunks
