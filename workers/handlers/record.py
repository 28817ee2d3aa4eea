"""record: remember what a Ready synthesis owns, so that its tombstones can be made when Eno's history is lost.

Nothing is overwritten: create every chunk under its own name → verify the whole → only then delete what it
replaces. A crash at any write leaves a complete snapshot behind, the old one or the new one (P3).
Specification 04.
"""

from __future__ import annotations

from collections.abc import Sequence

from eno.decision import Reason, adopted_source
from eno.errors import AlreadyExists, StartOver, Terminal
from eno.identity import Head
from eno.inventory.entries import build
from eno.inventory.replacement import Inventory, Stored, replaced
from eno.inventory.secrets import INVENTORY_NAMESPACE, Source, difference, snapshot, source_of
from eno.objects import Composition
from eno.tombstones import manifests
from kube.cluster import Json
from kube.resources import SECRETS
from runtime.messages import RecordMessage
from workers.attempts import persistently
from workers.context import Context
from workers.events import EventType, announce
from workers.freshness import Live, identity_stop, read, record_stop
from workers.inventories import delete_secret
from workers.outcome import Kind, Outcome
from workers.reading import list_inventory, read_slices


def record(message: RecordMessage, context: Context) -> Outcome:
    """Store the current synthesis' inventory, unless it is stored already.

    Raises Retryable when it should be tried again, Terminal when a person has to change something first.
    """
    return persistently(lambda: _attempt(message, context), message.log_context())


def _attempt(message: RecordMessage, context: Context) -> Outcome:
    live = _fresh(message, context)
    if isinstance(live, Outcome):
        return live
    composition = live.composition
    source = source_of(composition)
    inventory = Inventory.of(list_inventory(context.downstream, composition))
    stored = inventory.complete(source)
    if stored is not None:
        names = [each.name for each in stored.chunks]
        going = _going(composition, inventory, source, names, context)
        if not going:
            return Outcome(Kind.UNCHANGED, "recorded already")
    else:
        _refuse_stale(inventory, source, composition, context)
        intended = snapshot(source, build((head, False) for head in _desired(composition, context)))
        stopped = _create(intended, composition, message, context)
        if stopped is not None:
            return stopped
        listed = list_inventory(context.downstream, composition)
        _verify(intended, listed, composition)
        names = [secret["metadata"]["name"] for secret in intended]
        going = _going(composition, Inventory.of(listed), source, names, context)
    return _clear(going, message, context) or Outcome(Kind.DONE, f"recorded in {len(names)} Secrets")


def _desired(composition: Composition, context: Context) -> Sequence[Head]:
    """The heads of everything desired; every manifest must parse, the others too."""
    return manifests(read_slices(context.upstream, composition)).desired


def _fresh(message: RecordMessage, context: Context) -> Live | Outcome:
    """The composition as it is now, if it still calls for this record."""
    live = read(context.upstream, message.namespace, message.name)
    stop = identity_stop(live, message)
    if live is None or stop is not None:
        return stop or Outcome(Kind.SUPERSEDED, "gone")
    return record_stop(live, context.settings.scope) or live


def _refuse_stale(inventory: Inventory, source: Source, composition: Composition, context: Context) -> None:
    """Raises Terminal when a complete snapshot of this name was made later than this synthesis."""
    later = inventory.later(source, context.clock())
    if later is None:
        return
    text = f"a later inventory of {source.composition} is stored: Secret {later.chunks[0].name}"
    _warn(composition, "InventoryStale", text, context)
    raise Terminal(text, where=f"record {composition.title}", hint="sexton inventory verify shows both")


def _create(
    intended: Sequence[Json], composition: Composition, message: RecordMessage, context: Context
) -> Outcome | None:
    """Create each chunk after a fresh look. Raises Terminal when something else has a chunk's name."""
    for secret in intended:
        fresh = _fresh(message, context)
        if isinstance(fresh, Outcome):
            return Outcome(Kind.SUPERSEDED, fresh.reason)
        try:
            context.downstream.create(SECRETS, INVENTORY_NAMESPACE, secret)
        except AlreadyExists:
            _accept_existing(secret, composition, context)
    return None


def _accept_existing(secret: Json, composition: Composition, context: Context) -> None:
    name = secret["metadata"]["name"]
    different = difference(context.downstream.get(SECRETS, INVENTORY_NAMESPACE, name), secret)
    if different is None:
        return
    text = f"the name is taken and {different}"
    _warn(composition, "InventoryConflict", f"Secret {INVENTORY_NAMESPACE}/{name}: {text}", context)
    raise Terminal(
        text, where=f"Secret {INVENTORY_NAMESPACE}/{name}", hint="delete that Secret if nothing else needs it"
    )


def _verify(intended: Sequence[Json], listed: Sequence[Json], composition: Composition) -> None:
    """Raises StartOver unless every chunk stands in the list as it was intended."""
    found = {secret["metadata"]["name"]: secret for secret in listed}
    for secret in intended:
        name = secret["metadata"]["name"]
        if name not in found or difference(found[name], secret) is not None:
            raise StartOver(f"Secret {name} is not as it was written", where=f"record {composition.title}")


def _going(
    composition: Composition, inventory: Inventory, source: Source, names: Sequence[str], context: Context
) -> Sequence[Stored]:
    """What the complete snapshot replaces. After InventoryInvalid the evidence stays for one synthesis."""
    current = composition.current
    if current is None or (current.recovery is not None and current.recovery.reason == Reason.INVENTORY_INVALID):
        return ()
    adopted = adopted_source(current)
    if adopted and read(context.upstream, composition.namespace, adopted) is not None:
        # Somebody has that name again, and with it that history.
        adopted = ""
    return replaced(inventory, source, names, adopted, context.clock())


def _clear(going: Sequence[Stored], message: RecordMessage, context: Context) -> Outcome | None:
    """Delete each after a fresh look. Raises StartOver when one has changed since it was listed."""
    for each in going:
        fresh = _fresh(message, context)
        if isinstance(fresh, Outcome):
            return Outcome(Kind.SUPERSEDED, fresh.reason)
        delete_secret(each, context)
    return None


def _warn(composition: Composition, reason: str, text: str, context: Context) -> None:
    announce(context.upstream, composition, EventType.WARNING, reason, text, context.clock())
