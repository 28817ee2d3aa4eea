"""Inventories in the watcher: when to record, when to retire, and what a change of either side looks at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from eno.inventory.secrets import lineage
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.scope import Scope
from kube.cluster import Json
from runtime.messages import RecordMessage, RetireMessage
from tests.support import factories
from tests.support.factories import entry
from tests.support.sizes import size
from tests.unit.watcher.factories import NOW, SCOPE, composition, decision, synthesis
from watcher.cache import Cache
from watcher.chunks import InventoryRecord
from watcher.derive import NOTHING, Derived, derive, record, retire
from watcher.keys import Key, Kind, lineage_key
from watcher.records import Unreadable, read

LINEAGE = lineage("prod", factories.SYNTHESIZER)
WEB = Key(Kind.COMPOSITION, "prod", "web")
ALL = lineage_key(LINEAGE)
KEEP = SCOPE.model_copy(update={"retirement_grace": 0.0})
PREFIX = "eno.azure.io/inventory-"
STAMP = factories.STAMP


def ready(name: str = "web", *, reason: str = "NotNeeded", message: str = "", **fields: Any) -> Json:
    """A composition that is due to be recorded."""
    decided = {**decision(), "reason": reason, **({"message": message} if message else {})}
    others = {key: fields.pop(key) for key in ("opt_in", "in_flight", "uid", "namespace") if key in fields}
    metadata = {key: fields.pop(key) for key in ("deletionTimestamp", "labels") if key in fields}
    current = synthesis(**{"ready": STAMP, "tombstoneRecoveryStatus": decided, **fields})
    return composition(name, current=current, **others, **metadata)


def stored(
    uuid: str = "synthesis-1", *, name: str = "web", synthesized: str = STAMP, mark: str = "", **notes: str | None
) -> Json:
    """The metadata of a snapshot in one Secret, as a list of PartialObjectMetadata holds it."""
    (secret,) = factories.inventory(
        [entry()], name=name, uuid=uuid, synthesized=synthesized, namespace="prod", synthesizer=factories.SYNTHESIZER
    )
    annotations = secret["metadata"]["annotations"]
    if mark:
        annotations[UNCLAIMED_SINCE_ANNOTATION] = mark
    for key, value in notes.items():
        annotations[f"{PREFIX}{key.replace('_', '-')}"] = value
    secret["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
    return {"kind": "PartialObjectMetadata", "metadata": secret["metadata"]}


def going(secret: Json) -> Json:
    return {**secret, "metadata": {**secret["metadata"], "deletionTimestamp": STAMP}}


OLD = stored("synthesis-0", synthesized="2026-02-01T00:00:00Z")


def cache_of(compositions: Sequence[Json] = (), secrets: Sequence[Json] = (), scope: Scope = SCOPE) -> Cache:
    cache = Cache()
    cache.replace(Kind.COMPOSITION, [read(Kind.COMPOSITION, obj, scope) for obj in compositions])
    cache.replace(Kind.INVENTORY, [read(Kind.INVENTORY, obj, scope) for obj in secrets])
    return cache


def recording(compositions: Sequence[Json], secrets: Sequence[Json], scope: Scope = SCOPE, key: Key = WEB) -> Derived:
    return record(cache_of(compositions, secrets, scope).subject(key), NOW, scope)


def retiring(compositions: Sequence[Json], secrets: Sequence[Json], scope: Scope = SCOPE) -> Derived:
    return retire(cache_of(compositions, secrets, scope).subject(ALL), NOW, scope)


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


DUE: dict[str, tuple[Json, list[Json]]] = {
    "nothing is stored": (ready(), []),
    "only an older one is stored": (ready(), [OLD]),
    "an older one is left": (ready(), [stored(), OLD]),
    "one from the future is left": (ready(), [stored(), stored("ahead", synthesized=ago(minutes=-6))]),
    "one that is unusable is left": (ready(), [stored(), stored("broken", synthesized=STAMP, chunk_count="x")]),
    "one that does not name its source is left": (
        ready(),
        [stored(), stored("broken", synthesized=STAMP, composition_name=None)],
    ),
    "a chunk is missing": (ready(), [stored(chunk_count="2")]),
    "it is stored with another time": (ready(), [stored(synthesized=ago(hours=2))]),
    "the history it adopted is left": (
        ready(reason="FinishedTombstoneRecovery", message="The history of shop was adopted."),
        [stored(), stored("synthesis-0", name="shop", synthesized=ago(days=9))],
    ),
    "a successor is in flight": (ready(in_flight={"uuid": "synthesis-2"}), []),
}

NOT_DUE: dict[str, tuple[Json, list[Json]]] = {
    "it is stored": (ready(), [stored()]),
    "another composition's is left": (ready(), [stored(), stored("other-1", name="other")]),
    "a later one is left": (ready(), [stored(), stored("later", synthesized=ago(minutes=1))]),
    "an older one is kept as evidence": (ready(reason="InventoryInvalid"), [stored(), OLD]),
    "not ready": (ready(ready=None), []),
    "undecided": (ready(tombstoneRecoveryStatus=None), []),
    "a decision of another synthesis": (ready(tombstoneRecoveryStatus=decision("another")), []),
    "not opted in": (ready(opt_in=None), []),
    "deleting": (ready(deletionTimestamp=STAMP), []),
    "not synthesized": (composition(current={}), []),
    "outside the recovery namespace": (ready(namespace="dev"), []),
}


@pytest.mark.parametrize(("obj", "secrets"), DUE.values(), ids=DUE.keys())
def test_record_is_due(obj: Json, secrets: list[Json]) -> None:
    (message,) = recording([obj], secrets).tasks
    assert message == RecordMessage(
        namespace="prod", name="web", uid="uid-1", synthesis_uuid="synthesis-1", scope=SCOPE
    )


@pytest.mark.parametrize(("obj", "secrets"), NOT_DUE.values(), ids=NOT_DUE.keys())
def test_record_is_not_due(obj: Json, secrets: list[Json]) -> None:
    scope = Scope(recovery_namespace="prod", recovery_enabled=True)
    key = WEB._replace(namespace=obj["metadata"]["namespace"])
    assert recording([obj], secrets, scope, key) == NOTHING


def test_nothing_is_recorded_while_recovery_is_disabled() -> None:
    disabled = SCOPE.model_copy(update={"recovery_enabled": False})
    assert recording([ready()], [], disabled) == NOTHING


def test_the_history_of_a_name_that_is_in_use_again_is_nothing_to_replace() -> None:
    obj = ready(reason="FinishedTombstoneRecovery", message="The history of shop was adopted.")
    secrets = [stored(), stored("synthesis-0", name="shop", synthesized=ago(days=9))]
    assert recording([obj, composition("shop", uid="uid-2")], secrets) == NOTHING


@pytest.mark.parametrize("reason", ["TombstoneRecoveryOperatorNotEnabled", "OutsideRecoveryNamespace"])
def test_after_a_skipped_recovery_only_a_name_without_history_is_recorded(reason: str) -> None:
    obj = ready(reason=reason, tombstoneRecoveryRequired=True)
    older = stored("synthesis-0", synthesized=ago(days=9))
    assert len(recording([obj], []).tasks) == 1
    assert recording([obj], [older]) == NOTHING
    assert recording([obj], [stored(), older]) == NOTHING, "nor is the older history replaced"


@pytest.mark.parametrize("mark", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z"])
def test_an_absurd_mark_counts_as_none_and_stops_nobody(mark: str) -> None:
    retiring([], [stored(name="shop", mark=mark)])


RECOVERED = ready("shop")

RETIRE: dict[str, tuple[list[Json], list[Json]]] = {
    "unclaimed and unmarked": ([], [stored(name="shop")]),
    "unclaimed, the mark is no time": ([], [stored(name="shop", mark="soon")]),
    "unclaimed, and the grace is over": ([], [stored(name="shop", mark=ago(days=7))]),
    "opted out": ([ready("shop", opt_in=None)], [stored(name="shop")]),
    "claimed and marked": ([RECOVERED], [stored(name="shop", mark=ago(days=1))]),
    "claimed and marked without a time": ([RECOVERED], [stored(name="shop", mark="soon")]),
    "claimed by one that is still to be recovered": ([composition("new")], [stored(name="shop", mark=ago(days=1))]),
    "unusable, and nobody is there to claim it": ([], [stored(name="shop", chunk_count="x")]),
}

RETIRE_NOTHING: dict[str, tuple[list[Json], list[Json]]] = {
    "claimed and unmarked": ([RECOVERED], [stored(name="shop")]),
    "claimed by one that is deleting": (
        [ready("shop", opt_in=None, deletionTimestamp=STAMP)],
        [stored(name="shop")],
    ),
    "nothing is stored": ([RECOVERED], []),
    "it is going already": (
        [],
        [_going := {**stored(), "metadata": {**stored()["metadata"], "deletionTimestamp": STAMP}}],
    ),
    "it is not provably of this namespace": ([], [stored(composition_namespace="elsewhere")]),
}


@pytest.mark.parametrize(("compositions", "secrets"), RETIRE.values(), ids=RETIRE.keys())
def test_retire_is_due(compositions: list[Json], secrets: list[Json]) -> None:
    (message,) = retiring(compositions, secrets).tasks
    assert message == RetireMessage(namespace="prod", lineage=LINEAGE, scope=SCOPE)


@pytest.mark.parametrize(("compositions", "secrets"), RETIRE_NOTHING.values(), ids=RETIRE_NOTHING.keys())
def test_retire_is_not_due(compositions: list[Json], secrets: list[Json]) -> None:
    assert retiring(compositions, secrets) == NOTHING


def test_a_running_grace_is_looked_at_when_it_ends() -> None:
    secrets = [stored("a", name="shop", mark=ago(days=2)), stored("b", name="other", mark=ago(days=5))]
    assert retiring([], secrets) == Derived(look_again=NOW + timedelta(days=2))


def test_a_grace_of_0_calls_for_nothing() -> None:
    assert retiring([], [stored(), stored("b", mark=ago(days=99))], KEEP) == NOTHING


@pytest.mark.parametrize(
    "scope",
    [
        SCOPE.model_copy(update={"recovery_enabled": False}),
        SCOPE.model_copy(update={"composition_namespace": "dev"}),
        SCOPE.model_copy(update={"recovery_namespace": "dev"}),
    ],
    ids=["disabled", "not watched", "another recovery namespace"],
)
def test_nothing_is_retired_out_of_scope(scope: Scope) -> None:
    assert retiring([], [stored()], scope) == NOTHING


def test_a_lineage_calls_for_nothing_else() -> None:
    cache = cache_of([ready()], [stored(name="shop", mark=ago(days=9))])
    assert [message.task.short for message in derive(cache.subject(ALL), NOW, SCOPE).tasks] == ["retire"]


# What a change looks at


def inventory(**fields: Any) -> InventoryRecord:
    found = read(Kind.INVENTORY, stored(**fields), SCOPE)
    assert isinstance(found, InventoryRecord)
    return found


def test_the_first_list_looks_at_every_lineage_and_whose_history_it_is() -> None:
    cache = Cache()
    cache.replace(Kind.COMPOSITION, [read(Kind.COMPOSITION, ready(), SCOPE)])
    assert cache.replace(Kind.INVENTORY, [inventory(), inventory(name="shop")]) == {ALL, WEB}
    assert cache.replace(Kind.INVENTORY, [inventory(), inventory(name="shop")]) == set()


def test_a_secret_that_nobody_is_known_to_claim_is_looked_at_all_the_same() -> None:
    assert Cache().replace(Kind.INVENTORY, [inventory()]) == {ALL}


def test_a_secret_that_goes_is_looked_at_once_more() -> None:
    cache = cache_of([ready()], [stored()])
    assert cache.replace(Kind.INVENTORY, []) == {ALL, WEB}
    assert cache.subject(ALL).lineage is not None
    assert retire(cache.subject(ALL), NOW, SCOPE) == NOTHING


def test_a_mark_is_a_change_and_foreign_annotations_are_none() -> None:
    cache = cache_of([], [stored()])
    assert cache.change(inventory(mark=ago(days=1))) == {ALL}
    noted = stored(mark=ago(days=1))
    noted["metadata"]["annotations"]["team"] = "x"
    noted["metadata"]["resourceVersion"] = "99"
    assert cache.change(read(Kind.INVENTORY, noted, SCOPE)) == set()


@pytest.mark.parametrize(
    ("before", "after", "looks"),
    [
        pytest.param(None, ready(), True, id="it appears"),
        pytest.param(ready(), None, True, id="it goes"),
        pytest.param(ready(), ready(opt_in=None), True, id="it opts out"),
        pytest.param(composition(), ready(), True, id="it was recovered"),
        pytest.param(ready(), ready(deletionTimestamp=STAMP), False, id="it begins to be deleted"),
        pytest.param(ready(ready=None), ready(), False, id="it becomes ready"),
    ],
)
def test_a_lineage_is_looked_at_when_a_claim_of_it_changes(
    before: Json | None, after: Json | None, looks: bool
) -> None:
    cache = cache_of([before] if before else [], [stored()])
    found = cache.replace(Kind.COMPOSITION, [read(Kind.COMPOSITION, after, SCOPE)] if after else [])
    assert (ALL in found) == looks


def test_a_claim_on_a_lineage_without_inventories_is_nothing_to_look_at() -> None:
    assert cache_of([], []).change(read(Kind.COMPOSITION, ready(), SCOPE)) == {WEB}


def test_whoever_adopted_a_name_is_looked_at_when_it_is_in_use_again() -> None:
    cache = cache_of(
        [ready(reason="FinishedTombstoneRecovery", message="The history of shop was adopted.")], [stored(), OLD]
    )
    assert WEB in cache.change(read(Kind.COMPOSITION, composition("shop", uid="uid-2"), SCOPE))


def test_a_composition_is_not_looked_at_for_the_inventories_of_its_siblings() -> None:
    cache = cache_of([ready(), ready("shop", uid="uid-2")], [])
    assert cache.change(inventory(name="shop")) == {ALL, WEB._replace(name="shop")}


# What is remembered


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param({"name": "unrelated"}, id="another name"),
        pytest.param({"labels": {}}, id="no label"),
    ],
)
def test_what_merely_carries_the_label_is_reported_and_left_alone(foreign: Json) -> None:
    obj = stored()
    found = read(Kind.INVENTORY, {**obj, "metadata": {**obj["metadata"], **foreign}}, SCOPE)
    assert isinstance(found, Unreadable)
    assert "left alone" in found.reason


def test_an_inventory_costs_at_most_half_a_kibibyte_beside_its_composition() -> None:
    names = {number: (f"a-composition-with-a-name-{number:05d}", str(uuid4())) for number in range(1000)}
    owners = [
        read(Kind.COMPOSITION, composition(name, current=synthesis(uuid)), SCOPE) for name, uuid in names.values()
    ]

    def decoded(number: int) -> object:
        name, uuid = names[number]
        obj = stored(uuid, name=name)
        obj["metadata"] |= {"uid": str(uuid4()), "resourceVersion": "123456789"}
        return read(Kind.INVENTORY, json.loads(json.dumps(obj)), SCOPE)

    seen: set[int] = set()
    for owner in owners:
        size(owner, seen)
    assert sum(size(decoded(number), seen) for number in names) / len(names) <= 512


def test_nothing_is_recorded_before_it_is_known_what_is_recorded_already() -> None:
    cache = Cache()
    cache.replace(Kind.COMPOSITION, [read(Kind.COMPOSITION, ready(), SCOPE)])
    assert cache.subject(WEB).inventories is None
    assert record(cache.subject(WEB), NOW, SCOPE) == NOTHING


@pytest.mark.parametrize("secrets", [[], [stored()]], ids=["there are none", "there is one"])
def test_the_first_list_of_inventories_looks_at_whatever_may_have_one(secrets: list[Json]) -> None:
    cache = Cache()
    found = [ready(), ready("api"), composition("dev", namespace="dev")]
    cache.replace(Kind.COMPOSITION, [read(Kind.COMPOSITION, obj, SCOPE) for obj in found])
    looks = cache.replace(Kind.INVENTORY, [read(Kind.INVENTORY, obj, SCOPE) for obj in secrets])
    assert looks == {WEB, WEB._replace(name="api"), *([ALL] if secrets else [])}
    assert cache.replace(Kind.INVENTORY, [read(Kind.INVENTORY, obj, SCOPE) for obj in secrets]) == set()


def test_all_that_there_is_to_look_at_includes_lineages() -> None:
    assert cache_of([ready()], [stored()]).everything() == {WEB, ALL}
