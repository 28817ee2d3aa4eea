"""Who claims an inventory, and what becomes of one that nobody claims. Every rule as a table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from eno.inventory.secrets import StoredChunk, lineage
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION, Claims, Group, Holding, groups, steps
from tests.support.factories import (
    NAMESPACE,
    NOW,
    SYNTHESIZER,
    Json,
    composition,
    decided,
    entry,
    inventory,
    synthesis,
)

LINEAGE = lineage(NAMESPACE, SYNTHESIZER)
GRACE = timedelta(days=7)


def stamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def stored(uuid: str = "u", *, name: str = "shop", mark: str | None = None, **source: Any) -> Json:
    """A snapshot in one Secret, with a mark if one is given."""
    (secret,) = inventory([entry()], name=name, uuid=uuid, **source)
    if mark is not None:
        secret["metadata"]["annotations"][UNCLAIMED_SINCE_ANNOTATION] = mark
    return secret


def broken(secret: Json, **notes: str | None) -> Json:
    annotations = dict(secret["metadata"]["annotations"])
    for key, value in {"synthesized": "yesterday", **notes}.items():
        annotation = f"eno.azure.io/inventory-{key.replace('_', '-')}"
        if value is None:
            del annotations[annotation]
        else:
            annotations[annotation] = value
    return {**secret, "metadata": {**secret["metadata"], "annotations": annotations}}


def held(*secrets: Json) -> list[Holding]:
    return [each for secret in secrets if (each := Holding.of(secret)) is not None]


def group(*secrets: Json) -> Group:
    (found,) = groups(held(*(secrets or [stored()])), NAMESPACE)
    return found


def claimed(found: Group, *others: Any, infer: bool = False) -> str | None:
    return Claims.of(LINEAGE, others, infer=infer).of_group(found)


def days(number: float) -> str:
    return stamp(NOW - timedelta(days=number))


def test_secrets_are_grouped_by_name_oldest_first() -> None:
    new, old = stored("a", synthesized="2026-02-02T00:00:00Z"), stored("b", synthesized="2026-02-01T00:00:00Z")
    other = stored("a", name="other", synthesized="2026-02-03T00:00:00Z")
    unusable = broken(stored("c"))
    found = [
        (each.composition, [holding.stored.name for holding in each.holdings])
        for each in groups(held(unusable, new, other, old), NAMESPACE)
    ]
    assert found == [
        ("other", [other["metadata"]["name"]]),
        ("shop", [old["metadata"]["name"], new["metadata"]["name"]]),
        ("shop", [unusable["metadata"]["name"]]),
    ]


@pytest.mark.parametrize(
    ("secrets", "count"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([stored(namespace="elsewhere")], 0, id="of another namespace"),
        pytest.param([{**stored(), "type": "kubernetes.io/tls"}], 0, id="foreign"),
        pytest.param([broken(stored())], 1, id="unusable, its names still prove whose it is"),
        pytest.param([broken(stored(), composition_namespace="elsewhere")], 0, id="unusable, of nobody knows whom"),
        pytest.param([broken(stored(), synthesizer_name=None)], 0, id="unusable, its synthesizer is unknown"),
        pytest.param(
            [stored("sound"), broken(stored("b"), composition_namespace=None)],
            2,
            id="unusable, beside one that proves whose the lineage is",
        ),
        pytest.param(
            [{**stored(), "metadata": {**stored()["metadata"], "deletionTimestamp": days(0)}}], 0, id="terminating"
        ),
    ],
)
def test_only_what_is_provably_of_the_namespace_is_looked_at(secrets: list[Json], count: int) -> None:
    assert len(groups(held(*secrets), NAMESPACE)) == count


RECOVERED = synthesis(tombstoneRecoveryStatus=decided())
UNRECOVERED = synthesis()


def deleting(name: str = "shop", **fields: Any) -> Any:
    return composition(name, **{"current": RECOVERED, "metadata": {"deletionTimestamp": days(0)}, **fields})


@pytest.mark.parametrize(
    ("others", "by"),
    [
        pytest.param([], None, id="nobody is left"),
        pytest.param([composition(current=RECOVERED)], "exists", id="the composition itself"),
        pytest.param([composition(current=RECOVERED, opted_in=False)], None, id="opted out"),
        pytest.param([deleting()], "exists", id="deleting"),
        pytest.param([deleting(opted_in=False)], "exists", id="deleting, and opted out"),
        pytest.param([composition("renamed", current=RECOVERED)], None, id="renamed, and recovered"),
        pytest.param([composition("renamed", current=UNRECOVERED)], "to be recovered", id="renamed, not yet recovered"),
        pytest.param(
            [composition("renamed", current=synthesis(tombstoneRecoveryStatus=decided(uuid="older")))],
            "to be recovered",
            id="renamed, with a decision for another synthesis",
        ),
        pytest.param([composition("renamed", current={})], "to be recovered", id="renamed, not yet synthesized"),
        pytest.param(
            [composition("renamed", current={}, opted_in=False)], None, id="renamed, not synthesized, opted out"
        ),
        pytest.param([deleting("renamed", current={})], None, id="renamed, deleted before its first synthesis"),
        pytest.param(
            [composition("renamed", current=synthesis(tombstoneRecoveryRequired=False))],
            None,
            id="another name, that lacks no history",
        ),
        pytest.param([composition("sibling", current=RECOVERED)], None, id="a sibling"),
        pytest.param([composition(current=RECOVERED, synthesizer="another")], None, id="its name, another synthesizer"),
        pytest.param(
            [composition("renamed", current=UNRECOVERED, synthesizer="another")], None, id="another lineage's need"
        ),
    ],
)
def test_who_claims_a_snapshot(others: list[Any], by: str | None) -> None:
    claim = claimed(group(), *others)
    assert claim is None if by is None else claim is not None and by in claim


@pytest.mark.parametrize("infer", [False, True])
def test_whether_absent_fields_claim_is_the_setting(infer: bool) -> None:
    silent = composition("renamed", current=synthesis(tombstoneRecoveryRequired=None))
    assert (claimed(group(), silent, infer=infer) is not None) == infer


def test_a_secret_that_does_not_say_whose_it_is_is_claimed_by_anybody_of_the_lineage() -> None:
    unknown = group(broken(stored(), composition_name=None))
    assert claimed(unknown, composition("sibling", current=RECOVERED)) is not None
    assert claimed(unknown) is None


@pytest.mark.parametrize(
    ("marks", "marked", "deleted", "wait"),
    [
        pytest.param([None], 1, 0, GRACE, id="unmarked"),
        pytest.param([days(1), None], 1, 0, GRACE, id="one of its Secrets is unmarked"),
        pytest.param(["soon"], 1, 0, GRACE, id="the mark is no time"),
        pytest.param([days(6.9)], 0, 0, timedelta(days=0.1), id="within the grace"),
        pytest.param([days(7)], 0, 1, None, id="the grace is over"),
        pytest.param([days(9), days(6)], 0, 0, timedelta(days=1), id="the latest mark counts"),
        pytest.param([days(9), days(8)], 0, 2, None, id="every Secret is marked for longer"),
        pytest.param([days(-1)], 0, 0, timedelta(days=8), id="the mark lies ahead"),
    ],
)
def test_what_becomes_of_an_unclaimed_snapshot(
    marks: list[str | None], marked: int, deleted: int, wait: timedelta | None
) -> None:
    found = steps(chunks(*marks), None, NOW, GRACE)
    assert (len(found.mark), len(found.unmark), len(found.delete)) == (marked, 0, deleted)
    assert found.until == (None if wait is None else NOW + wait)


@pytest.mark.parametrize("mark", [None, days(99)])
def test_a_grace_of_0_keeps_everything(mark: str | None) -> None:
    found = steps(chunks(mark), None, NOW, timedelta(0))
    assert (found.mark, found.unmark, found.delete, found.until) == ((), (), (), None)


def test_a_claim_takes_every_mark_away_and_nothing_else() -> None:
    found = steps(chunks(days(99), "soon", None), "apps/shop exists", NOW, GRACE)
    assert [holding.since for holding in found.unmark] == [NOW - timedelta(days=99), None]
    assert (found.mark, found.delete, found.until) == ((), (), None)


def chunks(*marks: str | None) -> Group:
    """The history of one name, in as many Secrets as there are marks."""
    holdings = []
    for mark in marks:
        (holding,) = group(stored(mark=mark)).holdings
        assert isinstance(holding.stored, StoredChunk)
        holdings.append(holding)
    return Group(tuple(holdings))
