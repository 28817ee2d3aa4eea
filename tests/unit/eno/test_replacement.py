"""What a verified snapshot replaces, Secret by Secret."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eno.inventory.replacement import Inventory, keeps_evidence
from eno.inventory.secrets import source_of
from tests.support.factories import NOW, Json, composition, decided, entry, inventory, synthesis

PREFIX = "eno.azure.io/inventory-"
COMPOSITION = composition("shop", current=synthesis("now", synthesized="2026-03-01T11:00:00Z"))
SOURCE = source_of(COMPOSITION)


def at(minutes: float) -> str:
    """A stamp, in minutes from NOW. That of the synthesis being recorded is -60."""
    return (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stored(uuid: str, minutes: float, *, name: str = "shop", **notes: str | None) -> Json:
    """A snapshot in one Secret; `notes` alter its annotations, None removes one."""
    (secret,) = inventory([entry(name=uuid)], name=name, uuid=uuid, synthesized=at(minutes))
    for key, value in notes.items():
        annotation = f"{PREFIX}{key.replace('_', '-')}"
        if value is None:
            del secret["metadata"]["annotations"][annotation]
        else:
            secret["metadata"]["annotations"][annotation] = value
    return secret


def draft(secret: Json) -> Json:
    """The same chunk under the name that Eno's drafts used."""
    return {**secret, "metadata": {**secret["metadata"], "name": secret["metadata"]["name"][:-17]}}


def terminating(secret: Json) -> Json:
    return {**secret, "metadata": {**secret["metadata"], "deletionTimestamp": at(0)}}


OWN = stored("now", -60)


def replaced(*others: Json, adopted: str = "") -> list[str]:
    """The names of what goes, with our own snapshot beside it."""
    listed = Inventory.of([OWN, *others])
    return [each.name for each in listed.replaced(SOURCE, {OWN["metadata"]["name"]}, adopted, NOW)]


def _foreign_type() -> Json:
    return {**stored("old", -90), "type": "kubernetes.io/tls"}


def _foreign_name() -> Json:
    secret = stored("old", -90)
    return {**secret, "metadata": {**secret["metadata"], "name": "unrelated"}}


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        pytest.param(stored("old", -90), True, id="an older one"),
        pytest.param(stored("tied", -60), True, id="one of the same second"),
        pytest.param(stored("newer", -59), False, id="a later one"),
        pytest.param(stored("ahead", 5), False, id="one that is ahead within the tolerance"),
        pytest.param(stored("ahead", 5.1), True, id="one from the future"),
        pytest.param(stored("old", -90, chunk_count="2"), True, id="an incomplete older one"),
        pytest.param(stored("old", -90, synthesized="yesterday"), True, id="one without a time"),
        pytest.param(stored("newer", -59, format_version="2"), True, id="one of an unknown format"),
        pytest.param(stored("old", -90, composition_name=None), True, id="one whose source only its name tells"),
        pytest.param(
            stored("old", -90, composition_name="other"), False, id="one that names another source than its name"
        ),
        pytest.param(stored("old", -90, name="other"), False, id="another composition's"),
        pytest.param(stored("old", -90, name="shop-2"), False, id="that of a name that begins alike"),
        pytest.param(stored("old", -90, name="other", synthesized="yesterday"), False, id="another's without a time"),
        pytest.param(
            stored("old", -90, name="other", composition_name=None), False, id="another's that does not say whose it is"
        ),
        pytest.param(terminating(stored("old", -90)), False, id="one that goes by itself"),
        pytest.param(
            terminating(stored("old", -90, synthesized="yesterday")), False, id="a broken one that goes by itself"
        ),
        pytest.param(_foreign_type(), False, id="a foreign one of another type"),
        pytest.param(_foreign_name(), False, id="a foreign one that carries the label"),
        pytest.param(draft(OWN), True, id="a draft of the same synthesis"),
        pytest.param(draft(stored("old", -90)), True, id="an older draft"),
    ],
)
def test_what_a_snapshot_replaces(other: Json, goes: bool) -> None:
    assert replaced(other) == ([other["metadata"]["name"]] if goes else [])


def test_the_snapshot_itself_stays() -> None:
    assert replaced() == []


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        pytest.param(stored("old", -90, name="former"), True, id="what was adopted"),
        pytest.param(stored("newer", -59, name="former"), False, id="what was made after it was adopted"),
        pytest.param(stored("old", -90, name="third"), False, id="another name's"),
        pytest.param(
            stored("old", -90, name="former", synthesized="yesterday"), False, id="one that cannot have been adopted"
        ),
    ],
)
def test_what_is_replaced_of_the_name_whose_history_was_adopted(other: Json, goes: bool) -> None:
    assert replaced(other, adopted="former") == ([other["metadata"]["name"]] if goes else [])
    assert replaced(other) == []


def test_a_snapshot_is_complete_only_for_its_very_source() -> None:
    assert Inventory.of([OWN]).complete(SOURCE) is not None
    for other in (stored("other", -60), stored("now", -61), stored("now", -60, name="other")):
        assert Inventory.of([other]).complete(SOURCE) is None


@pytest.mark.parametrize(
    "doubtful",
    [
        pytest.param([terminating(OWN)], id="terminating"),
        pytest.param([OWN, draft(OWN)], id="twice"),
        pytest.param([stored("now", -60, chunk_count="2")], id="a chunk is missing"),
        pytest.param([stored("now", -60, synthesized="yesterday")], id="unusable"),
    ],
)
def test_what_a_recovery_would_not_choose_is_not_complete(doubtful: list[Json]) -> None:
    assert Inventory.of(doubtful).complete(SOURCE) is None


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        pytest.param(stored("newer", -59), True, id="later"),
        pytest.param(stored("newer", 5), True, id="later, ahead within the tolerance"),
        pytest.param(stored("newer", 5.1), False, id="from the future"),
        pytest.param(stored("tied", -60), False, id="of the same second"),
        pytest.param(stored("old", -61), False, id="earlier"),
        pytest.param(stored("newer", -59, chunk_count="2"), False, id="later, incomplete"),
        pytest.param(stored("newer", -59, name="other"), False, id="another composition's"),
    ],
)
def test_only_a_complete_later_snapshot_of_the_same_name_makes_ours_stale(other: Json, refused: bool) -> None:
    assert (Inventory.of([other]).later(SOURCE, NOW) is not None) == refused


@pytest.mark.parametrize(
    ("other", "rival"),
    [
        pytest.param(draft(OWN), True, id="a draft of the same synthesis"),
        pytest.param(draft(stored("now", -10)), True, id="a draft with another time"),
        pytest.param(draft(stored("old", -90)), False, id="another synthesis"),
        pytest.param(draft(stored("now", -60, name="other")), False, id="another composition"),
        pytest.param(OWN, False, id="our own chunk"),
    ],
)
def test_a_rival_claims_the_same_synthesis_under_another_name(other: Json, rival: bool) -> None:
    assert bool(Inventory.of([other]).rivals(SOURCE, {OWN["metadata"]["name"]})) == rival


@pytest.mark.parametrize(
    ("decision", "keeps"),
    [(decided("InventoryInvalid", "now"), True), (decided("NotNeeded", "now"), False), (None, False)],
    ids=["invalid", "another reason", "undecided"],
)
def test_only_after_inventory_invalid_is_the_evidence_kept(decision: Any, keeps: bool) -> None:
    assert keeps_evidence(composition(current=synthesis("now", tombstoneRecoveryStatus=decision))) == keeps
    assert not keeps_evidence(composition(current={}))
