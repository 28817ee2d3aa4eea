"""Every line of *Selecting*: which stored snapshot may be trusted, and what stands against the others."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import InvalidInventory
from eno.inventory.secrets import PAYLOAD_KEY
from eno.inventory.selection import Absent, Candidate, Lineage, Snapshot, TooYoung, adopt, select
from tests.support.factories import NOW, Json, composition, entry, inventory

PREFIX = "eno.azure.io/inventory-"


def at(hours: int) -> str:
    return (NOW + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stored(uuid: str, hours: int, *, name: str = "shop", chunks: int = 1) -> list[Json]:
    """A snapshot taken `hours` from now, in as many Secrets as asked for."""
    secrets = inventory([entry(name=uuid)], name=name, uuid=uuid, synthesized=at(hours))
    if chunks == 1:
        return secrets
    return [_as_chunk(secrets[0], index, chunks) for index in range(chunks)]


def _as_chunk(secret: Json, index: int, count: int) -> Json:
    metadata = secret["metadata"]
    name = metadata["name"].replace("-0-", f"-{index}-")
    notes = {**metadata["annotations"], f"{PREFIX}chunk-index": str(index), f"{PREFIX}chunk-count": str(count)}
    del notes[f"{PREFIX}sha256"]
    payload = json.dumps([json.loads(entry(name=f"{name[-16:]}-{index}").encode())]).encode()
    return {
        **secret,
        "metadata": {**metadata, "name": name, "annotations": notes},
        "data": {PAYLOAD_KEY: base64.b64encode(payload).decode()},
    }


def selected(*secrets: list[Json], name: str = "shop") -> Snapshot | Candidate | Absent:
    return select(Lineage.read([each for group in secrets for each in group]), name, NOW)


def chosen_uuid(*secrets: list[Json], name: str = "shop") -> str:
    found = selected(*secrets, name=name)
    assert isinstance(found, Snapshot)
    return found.source.synthesis_uuid


def test_without_any_secret_there_is_no_history() -> None:
    assert selected() == Absent()


def test_the_newest_complete_snapshot_of_the_own_name_is_chosen() -> None:
    assert chosen_uuid(stored("old", -2), stored("new", -1), stored("older", -3)) == "new"


def test_newest_is_the_instant_not_the_string() -> None:
    late = stored("late", -1)
    late[0]["metadata"]["annotations"][f"{PREFIX}synthesized"] = "2026-03-01T13:30:00+02:00"  # 11:30 UTC
    assert chosen_uuid(late, stored("early", -1)) == "late"


def test_neither_creation_time_nor_uuid_order_counts() -> None:
    newest = stored("a", -1)
    newest[0]["metadata"]["creationTimestamp"] = at(-100)
    assert chosen_uuid(newest, stored("z", -2)) == "a"


def test_an_own_name_comes_before_a_newer_one_of_another() -> None:
    assert chosen_uuid(stored("mine", -9), stored("theirs", -1, name="other")) == "mine"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_an_incomplete_newer_snapshot_is_ignored_while_a_complete_one_exists(missing: int) -> None:
    newer = stored("new", -1, chunks=3)
    del newer[missing]
    assert chosen_uuid(stored("old", -2), newer) == "old"


def test_a_terminating_chunk_makes_a_snapshot_incomplete() -> None:
    newer = stored("new", -1, chunks=2)
    newer[1]["metadata"]["deletionTimestamp"] = at(0)
    assert chosen_uuid(stored("old", -2), newer) == "old"


def _draft_beside(secret: Json) -> Json:
    """The same chunk once more, under the name that Eno's drafts used."""
    return {**secret, "metadata": {**secret["metadata"], "name": secret["metadata"]["name"][:-17]}}


def test_two_secrets_for_one_index_make_a_snapshot_incomplete() -> None:
    newer = stored("new", -1)
    assert chosen_uuid(stored("old", -2), [*newer, _draft_beside(newer[0])]) == "old"


@pytest.mark.parametrize(
    ("annotation", "value"), [("chunk-count", "3"), ("synthesized", at(-5))], ids=["count", "timestamp"]
)
def test_chunks_that_disagree_make_a_snapshot_incomplete(annotation: str, value: str) -> None:
    newer = stored("new", -1, chunks=2)
    newer[1]["metadata"]["annotations"][f"{PREFIX}{annotation}"] = value
    assert chosen_uuid(stored("old", -6), newer) == "old"


@pytest.mark.parametrize(("minutes", "chosen"), [(5, "future"), (6, "past")])
def test_a_stamp_more_than_five_minutes_ahead_ranks_below_every_other(minutes: int, chosen: str) -> None:
    ahead = stored("future", 0)
    stamp = (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ahead[0]["metadata"]["annotations"][f"{PREFIX}synthesized"] = stamp
    assert chosen_uuid(ahead, stored("past", -100)) == chosen


def test_a_lone_snapshot_from_the_future_is_still_history() -> None:
    assert chosen_uuid(stored("future", 5)) == "future"


def test_a_foreign_secret_with_the_label_never_blocks() -> None:
    foreign = stored("foreign", -1)
    foreign[0]["metadata"]["name"] = "unrelated"
    tls = stored("tls", -1)
    tls[0]["type"] = "kubernetes.io/tls"
    assert chosen_uuid(stored("mine", -2), foreign, tls) == "mine"


def test_two_syntheses_tied_for_newest_are_invalid() -> None:
    with pytest.raises(
        InvalidInventory, match=r"inventory of shop: two syntheses are tied.*Secret shop-.*Secret shop-"
    ):
        selected(stored("a", -1), stored("b", -1), stored("c", -2))


def test_a_tie_below_the_newest_does_not_matter() -> None:
    assert chosen_uuid(stored("a", -2), stored("b", -2), stored("c", -1)) == "c"


def test_secrets_without_any_complete_snapshot_are_invalid() -> None:
    with pytest.raises(InvalidInventory, match=r"inventory of shop: no complete snapshot: Secret shop-.*-0-"):
        selected(stored("a", -1, chunks=2)[:1])


def test_own_secrets_without_a_complete_snapshot_do_not_fall_back_to_another_name() -> None:
    with pytest.raises(InvalidInventory, match="inventory of shop"):
        selected(stored("a", -1, chunks=2)[:1], stored("b", -1, name="other"))


def test_one_secret_with_unusable_metadata_makes_everything_invalid() -> None:
    broken = stored("broken", -9, name="other")
    broken[0]["metadata"]["annotations"][f"{PREFIX}synthesized"] = "yesterday"
    with pytest.raises(InvalidInventory, match=r"Secret kube-system/other-.*yesterday"):
        selected(stored("mine", -1), broken)


def test_a_single_other_name_is_a_candidate() -> None:
    found = selected(stored("theirs", -1, name="other"))
    assert isinstance(found, Candidate)
    assert found.snapshot.source.composition == "other"


def test_several_other_names_are_ambiguous() -> None:
    with pytest.raises(
        InvalidInventory, match=r"ambiguous source: history of a, b, none of shop: Secret a-.*Secret b-"
    ):
        selected(stored("1", -1, name="a"), stored("2", -1, name="b"))


def test_a_single_other_name_without_a_complete_snapshot_is_invalid() -> None:
    with pytest.raises(InvalidInventory, match="inventory of other: no complete snapshot"):
        selected(stored("1", -1, name="other", chunks=2)[1:])


NEW = composition("shop", created=at(-1))


@pytest.mark.parametrize(
    ("neighbours", "age", "expected"),
    [
        pytest.param([NEW], 3600, Snapshot, id="nobody else can claim it"),
        pytest.param([NEW], 60, Snapshot, id="exactly old enough"),
        pytest.param([NEW], 59, TooYoung, id="too young: siblings may still come"),
        pytest.param(
            [NEW, composition("other", uid="u2")], 3600, "other is its own", id="the composition it names exists"
        ),
        pytest.param(
            [NEW, composition("other", uid="u2", synthesizer="another")],
            3600,
            "other is its own",
            id="the composition it names exists, whatever its synthesizer",
        ),
        pytest.param([NEW, composition("third", uid="u3")], 3600, "could also be that of third", id="a sibling exists"),
        pytest.param(
            [NEW, composition("third", uid="u3", synthesizer="another")], 3600, Snapshot, id="a stranger exists"
        ),
        pytest.param(
            [NEW, composition("third", uid="u3", opted_in=False)],
            3600,
            "could also be that of third",
            id="a sibling that is not opted in counts",
        ),
    ],
)
def test_history_of_another_name_is_adopted_only_when_nobody_else_can_claim_it(
    neighbours: list[Any], age: int, expected: Any
) -> None:
    candidate = selected(stored("theirs", -1, name="other"))
    assert isinstance(candidate, Candidate)
    created = NEW.created
    assert created is not None
    found = adopt(candidate, NEW, neighbours, created + timedelta(seconds=age))
    if isinstance(expected, str):
        assert isinstance(found, Absent)
        assert expected in found.why
    else:
        assert isinstance(found, expected)


def test_a_young_composition_waits_for_the_rest_of_the_minute() -> None:
    candidate = selected(stored("theirs", -1, name="other"))
    assert isinstance(candidate, Candidate)
    assert NEW.created is not None
    assert adopt(candidate, NEW, [NEW], NEW.created) == TooYoung(NEW.created + timedelta(seconds=60))


def payload_of(items: object) -> bytes:
    return json.dumps(items).encode()


GOOD = json.loads(entry().encode())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param({}, "inventory.json is missing", id="no key"),
        pytest.param(None, "inventory.json is missing", id="no data"),
        pytest.param({PAYLOAD_KEY: None}, "inventory.json is missing", id="null value"),
        pytest.param({PAYLOAD_KEY: "%%%"}, "not base64", id="not base64"),
        pytest.param({PAYLOAD_KEY: "ü"}, "not base64", id="not even ASCII"),
        pytest.param(b"", "not an inventory", id="empty"),
        pytest.param(b"null", "not an inventory", id="null"),
        pytest.param(b"{}", "not an inventory", id="not an array"),
        pytest.param(b"[", "not an inventory", id="not JSON"),
        pytest.param(b"[null]", "not an inventory", id="null entry"),
        pytest.param(b"\xff\xfe", "not an inventory", id="not UTF-8"),
        pytest.param(b'["' + b"\xff" + b'"]', "not an inventory", id="not UTF-8 inside"),
        pytest.param(payload_of([{**GOOD, "name": 7}]), "not an inventory", id="name is no string"),
        pytest.param(payload_of([{**GOOD, "labels": {"a": 1}}]), "not an inventory", id="label is no string"),
        pytest.param(payload_of([{k: v for k, v in GOOD.items() if k != "kind"}]), "not an inventory", id="no kind"),
        pytest.param(payload_of([{k: v for k, v in GOOD.items() if k != "group"}]), "not an inventory", id="no group"),
        pytest.param(payload_of([{**GOOD, "name": ""}]), "incomplete identity", id="empty name"),
        pytest.param(payload_of([{**GOOD, "kind": ""}]), "incomplete identity", id="empty kind"),
        pytest.param(
            payload_of([GOOD])[:-2] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
            "not an inventory",
            id="nested too deeply",
        ),
        pytest.param(payload_of([{**GOOD, "version": ""}]), "incomplete identity", id="empty version"),
        pytest.param(payload_of([GOOD, {**GOOD, "version": "v2"}]), "listed twice", id="duplicate"),
        pytest.param(payload_of([{**GOOD, "group": "eno.azure.io", "kind": "Patch"}]), "is a Patch", id="Patch"),
        pytest.param(b"[" + b" " * 1_048_576 + b"]", "over the limit", id="over the limit"),
    ],
)
def test_an_unusable_payload_names_the_secret_and_the_defect(data: bytes | Json | None, says: str) -> None:
    secret = stored("u", -1)[0]
    del secret["metadata"]["annotations"][f"{PREFIX}sha256"]
    secret["data"] = {PAYLOAD_KEY: base64.b64encode(data).decode()} if isinstance(data, bytes) else data
    found = selected([secret])
    assert isinstance(found, Snapshot)
    with pytest.raises(InvalidInventory, match=says) as caught:
        found.entries()
    assert secret["metadata"]["name"] in caught.value.summary
    assert "\n" not in str(caught.value)


def test_a_payload_that_was_altered_does_not_match_its_digest() -> None:
    secret = stored("u", -1)[0]
    secret["data"] = {PAYLOAD_KEY: base64.b64encode(b"[]").decode()}
    found = selected([secret])
    assert isinstance(found, Snapshot)
    with pytest.raises(InvalidInventory, match="does not match its sha256"):
        found.entries()


def test_an_identity_in_two_chunks_is_a_duplicate() -> None:
    secrets = stored("u", -1, chunks=2)
    secrets[1]["data"] = secrets[0]["data"]
    found = selected(secrets)
    assert isinstance(found, Snapshot)
    with pytest.raises(InvalidInventory, match=r"Secret kube-system/shop-.*-1-.*listed twice"):
        found.entries()


def test_entries_come_in_chunk_order_with_labels_and_annotations() -> None:
    kept = [entry(name="b", labels={"x": "y"}), entry(name="a", annotations={"eno.azure.io/deletion-group": "1"})]
    found = selected(inventory(kept))
    assert isinstance(found, Snapshot)
    assert found.entries() == kept


def test_the_payload_of_a_snapshot_that_is_not_chosen_does_not_matter() -> None:
    old = stored("old", -2)
    old[0]["data"] = {}
    found = selected(old, stored("new", -1))
    assert isinstance(found, Snapshot)
    assert [each.id.name for each in found.entries()] == ["new"]


@given(st.binary(max_size=60))
def test_any_payload_is_an_inventory_or_invalid(payload: bytes) -> None:
    secret = stored("u", -1)[0]
    secret["metadata"]["annotations"][f"{PREFIX}sha256"] = sha256(payload).hexdigest()
    secret["data"] = {PAYLOAD_KEY: base64.b64encode(payload).decode()}
    found = selected([secret])
    assert isinstance(found, Snapshot)
    try:
        entries = found.entries()
    except InvalidInventory:
        return
    assert isinstance(json.loads(payload), list)
    assert len(entries) == len(json.loads(payload))


@given(
    st.dictionaries(
        st.sampled_from(
            ["lineage", "format-version", "composition-name", "synthesized", "chunk-index", "chunk-count", "sha256"]
        ),
        st.text(max_size=12),
    )
)
def test_any_metadata_is_usable_or_invalid(altered: dict[str, str]) -> None:
    secret = stored("u", -1)[0]
    secret["metadata"]["annotations"] |= {f"{PREFIX}{key}": value for key, value in altered.items()}
    try:
        found = selected([secret])
    except InvalidInventory as error:
        text = str(error)
    else:
        assert isinstance(found, Snapshot)
        text = ""
    assert "\n" not in text


def test_now_is_an_argument() -> None:
    lineage = Lineage.read(stored("a", -1))
    assert isinstance(select(lineage, "shop", datetime(2020, 1, 1, tzinfo=UTC)), Snapshot)


def test_a_sibling_without_a_snapshot_is_remembered_to_own_nothing() -> None:
    lineage = Lineage.read(stored("a", -1))
    assert lineage.newest("sibling", NOW) is None
