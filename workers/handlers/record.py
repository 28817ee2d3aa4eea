"""record: remember what a Ready synthesis owns, so that its tombstones can be made when Eno's history is lost.

Nothing is overwritten: create every chunk under its own name → verify the whole → only then delete what it
replaces. A crash at any write leaves a complete snapshot behind, the old one or the new one (P3).
Specification 04.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eno.decision import adopted_source, recovery_skipped
from eno.errors import AlreadyExists, InvalidInventory, NotFound, Retryable, StartOver, Terminal
from eno.inventory.entries import Entry, build
from eno.inventory.replacement import Inventory, Stored, keeps_evidence
from eno.inventory.secrets import (
    INVENTORY_NAMESPACE,
    Source,
    StoredChunk,
    difference,
    lineage,
    snapshot,
    source_of,
)
from eno.inventory.selection import Snapshot
from eno.objects import Composition
from eno.tombstones import manifests
from eno.wording import counted
from kube.cluster import Json
from kube.resources import SECRETS
from runtime.messages import RecordMessage
from workers.attempts import persistently
from workers.context import Context
from workers.events import EventType, announce
from workers.freshness import Live, read, read_named, record_stop
from workers.inventories import delete_secret, list_metadata
from workers.outcome import Kind, Outcome
from workers.reading import list_inventory, read_slices

_DELETE_IT = "delete that Secret if nothing else needs it"


def record(message: RecordMessage, context: Context) -> Outcome:
    """Store the current synthesis' inventory, unless it is stored already.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: RecordMessage, context: Context) -> Outcome:
    live = _fresh(message, context)
    if isinstance(live, Outcome):
        return live
    try:
        return _Recording(live.composition, source_of(live.composition), message, context).carry_out()
    except _Overtaken as error:
        return Outcome(Kind.SUPERSEDED, error.what)


def _fresh(message: RecordMessage, context: Context) -> Live | Outcome:
    """The composition as it is now, if it still calls for this record."""
    live = read_named(context.upstream, message)
    if isinstance(live, Outcome):
        return live
    return record_stop(live, context.settings.scope) or live


class _Overtaken(Terminal):
    """Raised before a write that the composition does not call for any more. Never leaves this module."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """One attempt, with the composition as it was read first."""

    composition: Composition
    source: Source
    message: RecordMessage
    context: Context

    def carry_out(self) -> Outcome:
        """List → create → list again and verify → delete what is replaced."""
        lineage_id = lineage(self.source.namespace, self.source.synthesizer)
        listed = Inventory.of(list_metadata(self.context.downstream, lineage_id))
        stored = listed.complete(self.source)
        if stored is not None and not self._replaced(listed, _names(stored)):
            return Outcome(Kind.UNCHANGED, "recorded already")
        if stored is None and recovery_skipped(self.composition) and self._history_for_the_successor(listed):
            return Outcome(Kind.UNCHANGED, "its recovery was skipped, so older history stays for its successor")
        self._refuse_stale(listed)
        entries = self._entries()
        intended = {secret["metadata"]["name"]: secret for secret in snapshot(self.source, entries)}
        if stored is None:
            self._create(intended)
        listing = list_inventory(self.context.downstream, self.composition)
        inventory = Inventory.of(listing)
        stored = inventory.complete(self.source)
        if stored is None:
            self._make_room(inventory, intended)
            raise StartOver("the snapshot is not complete", where=f"record {self.composition.title}")
        self._verify(stored, listing, entries, intended)
        self._delete(self._replaced(inventory, _names(stored)))
        return Outcome(Kind.DONE, f"recorded in {counted(len(stored.chunks), 'Secret')}")

    def _history_for_the_successor(self, inventory: Inventory) -> bool:
        """Whether anything is stored that the synthesis which inherits the debt could recover from."""
        own = self.source.composition
        names = dict.fromkeys(
            each.source.composition
            for each in inventory.sound
            if (each.source.composition, each.source.synthesis_uuid) != (own, self.source.synthesis_uuid)
        )
        return any(name == own or not self._in_use(name) for name in names)

    def _entries(self) -> list[Entry]:
        """What is to be remembered. Every manifest must parse, the others too: what is unknown may be owned."""
        desired = manifests(read_slices(self.context.upstream, self.composition)).desired
        return build((head, False) for head in desired)

    def _refuse_stale(self, inventory: Inventory) -> None:
        """Raises Terminal when a complete snapshot of this name was made later than this synthesis."""
        later = inventory.later(self.source, self.context.clock())
        if later is not None:
            text = f"a later inventory of {self.source.composition} is stored: Secret {later.chunks[0].name}"
            raise self._refused("InventoryStale", text, "sexton inventory verify shows both")

    def _create(self, intended: Mapping[str, Json]) -> None:
        """Create each chunk after a fresh look. Raises Terminal when something else has a chunk's name."""
        for name, secret in intended.items():
            self._look_again()
            try:
                self.context.downstream.create(SECRETS, INVENTORY_NAMESPACE, secret)
            except AlreadyExists as error:
                try:
                    existing = self.context.downstream.get(SECRETS, INVENTORY_NAMESPACE, name)
                except NotFound:
                    raise StartOver("it was deleted meanwhile", where=f"Secret {name}") from error
                self._compare(existing, secret)

    def _compare(self, existing: Json, intended: Json) -> None:
        """Raises Terminal when what has a chunk's name is not that chunk. It is neither overwritten nor deleted."""
        place = f"Secret {INVENTORY_NAMESPACE}/{existing['metadata']['name']}"
        if existing["metadata"].get("deletionTimestamp"):
            raise Retryable("it is terminating", where=place)
        different = difference(existing, intended)
        if different is not None:
            raise self._refused("InventoryConflict", f"{place}: the name is taken and {different}", _DELETE_IT)

    def _verify(
        self, stored: Snapshot, listing: Sequence[Json], entries: Sequence[Entry], intended: Mapping[str, Json]
    ) -> None:
        """Raises Terminal when what is stored as our snapshot, under whatever names, is another inventory."""
        for secret in listing:
            # Not a view: what is malformed and has our name is a conflict, and what has none is nobody's chunk.
            metadata = secret.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if isinstance(name, str) and name in intended:
                self._compare(secret, intended[name])
        try:
            same = stored.entries() == entries
        except InvalidInventory as error:
            raise self._refused("InventoryConflict", error.summary, _DELETE_IT) from error
        if not same:
            text = f"Secret {stored.chunks[0].name} does not list what the synthesis owns"
            raise self._refused("InventoryConflict", text, _DELETE_IT)

    def _make_room(self, inventory: Inventory, names: Collection[str]) -> None:
        """Delete what keeps the snapshot from being complete, and nothing else."""
        rivals = inventory.rivals(self.source, names)
        going = [each for each in self._replaced(inventory, names) if each in rivals]
        staying = [each for each in rivals if not each.terminating and each not in going]
        if staying:
            text = f"Secret {staying[0].name} claims to be of the same synthesis"
            raise self._refused("InventoryConflict", text, _DELETE_IT)
        self._delete(going)

    def _replaced(self, inventory: Inventory, names: Collection[str]) -> list[Stored]:
        """What the snapshot replaces. After InventoryInvalid the evidence stays for one synthesis."""
        if keeps_evidence(self.composition):
            return []
        adopted = adopted_source(self.composition.current) if self.composition.current else ""
        if adopted not in {each.source.composition for each in inventory.sound} or self._in_use(adopted):
            adopted = ""
        return inventory.replaced(self.source, names, adopted, self.context.clock())

    def _delete(self, going: Iterable[Stored]) -> None:
        """Delete each after a fresh look. Raises StartOver when one has changed since it was listed."""
        for each in going:
            if isinstance(each, StoredChunk) and self._in_use(each.source.composition):
                raise StartOver("its composition exists again", where=f"Secret {each.name}")
            self._look_again()
            delete_secret(each, self.context)

    def _in_use(self, name: str) -> bool:
        """Whether another composition has that name (again), and with it that history."""
        return name != self.composition.name and read(self.context.upstream, self.source.namespace, name) is not None

    def _look_again(self) -> None:
        """Raises _Overtaken unless everything that called for this record still holds (P5)."""
        fresh = _fresh(self.message, self.context)
        if isinstance(fresh, Outcome):
            raise _Overtaken(fresh.reason)

    def _refused(self, reason: str, text: str, hint: str) -> Terminal:
        """The error of a recording that stays refused, announced on the composition."""
        announce(self.context.upstream, self.composition, EventType.WARNING, reason, text, self.context.clock())
        return Terminal(text, where=f"record {self.composition.title}", hint=hint)


def _names(stored: Snapshot) -> list[str]:
    return [each.name for each in stored.chunks]
