"""What is remembered, how it is cut, and how it is stored. Byte by byte."""

from __future__ import annotations

import base64
import itertools
import json
import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import InventoryTooLarge
from eno.identity import ResourceId, parse_head
from eno.inventory.entries import CHUNK_LIMIT, Entry, build, chunk
from eno.inventory.secrets import (
    PAYLOAD_KEY,
    StoredChunk,
    UnusableChunk,
    lineage,
    read,
    secret_name,
    snapshot,
    source_of,
)
from tests.support.factories import composition, entry, head, inventory, patch_manifest, synthesis

PREFIX = "eno.azure.io/inventory-"


def test_the_lineage_is_the_one_everybody_computes() -> None:
    assert lineage("control", "synthesizer") == "a662070629ed311ed1b45389395a452e"


@pytest.mark.parametrize(
    ("text", "deleted"),
    [
        pytest.param(head("ConfigMap", "x"), True, id="a tombstone"),
        pytest.param(parse_head(patch_manifest("ConfigMap", "x")), False, id="a Patch"),
        pytest.param(
            head("ConfigMap", "x", annotations={"eno.azure.io/disable-reconciliation": "true"}), False, id="unmanaged"
        ),
    ],
)
def test_what_the_synthesis_does_not_own_is_not_remembered(text: object, deleted: bool) -> None:
    assert build([(text, deleted)]) == []  # type: ignore[list-item]


def test_the_first_occurrence_of_an_identity_wins() -> None:
    assert build([(head(labels={"n": "1"}), False), (head(labels={"n": "2"}), False)]) == [entry(labels={"n": "1"})]


def test_older_groups_are_remembered_as_they_were_written() -> None:
    both = [head("Ingress", api_version="extensions/v1beta1"), head("Ingress", api_version="networking.k8s.io/v1")]
    assert [each.id.group for each in build((each, False) for each in both)] == ["extensions", "networking.k8s.io"]


def test_only_the_two_ordering_annotations_are_kept() -> None:
    kept = {"eno.azure.io/readiness-group": "1", "eno.azure.io/deletion-group": "2"}
    assert build([(head(annotations={**kept, "a": "b", "eno.azure.io/readiness": "true"}), False)]) == [
        entry(annotations=kept)
    ]


def test_an_entry_is_compact_json_with_sorted_keys() -> None:
    full = entry("Deployment", group="apps", labels={"b": "ü", "a": "1"}, annotations={"eno.azure.io/x": "1"})
    assert full.encode().decode() == (
        '{"annotations":{"eno.azure.io/x":"1"},"group":"apps","kind":"Deployment","labels":{"a":"1","b":"ü"},'
        '"name":"web","namespace":"shop","version":"v1"}'
    )
    assert entry().encode() == b'{"group":"","kind":"ConfigMap","name":"web","namespace":"shop","version":"v1"}'


def test_entries_are_sorted_by_bytes() -> None:
    mixed = [
        head(name=name, namespace=namespace) for name, namespace in [("b", "a"), ("B", "a"), ("ä", "a"), ("a", "b")]
    ]
    assert [(e.id.namespace, e.id.name) for e in build((each, False) for each in mixed)] == [
        ("a", "B"),
        ("a", "b"),
        ("a", "ä"),
        ("b", "a"),
    ]


def test_nothing_to_remember_is_one_empty_array() -> None:
    assert chunk([]) == [b"[]"]


def sized(size: int, name: str = "a") -> Entry:
    """An entry that encodes to exactly `size` bytes, multi-byte labels included."""
    base = len(entry(name=name, labels={"k": "ü"}).encode())
    return entry(name=name, labels={"k": "ü" + "x" * (size - base)})


@pytest.mark.parametrize(
    ("sizes", "limit", "chunks"),
    [
        pytest.param([200], 203, 1, id="one below the limit"),
        pytest.param([200], 202, 1, id="one with its brackets exactly at the limit"),
        pytest.param([200, 150], 353, 1, id="two with comma and brackets exactly at the limit"),
        pytest.param([200, 150], 352, 2, id="two one byte over"),
        pytest.param([150, 150, 150], 303, 2, id="greedy"),
    ],
)
def test_exactly_the_limit_fits(sizes: list[int], limit: int, chunks: int) -> None:
    payloads = chunk([sized(size, name=f"n{index}") for index, size in enumerate(sizes)], limit)
    assert len(payloads) == chunks
    assert max(map(len, payloads)) <= limit


def test_one_entry_that_cannot_fit_is_an_error_before_any_write() -> None:
    assert len(chunk([sized(200)], limit=202)) == 1
    with pytest.raises(InventoryTooLarge, match="needs 202 bytes of inventory, 201 fit"):
        chunk([sized(200)], limit=201)


@given(st.lists(st.integers(110, 190), max_size=30))
def test_chunks_join_to_the_whole_and_are_never_over_the_limit(sizes: list[int]) -> None:
    entries = [sized(size, name=f"n{index:03}") for index, size in enumerate(sizes)]
    payloads = chunk(entries, limit=400)
    assert [item["name"] for payload in payloads for item in json.loads(payload)] == [e.id.name for e in entries]
    assert all(len(payload) <= 400 for payload in payloads)
    for first, second in itertools.pairwise(payloads):
        following = len(json.dumps(json.loads(second)[0], separators=(",", ":"), ensure_ascii=False).encode())
        assert len(first) + 1 + following > 400, "greedy: the next entry would not have fitted"


@pytest.mark.parametrize("count", [5_000, 100_000])
def test_chunk_boundaries_do_not_depend_on_input_order(count: int) -> None:
    heads = [head(name=f"n{index:06}", labels={"app": "ü" * 10}) for index in range(count)]
    shuffled = random.Random(7).sample(heads, count)  # noqa: S311
    payloads = chunk(build((each, False) for each in heads))
    assert payloads == chunk(build((each, False) for each in shuffled))
    assert all(len(payload) <= CHUNK_LIMIT for payload in payloads)
    assert len(payloads) == (1 if count == 5_000 else 12)


def test_a_snapshot_is_immutable_opaque_and_described() -> None:
    (secret,) = snapshot(source_of(composition()), [entry()])
    payload = base64.b64decode(secret["data"][PAYLOAD_KEY])
    lineage_id = lineage("apps", "shop")
    assert secret["metadata"]["name"] == f"shop-{lineage_id}-0-{sha256(b'synthesis-2').hexdigest()[:16]}"
    assert secret["metadata"]["namespace"] == "kube-system"
    assert secret["metadata"]["labels"] == {f"{PREFIX}lineage": lineage_id}
    assert secret["metadata"]["annotations"] == {
        f"{PREFIX}lineage": lineage_id,
        f"{PREFIX}format-version": "1",
        f"{PREFIX}composition-name": "shop",
        f"{PREFIX}composition-namespace": "apps",
        f"{PREFIX}synthesizer-name": "shop",
        f"{PREFIX}synthesis-uuid": "synthesis-2",
        f"{PREFIX}synthesized": "2026-03-01T11:00:00Z",
        f"{PREFIX}chunk-index": "0",
        f"{PREFIX}chunk-count": "1",
        f"{PREFIX}sha256": sha256(payload).hexdigest(),
    }
    assert (secret["type"], secret["immutable"]) == ("Opaque", True)
    assert "ownerReferences" not in secret["metadata"]


def test_a_long_composition_name_is_cut_to_a_valid_secret_name() -> None:
    name = secret_name("a" * 190 + ".b" * 31, lineage("apps", "shop"), 0, "u")
    assert name.startswith("a" * 190 + ".b" * 5 + "-"), "cut to 201 characters, the trailing dot stripped"
    long = "n" * 253
    (secret,) = snapshot(source_of(composition(long)), [])
    assert len(secret["metadata"]["name"]) == 253
    stored = read(secret)
    assert isinstance(stored, StoredChunk)
    assert stored.source.composition == long


def test_the_time_of_a_synthesis_is_stored_in_whole_seconds_of_utc() -> None:
    (secret,) = snapshot(source_of(composition(current=synthesis(synthesized="2026-03-01T13:00:00.9+02:00"))), [])
    assert secret["metadata"]["annotations"][f"{PREFIX}synthesized"] == "2026-03-01T11:00:00Z"


def test_a_synthesis_with_a_fraction_of_a_second_is_found_again() -> None:
    source = source_of(composition(current=synthesis(synthesized="2026-03-01T12:00:00.9Z")))
    (secret,) = snapshot(source, [])
    secret["metadata"] |= {"uid": "secret-1", "resourceVersion": "3"}
    stored = read(secret)
    assert isinstance(stored, StoredChunk)
    assert stored.source == source


def test_what_was_stored_is_read_back() -> None:
    (secret,) = inventory([entry()])
    stored = read(secret)
    assert isinstance(stored, StoredChunk)
    assert (stored.index, stored.count, stored.terminating) == (0, 1, False)
    assert (stored.source.composition, stored.source.synthesis_uuid) == ("shop", "synthesis-1")
    assert json.loads(stored.payload())[0]["name"] == "web"


def test_a_draft_name_without_a_digest_is_read_as_well() -> None:
    (secret,) = inventory([entry()])
    secret["metadata"]["name"] = f"shop-{lineage('apps', 'shop')}-0"
    del secret["metadata"]["annotations"][f"{PREFIX}sha256"]
    assert isinstance(read(secret), StoredChunk)


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param({"type": "kubernetes.io/tls"}, id="another type"),
        pytest.param({"name": "shop"}, id="another name"),
        pytest.param({"name": "shop-a662070629ed311ed1b45389395a452e-0"}, id="the name of another lineage"),
        pytest.param({"name": f"shop-{lineage('apps', 'shop')}-01"}, id="no plain index"),
        pytest.param({"name": f"shop-{lineage('apps', 'shop')}-0-XYZ"}, id="no digest"),
        pytest.param({"name": f"-{lineage('apps', 'shop')}-0"}, id="no composition"),
        pytest.param({"labels": {}}, id="no label"),
    ],
)
def test_a_secret_that_merely_carries_the_label_is_not_ours(foreign: dict[str, object]) -> None:
    (secret,) = inventory([entry()])
    metadata = {**secret["metadata"], **{key: value for key, value in foreign.items() if key != "type"}}
    assert read({**secret, "type": foreign.get("type", "Opaque"), "metadata": metadata}) is None


@pytest.mark.parametrize(
    ("annotation", "value", "says"),
    [
        ("format-version", "2", "format version '2' is not '1'"),
        ("format-version", None, "format version '' is not '1'"),
        ("synthesized", None, "synthesized is missing"),
        ("synthesized", "yesterday", "not an RFC 3339 time"),
        ("synthesized", "2026-13-01T00:00:00Z", "month"),
        ("synthesized", "2026-02-01 00:00:00", "not an RFC 3339 time"),
        ("chunk-index", None, "chunk-index is missing"),
        ("chunk-index", "one", "chunk-index is not a number"),
        ("chunk-index", "-1", "chunk-index is not a number"),
        ("chunk-index", "1", "chunk 1 of 1 does not fit its name"),
        ("chunk-count", None, "chunk-count is missing"),
        ("chunk-count", "0", "chunk 0 of 0 does not fit its name"),
        ("chunk-count", "99999999999999999999", "chunk-count is not a number"),
        ("lineage", None, "lineage and source names disagree"),
        ("lineage", "0" * 32, "lineage and source names disagree"),
        ("composition-namespace", "other", "lineage and source names disagree"),
        ("synthesizer-name", "other", "lineage and source names disagree"),
        ("composition-name", "other", "composition name 'other' does not match the Secret's name"),
        ("composition-name", None, "composition-name is missing"),
        ("synthesis-uuid", None, "synthesis-uuid is missing"),
        ("synthesis-uuid", "other", "the synthesis UUID does not match the Secret's name"),
    ],
)
def test_unusable_metadata_is_named_with_its_secret(annotation: str, value: str | None, says: str) -> None:
    (secret,) = inventory([entry()])
    notes = secret["metadata"]["annotations"]
    notes.pop(f"{PREFIX}{annotation}")
    if value is not None:
        notes[f"{PREFIX}{annotation}"] = value
    stored = read(secret)
    assert isinstance(stored, UnusableChunk)
    assert says in stored.error().summary
    assert secret["metadata"]["name"] in stored.error().summary


def test_an_index_within_the_count_must_be_that_of_the_name() -> None:
    (secret,) = inventory([entry()])
    secret["metadata"]["annotations"] |= {f"{PREFIX}chunk-index": "1", f"{PREFIX}chunk-count": "2"}
    stored = read(secret)
    assert isinstance(stored, UnusableChunk)
    assert "chunk 1 of 2 does not fit its name" in stored.error().summary


names = st.text(alphabet="abc.-/%_:ü", max_size=6)


@given(st.lists(st.builds(Entry, st.builds(ResourceId, names, names, names, names), names), max_size=5))
def test_any_identity_survives_storage(entries: list[Entry]) -> None:
    (payload,) = chunk(entries)
    assert [
        ResourceId(each["group"], each["kind"], each["namespace"], each["name"]) for each in json.loads(payload)
    ] == [each.id for each in entries]
