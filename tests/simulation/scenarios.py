"""The stories that everything is tried in. Each is as small as what it is about allows."""

from __future__ import annotations

from collections.abc import Callable

from eno.inventory.entries import Entry
from eno.objects import Composition
from eno.times import format_time
from kube.resources import RESOURCE_SLICES
from tests.simulation.machine import Scenario, Step
from tests.simulation.others import Others
from tests.simulation.state import State
from tests.support.factories import NAMESPACE, entry, manifest

Check = Callable[[State], list[str]]

A, B, C, D = (manifest(name=name) for name in "abcd")


def known(*names: str) -> list[Entry]:
    """Inventory entries of ConfigMaps with these names."""
    return [entry(name=name) for name in names]


def _current(state: State, name: str) -> Composition | None:
    return state.compositions.get(f"{NAMESPACE}/{name}")


def _graves(state: State, name: str) -> list[str]:
    from eno.identity import parse_head

    found = _current(state, name)
    slices = state.slices_of(found, found.current) if found else []
    return sorted(parse_head(each.manifest).id.name for one in slices for each in one.resources if each.deleted)


def buried(*names: str, of: str = "shop") -> Check:
    """The current synthesis holds tombstones for exactly these."""
    return lambda state: [] if _graves(state, of) == sorted(names) else [f"graves of {of}: {_graves(state, of)}"]


def decided(reason: str, of: str = "shop") -> Check:
    """The current synthesis was decided for this reason."""

    def check(state: State) -> list[str]:
        found = _current(state, of)
        decision = found.current.recovery if found and found.current else None
        return [] if decision and decision.reason == reason else [f"decision of {of}: {decision}"]

    return check


def secrets(count: int) -> Check:
    """So many Secrets are stored."""
    return lambda state: [] if len(state.secrets) == count else [f"{len(state.secrets)} Secrets"]


def slices(count: int) -> Check:
    """So many slices are there."""
    return lambda state: [] if len(state.slices) == count else [f"{len(state.slices)} slices"]


def gone(name: str = "shop") -> Check:
    """The composition is not there any more."""
    return lambda state: [f"{name} is there"] if _current(state, name) else []


def both(*checks: Check) -> Check:
    """All of them."""
    return lambda state: [problem for check in checks for problem in check(state)]


def some_grave(state: State) -> bool:
    """A tombstone is written, in whatever slice."""
    return any(entry.deleted for each in state.slices.values() for entry in each.resources)


def some_secret_of_two(state: State) -> bool:
    """The first chunk of a second snapshot is stored."""
    from tests.simulation.promises import _note

    return len({_note(each, "synthesis-uuid") for each in state.secrets.values()}) > 1


def _do(name: str, act: Callable[[Others], None], when: Callable[[State], bool] | None = None) -> Step:
    return Step(name, act, when)


def _with(entries: list[Entry], name: str, *manifests: str, source: str = "shop") -> Callable[[Others], None]:
    """A world in which a snapshot of `source` is stored, and a composition that is not synthesized yet."""

    def prepare(others: Others) -> None:
        others.remember(entries, name=source)
        others.create(name, manifests)

    return prepare


def _create(name: str = "shop", *manifests: str) -> Step:
    return _do(f"create {name}", lambda others: others.create(name, manifests))


FIRST = Scenario(
    "first",
    "A composition is synthesized for the first time, and changed once.",
    (_create("shop", A, B), _do("change", lambda others: others.change("shop", [A, C]))),
    expect=both(decided("NotNeeded"), buried("b"), secrets(2)),
)

RECREATED = Scenario(
    "recreated",
    "A composition is recreated and finds the history of its name.",
    (),
    prepare=_with(known("a", "b"), "shop", A),
    expect=both(decided("FinishedTombstoneRecovery"), buried("b"), secrets(1)),
)

OVERFLOW = Scenario(
    "overflow",
    "What is owed fits into no existing slice: one append, two new slices.",
    (),
    prepare=_with(known("a", "b", "c", "d", "e"), "shop", A),
    expect=both(decided("FinishedTombstoneRecovery"), buried("b", "c", "d", "e"), secrets(1), slices(3)),
)

EMPTY = Scenario(
    "empty",
    "A synthesis without resources owes everything; another one owes nothing and becomes ready one pass later.",
    (_do("change", lambda others: others.change("shop", [])),),
    prepare=_with(known("b"), "shop"),
    expect=both(decided("NotNeeded"), secrets(1)),
)


def _together(others: Others) -> None:
    others.create("other", [B])
    _with([*known("a", "b", "c"), entry("Namespace", "shop", "")], "shop", A)(others)


SIBLINGS = Scenario(
    "siblings",
    "Another composition of the lineage wants some of it, and lives in a namespace of it.",
    (),
    prepare=_together,
    expect=both(decided("FinishedTombstoneRecovery"), buried("c")),
)

ADOPTION = Scenario(
    "adoption",
    "A recreated composition has another name, and adopts the history of the old one after a minute.",
    (),
    prepare=_with(known("a", "b"), "shop", A, source="old-shop"),
    expect=both(decided("FinishedTombstoneRecovery"), buried("b"), secrets(1)),
)


def _reconcile_hastily(others: Others) -> None:
    others.hasty = True
    _with(known("a", "b"), "shop", A)(others)


LOADED = Scenario(
    "loaded",
    "Eno loaded the synthesis before it was decided, so tombstones go to overflow and a resynthesis is asked for.",
    (),
    prepare=_reconcile_hastily,
    expect=both(decided("NotNeeded"), secrets(1)),
)

ROTATION = Scenario(
    "rotation",
    "Inventories of three chunks, then one, then two.",
    (
        _create("shop", A, B, C),
        _do("shrink", lambda others: others.change("shop", [A])),
        _do("grow", lambda others: others.change("shop", [A, D])),
    ),
    expect=both(secrets(2)),
)

SETTLED = Scenario(
    "settled",
    "A composition is deleted cleanly, and its inventory with it.",
    (_create("shop", A, B), _do("delete", lambda others: others.delete("shop"))),
    expect=both(gone(), secrets(0), slices(0)),
)

ORPHANED = Scenario(
    "orphaned",
    "A composition is deleted, and what it owned is let go on purpose.",
    (
        _create("shop", A, B),
        _do("orphan", lambda others: others.annotate("shop", deletion_strategy="orphan")),
        _do("delete", lambda others: others.delete("shop")),
    ),
    expect=both(gone(), secrets(0), slices(0)),
)

UNSETTLED = Scenario(
    "unsettled",
    "A composition is forced out. Its inventory stays for a grace, and is retired after it.",
    (_create("shop", A, B), _do("vanish", lambda others: others.vanish("shop"))),
    expect=both(gone(), secrets(0), slices(0)),
)

OPT_OUT = Scenario(
    "opt-out",
    "The opt-in is taken back when the first tombstone is written, and given again.",
    (
        _do("opt out", lambda others: others.opt_out("shop"), some_grave),
        _do("opt in", lambda others: others.opt_in("shop")),
    ),
    prepare=_with(known("a", "b", "c"), "shop", A),
    expect=both(decided("NotNeeded"), buried("c")),
)

DELETED = Scenario(
    "deleted",
    "A composition is deleted when the first tombstone is written.",
    (_do("delete", lambda others: others.delete("shop"), some_grave),),
    prepare=_with(known("a", "b", "c"), "shop", A),
    expect=both(gone(), slices(0)),
)


def _supersede(others: Others) -> None:
    others.change("shop", [A, B])
    others.synthesize("shop")


SUPERSEDED = Scenario(
    "superseded",
    "The synthesis is superseded by one that wants what is being buried.",
    (_do("publish another synthesis", _supersede, some_grave),),
    prepare=_with(known("a", "b", "c", "d"), "shop", A),
    expect=both(decided("FinishedTombstoneRecovery"), buried("c", "d")),
)


def _unclaimed(others: Others) -> None:
    others.remember(known("a", "b"))


RETIRED = Scenario(
    "retired",
    "An inventory is claimed again while it is marked, and its composition goes for good.",
    (
        _do("nobody claims it", lambda _: None),
        _create("shop", A),
        _do("vanish", lambda others: others.vanish("shop")),
    ),
    prepare=_unclaimed,
    expect=both(gone(), secrets(0), slices(0)),
)


def _load(*loaded: str) -> Callable[[Others], None]:
    """The states of the current slices, each by the names of what is told of it."""

    def act(others: Others) -> None:
        told = {"reconciled": True, "ready": format_time(others.clock())}
        states = [{name: told[name] for name in each.split()} for each in loaded]
        for name in others.current_slices("shop"):
            body = {"status": {"resources": states}}
            others.up.merge_patch(RESOURCE_SLICES, NAMESPACE, name, body, subresource="status")

    return act


def _slow(others: Others) -> None:
    others.paused |= {"reconcile"}
    others.create("shop", [A, B])


def _no_longer_slow(others: Others) -> None:
    others.paused -= {"reconcile"}
    _load("reconciled ready", "reconciled ready")(others)


GRADUAL = Scenario(
    "gradual",
    "Eno is slow: one resource is loaded long before the other one is begun with, which is ready long after that.",
    (
        _do("load one", _load("reconciled ready")),
        _do("begin with the other", _load("reconciled ready", "")),
        _do("both are ready", _no_longer_slow),
    ),
    prepare=_slow,
    expect=both(decided("InventoryNotFound"), secrets(2)),
)

SCENARIOS: dict[str, Scenario] = {
    each.name: each
    for each in (
        FIRST,
        RECREATED,
        OVERFLOW,
        EMPTY,
        SIBLINGS,
        ADOPTION,
        LOADED,
        ROTATION,
        SETTLED,
        ORPHANED,
        UNSETTLED,
        OPT_OUT,
        DELETED,
        SUPERSEDED,
        RETIRED,
        GRADUAL,
    )
}
