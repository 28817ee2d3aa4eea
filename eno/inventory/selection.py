"""Which stored snapshot a recovery may trust: own name first, another name only when nobody else can claim it.

Every rule here ends in a decision; nothing falls back to older history silently, since a wrong choice buries
somebody's resources. Rules: specification 04, *Selecting*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from eno.errors import InvalidInventory
from eno.identity import ResourceId
from eno.inventory.entries import CHUNK_LIMIT, Entry
from eno.inventory.secrets import Source, StoredChunk, UnusableChunk, read
from eno.objects import GROUP, Composition

FUTURE_TOLERANCE = timedelta(minutes=5)
"""How far a stamp may lie ahead of our clock before it is ranked below every other."""

ADOPTION_AGE = timedelta(seconds=60)
"""How old a composition must be before it may adopt history of another name: its siblings may still come."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete, consistent set of chunks in index order. The payloads have not been looked at."""

    source: Source
    chunks: tuple[StoredChunk, ...]

    def entries(self) -> list[Entry]:
        """What it lists. Raises InvalidInventory on an unusable payload or identity, naming the Secret."""
        seen: dict[ResourceId, Entry] = {}
        for stored in self.chunks:
            for entry in decode(stored):
                if entry.id in seen:
                    raise stored.defect(f"{entry.id} is listed twice")
                seen[entry.id] = entry
        return list(seen.values())


@dataclass(frozen=True, slots=True)
class Lineage:
    """Every Secret of ours in one lineage, grouped."""

    chunks: tuple[StoredChunk, ...]

    @classmethod
    def read(cls, secrets: Iterable[Mapping[str, Any]]) -> Lineage:
        """From one complete LIST. Raises InvalidInventory when the metadata of any Secret of ours is unusable."""
        chunks = []
        for secret in secrets:
            stored = read(secret)
            if isinstance(stored, UnusableChunk):
                raise stored.error()
            if stored is not None:
                chunks.append(stored)
        return cls(tuple(chunks))

    @property
    def names(self) -> tuple[str, ...]:
        """The source composition names, sorted."""
        return tuple(sorted({stored.source.composition for stored in self.chunks}))

    def newest(self, name: str, now: datetime) -> Snapshot | None:
        """The newest complete snapshot of one source name, or None when there is no Secret of that name.

        Raises InvalidInventory when none is complete or two are tied for newest.
        """
        if name not in self.names:
            return None
        ranked = sorted(self.snapshots(name), key=lambda each: _rank(each, now), reverse=True)
        if not ranked:
            raise InvalidInventory(f"no complete snapshot: {_listed(self._of(name))}", where=f"inventory of {name}")
        if len(ranked) > 1 and _rank(ranked[0], now) == _rank(ranked[1], now):
            tied = [*ranked[0].chunks[:1], *ranked[1].chunks[:1]]
            raise InvalidInventory(f"two syntheses are tied for newest: {_listed(tied)}", where=f"inventory of {name}")
        return ranked[0]

    def snapshots(self, name: str) -> list[Snapshot]:
        """The complete snapshots of one source name, in no particular order."""
        groups: dict[str, list[StoredChunk]] = {}
        for stored in self._of(name):
            groups.setdefault(stored.source.synthesis_uuid, []).append(stored)
        return [found for group in groups.values() if (found := _complete(group)) is not None]

    def _of(self, name: str) -> list[StoredChunk]:
        return [stored for stored in self.chunks if stored.source.composition == name]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A snapshot of another name, to be adopted only when `adoption` finds nothing against it."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no history for this composition; `why` is empty when there is none at all."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class TooYoung:
    """Adoption must wait until this instant."""

    until: datetime


def select(lineage: Lineage, name: str, now: datetime) -> Snapshot | Candidate | Absent:
    """The snapshot of this name, else the one candidate of another name. Raises InvalidInventory."""
    own = lineage.newest(name, now)
    if own is not None:
        return own
    match lineage.names:
        case ():
            return Absent()
        case (other,):
            found = lineage.newest(other, now)
            return Candidate(found) if found else Absent()
        case several:
            raise InvalidInventory(
                f"ambiguous source: history of {', '.join(several)}, none of {name}: {_listed(lineage.chunks)}"
            )


def adopt(
    candidate: Candidate, composition: Composition, namespace: Sequence[Composition], now: datetime
) -> Snapshot | Absent | TooYoung:
    """Whether the composition may take over history of another name.

    `namespace` is one complete LIST of all compositions there, whatever their labels, opt-in or deletion.
    """
    source = candidate.snapshot.source.composition
    if not composition.synthesizer:
        # Synthesizers chosen by label have no name here, so strangers share this lineage.
        return Absent(f"The history of {source} may be another synthesizer's: this one has no name.")
    if any(each.name == source for each in namespace):
        return Absent(f"The history of {source} is its own: that composition exists.")
    rivals = siblings(composition, namespace)
    if rivals:
        return Absent(f"The history of {source} could also be that of {rivals[0].name}.")
    if composition.created is None or now < composition.created + ADOPTION_AGE:
        return TooYoung((composition.created or now) + ADOPTION_AGE)
    return candidate.snapshot


def siblings(composition: Composition, namespace: Iterable[Composition]) -> list[Composition]:
    """The other compositions of the namespace with the same synthesizer."""
    return [each for each in namespace if each.name != composition.name and each.synthesizer == composition.synthesizer]


def _complete(group: Sequence[StoredChunk]) -> Snapshot | None:
    """The snapshot, if there is exactly one chunk per index, all alike and none terminating."""
    first = group[0]
    ordered = sorted(group, key=lambda stored: stored.index)
    if [stored.index for stored in ordered] != list(range(first.count)):
        return None
    if any(each.terminating or each.source != first.source or each.count != first.count for each in group):
        return None
    return Snapshot(first.source, tuple(ordered))


def _rank(each: Snapshot, now: datetime) -> tuple[bool, datetime]:
    synthesized = each.source.synthesized
    return synthesized <= now + FUTURE_TOLERANCE, synthesized


class _StoredEntry(msgspec.Struct):
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(list[_StoredEntry])


def decode(stored: StoredChunk) -> list[Entry]:
    """The entries of one chunk. Raises InvalidInventory on an unusable payload or identity."""
    payload = stored.payload()
    if len(payload) > CHUNK_LIMIT:
        raise stored.defect(f"the payload of {len(payload)} bytes is over the limit of {CHUNK_LIMIT}")
    try:
        decoded = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise stored.defect(f"the payload is not an inventory: {error}") from error
    return [_checked(each, stored) for each in decoded]


def _checked(each: _StoredEntry, stored: StoredChunk) -> Entry:
    identity = ResourceId(each.group, each.kind, each.namespace, each.name)
    if not (each.version and each.kind and each.name):
        raise stored.defect(f"incomplete identity {identity.encode()!r}")
    if (each.group, each.kind) == (GROUP, "Patch"):
        raise stored.defect(f"{identity} is a Patch, which owns nothing")
    return Entry(identity, each.version, each.labels or {}, each.annotations or {})


def _listed(chunks: Sequence[StoredChunk]) -> str:
    names = [f"Secret {stored.name}" for stored in chunks[:3]]
    return ", ".join(names) + (f" and {len(chunks) - 3} more" if len(chunks) > 3 else "")
