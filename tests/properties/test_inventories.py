"""Stored history: what was written is read back, and what is damaged is never read as something smaller."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import InvalidInventory, MalformedObject, SextonError
from eno.inventory.entries import Entry, chunk
from eno.inventory.replacement import Inventory
from eno.inventory.secrets import PAYLOAD_KEY, Source, StoredChunk, UnusableChunk, difference, read, snapshot
from eno.inventory.selection import Lineage, decode
from eno.objects import OPT_IN_ANNOTATION
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION, Holding
from tests.properties.strategies import (
    DNS,
    JSON,
    TEXTS,
    distorted,
    inventories,
    is_utc,
    json_values,
    places,
    repeatable,
    tried,
    with_value,
)
from tests.support.factories import NOW, entry, inventory

Json = dict[str, Any]

SOURCE = Source("apps", "shop", "shop", "synthesis-1", datetime.fromisoformat("2026-02-01T00:00:00Z"))
MANY = [entry(name=f"n{index}") for index in range(6)]


def stored(entries: list[Entry], limit: int = 1_048_576, source: Source = SOURCE) -> list[Json]:
    """The Secrets of a snapshot, as they come back from a server."""
    found: list[Json] = json.loads(json.dumps(snapshot(source, entries, limit)))
    return found


def history(secrets: list[Json], name: str = "shop") -> list[Entry] | None:
    """What a recovery reads out of these Secrets; None when there is none. Raises InvalidInventory, MalformedObject."""
    newest = Lineage.read(secrets).newest(name, NOW)
    return newest.entries() if newest else None


def room_for_two() -> int:
    return 2 * max(len(each.encode()) for each in MANY) + 3


@repeatable()
@given(inventories(), st.integers(0, 3000), DNS, DNS, DNS, TEXTS.filter(bool))
def test_what_was_written_is_read_back(
    entries: list[Entry], spare: int, namespace: str, synthesizer: str, name: str, uuid: str
) -> None:
    limit = max(len(each.encode()) for each in entries) + 2 + spare
    source = Source(namespace, synthesizer, name, uuid, SOURCE.synthesized)
    secrets = stored(entries, limit, source)
    assert history(secrets, name) == entries
    assert history(secrets[::-1], name) == entries
    found = Inventory.of(secrets).complete(source)
    assert found is not None
    assert found.entries() == entries
    assert all(difference(each, each) is None for each in secrets)


@repeatable()
@given(st.data())
def test_a_changed_byte_is_invalid(data: st.DataObject) -> None:
    (secret,) = stored(MANY)
    payload = bytearray(base64.b64decode(secret["data"][PAYLOAD_KEY]))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    secret["data"][PAYLOAD_KEY] = base64.b64encode(payload).decode()
    with pytest.raises(InvalidInventory):
        history([secret])


@repeatable()
@given(st.data())
def test_a_payload_that_is_cut_off_is_invalid_even_without_a_digest(data: st.DataObject) -> None:
    (secret,) = stored(MANY)
    payload = base64.b64decode(secret["data"][PAYLOAD_KEY])
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    secret["data"][PAYLOAD_KEY] = base64.b64encode(cut).decode()
    if data.draw(st.booleans()):
        del secret["metadata"]["annotations"]["eno.azure.io/inventory-sha256"]
    with pytest.raises(InvalidInventory):
        history([secret])


@repeatable()
@given(st.data())
def test_encoded_text_that_was_changed_is_the_same_or_invalid(data: st.DataObject) -> None:
    (secret,) = stored(MANY)
    text = secret["data"][PAYLOAD_KEY]
    at, gone = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 4))
    secret["data"][PAYLOAD_KEY] = text[:at] + data.draw(TEXTS) + text[at + gone :]
    found = tried(lambda: history([secret]), InvalidInventory)
    if isinstance(found, InvalidInventory):
        assert secret["metadata"]["name"] in found.summary
    else:
        assert found == MANY


@repeatable(60)
@given(st.sets(st.integers(0, 2), min_size=1, max_size=2), st.permutations(range(3)))
def test_a_snapshot_with_a_chunk_missing_is_invalid(missing: set[int], order: list[int]) -> None:
    secrets = stored(MANY, room_for_two())
    assert len(secrets) == 3
    with pytest.raises(InvalidInventory):
        history([secrets[index] for index in order if index not in missing])


@repeatable()
@given(st.data())
def test_a_distorted_secret_never_makes_the_history_smaller(data: st.DataObject) -> None:
    secrets = stored(MANY, room_for_two())
    index = data.draw(st.integers(0, 2))
    secrets[index] = data.draw(distorted(secrets[index]))
    found = tried(lambda: history(secrets), InvalidInventory, MalformedObject)
    assert isinstance(found, SextonError) or found == MANY


@repeatable()
@given(st.data())
def test_an_older_history_never_stands_in_for_a_damaged_newer_one(data: st.DataObject) -> None:
    older = inventory(MANY[:1], uuid="synthesis-0", synthesized="2026-01-01T00:00:00Z")
    (newer,) = stored(MANY)
    part = data.draw(st.sampled_from(["annotations", "data"]))
    path = data.draw(st.sampled_from([each for each in places(newer) if part in each[:2] and each[-1] != part]))
    damaged = with_value(newer, path, data.draw(JSON))
    found = tried(lambda: history([*older, damaged]), InvalidInventory, MalformedObject)
    assert isinstance(found, SextonError) or found == MANY


@repeatable()
@given(st.data())
def test_a_distorted_secret_is_a_chunk_an_unusable_one_a_foreign_one_or_malformed(data: st.DataObject) -> None:
    (sound,) = inventory(MANY)
    secret = data.draw(distorted(sound))
    found = tried(lambda: read(secret), MalformedObject)
    reason = tried(lambda: difference(secret, sound), MalformedObject)
    assert isinstance(found, MalformedObject) is isinstance(reason, MalformedObject)
    assert found is None or isinstance(found, StoredChunk | UnusableChunk | MalformedObject)
    if isinstance(found, UnusableChunk):
        assert found.defect
        assert found.error().summary


@repeatable()
@given(json_values(TEXTS | st.sampled_from(["group", "kind", "namespace", "name", "version", "labels"])))
def test_any_payload_is_a_list_of_whole_entries_or_invalid(payload: Any) -> None:
    raw = json.dumps(payload).encode()
    chunk_ = StoredChunk(
        "a", "u", "1", False, SOURCE, 0, 1, sha256(raw).hexdigest(), {PAYLOAD_KEY: base64.b64encode(raw).decode()}
    )
    found = tried(lambda: decode(chunk_), InvalidInventory)
    assert isinstance(found, InvalidInventory) or all(each.version and each.id.kind and each.id.name for each in found)


@repeatable()
@given(st.dictionaries(st.just(PAYLOAD_KEY) | TEXTS, JSON), st.binary(max_size=40))
def test_any_data_is_a_payload_or_invalid(data: dict[str, Any], raw: bytes) -> None:
    for each in (data, {PAYLOAD_KEY: base64.b64encode(raw).decode()}):
        chunk_ = StoredChunk("a", "u", "1", False, SOURCE, 0, 1, "", each)
        assert isinstance(tried(partial(decode, chunk_), InvalidInventory), list | InvalidInventory)


@repeatable()
@given(inventories(), st.integers(0, 500))
def test_chunks_hold_every_entry_once_in_order_within_the_limit(entries: list[Entry], spare: int) -> None:
    limit = max(len(each.encode()) for each in entries) + 2 + spare
    payloads = chunk(entries, limit)
    assert all(len(each) <= limit for each in payloads)
    names = [item["name"] for each in payloads for item in json.loads(each)]
    assert names == [each.id.name for each in entries]


@repeatable()
@given(st.data(), st.dictionaries(st.sampled_from([UNCLAIMED_SINCE_ANNOTATION, OPT_IN_ANNOTATION]) | TEXTS, TEXTS))
def test_a_mark_says_a_time_or_none_and_never_hides_the_secret(data: st.DataObject, notes: dict[str, str]) -> None:
    (sound,) = inventory(MANY)
    sound["metadata"]["annotations"] |= notes
    holding = Holding.of(sound)
    assert holding is not None
    assert holding.marked is (UNCLAIMED_SINCE_ANNOTATION in notes)
    assert holding.since is None or is_utc(holding.since)
    secret = data.draw(distorted(sound))
    found = tried(lambda: Holding.of(secret), MalformedObject)
    assert not isinstance(found, Holding) or found.since is None or is_utc(found.since)
