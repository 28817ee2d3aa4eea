"""Watches: everything after a version, once and in order, and what a selector makes of it."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice

import pytest

from eno import errors
from kube.cluster import Json, Query
from kube.requests import PARTIAL_OBJECT
from kube.resources import LEASES, SECRETS, Resource
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST
from tests.contract.space import Here, Space


def painted(name: str, color: str) -> Json:
    return with_metadata(probe(name), labels={"color": color})


@pytest.fixture
def start(space: Space) -> str:
    """The version of an empty list."""
    return space.page(PROBES).resource_version


def test_a_watch_tells_every_change_in_order(space: Space, start: str) -> None:
    space.probe("a")
    space.probe("b")
    space.merge_patch(PROBES, {"spec": {"text": "y"}}, "a")
    space.merge_patch(PROBES, {"status": {"uuid": "u"}}, "b", subresource="status")
    space.delete(PROBES, "a")
    space.probe("a")
    assert space.told(PROBES, start) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("MODIFIED", "b"),
        ("DELETED", "a"),
        ("ADDED", "a"),
    ]


def test_an_event_carries_the_object_as_it_was_then(space: Space, start: str) -> None:
    created = space.probe("a", text="x")
    changed = space.merge_patch(PROBES, {"spec": {"text": "y"}})
    assert [event.object for event in space.events(PROBES, start)] == [created, changed]


def test_a_watch_starts_after_its_version(space: Space) -> None:
    first = space.probe("a")
    second = space.probe("b")
    assert space.told(PROBES, first["metadata"]["resourceVersion"]) == [("ADDED", "b")]
    assert space.told(PROBES, second["metadata"]["resourceVersion"]) == []


def test_versions_of_events_rise(space: Space, start: str) -> None:
    for name in "abc":
        space.probe(name)
    space.delete(PROBES, "b")
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in space.events(PROBES, start)]
    assert versions == sorted(set(versions))
    assert int(start) < versions[0]


def test_a_deletion_tells_the_last_state_at_the_version_of_the_deletion(space: Space, start: str) -> None:
    created = space.probe("a", text="x")
    space.delete(PROBES, "a")
    deleted = space.events(PROBES, start)[-1].object
    version = deleted["metadata"]["resourceVersion"]
    assert int(version) > int(created["metadata"]["resourceVersion"])
    assert deleted == with_metadata(created, resourceVersion=version)
    assert space.told(PROBES, version) == []


def test_a_deletion_by_the_last_finalizer_tells_marking_and_end(space: Space, start: str) -> None:
    space.create(PROBES, with_metadata(probe(), finalizers=["example.com/one"]))
    space.delete(PROBES)
    space.delete(PROBES)
    space.merge_patch(PROBES, {"metadata": {"finalizers": None}})
    events = space.events(PROBES, start)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert "deletionTimestamp" in events[-1].object["metadata"]


def test_what_changes_nothing_tells_nothing(space: Space, start: str) -> None:
    created = space.probe("a", text="x")
    space.update(PROBES, created)
    space.merge_patch(PROBES, {"spec": {"text": "x"}})
    space.json_patch(PROBES, {"op": "test", "path": "/spec/text", "value": "x"})
    with pytest.raises(errors.Invalid):
        space.json_patch(PROBES, {"op": "test", "path": "/spec/text", "value": "y"})
    space.ask("POST", PROBES, query="dryRun=All", body=json.dumps(probe("dry")).encode())
    assert space.told(PROBES, start) == [("ADDED", "a")]


def test_a_watch_of_one_namespace_tells_nothing_of_others(space: Space, start: str) -> None:
    elsewhere = Here(space.cluster, "default")
    elsewhere.create(PROBES, probe(space.namespace))
    elsewhere.delete(PROBES, space.namespace)
    space.probe("a")
    assert space.told(PROBES, start) == [("ADDED", "a")]


def test_a_watch_of_all_namespaces_tells_of_this_one(space: Space, start: str) -> None:
    space.probe("a")
    stream = space.cluster.watch(Query(PROBES), resource_version=start, timeout_seconds=20)
    with closing(stream):
        told = (event for event in stream if event.object["metadata"].get("namespace") == space.namespace)
        assert next(told).type == "ADDED"


def test_what_comes_to_match_is_added_and_what_ceases_to_is_deleted(space: Space, start: str) -> None:
    space.create(PROBES, painted("a", "blue"))
    space.merge_patch(PROBES, {"metadata": {"labels": {"color": "red"}}})
    space.merge_patch(PROBES, {"spec": {"text": "y"}})
    space.merge_patch(PROBES, {"metadata": {"labels": {"color": "blue"}}})
    space.merge_patch(PROBES, {"spec": {"text": "z"}})
    space.delete(PROBES)
    assert space.told(PROBES, start, label_selector="color=red") == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


def test_what_leaves_a_selector_is_shown_as_it_was_at_the_version_of_the_change(space: Space, start: str) -> None:
    space.create(PROBES, painted("a", "red"))
    changed = space.merge_patch(PROBES, {"metadata": {"labels": {"color": "blue"}}})
    left = space.events(PROBES, start, label_selector="color=red")[-1]
    assert left.type == "DELETED"
    assert left.object["metadata"]["labels"] == {"color": "red"}
    assert left.object["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


def test_a_watch_of_one_name_tells_of_nothing_else(space: Space, start: str) -> None:
    space.probe("a")
    space.probe("b")
    space.delete(PROBES, "b")
    with closing(space.watch(PROBES, start, field_selector="metadata.name=b")) as stream:
        told = [(event.type, event.object["metadata"]["name"]) for event in islice(stream, 2)]
    assert told == [("ADDED", "b"), ("DELETED", "b")]


@pytest.mark.parametrize("kind", [SECRETS, LEASES], ids=lambda kind: str(kind.kind))
def test_built_in_kinds_are_watched_alike(space: Space, kind: Resource) -> None:
    version = space.page(kind).resource_version
    space.create(kind, {"metadata": {"name": "a"}})
    space.merge_patch(kind, {"metadata": {"labels": {"a": "b"}}})
    space.delete(kind)
    events = space.events(kind, version)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert {(event.object["apiVersion"], event.object["kind"]) for event in events} == {(kind.api_version, kind.kind)}


def test_metadata_alone_can_be_watched(space: Space) -> None:
    version = space.page(SECRETS).resource_version
    created = space.create(SECRETS, {"metadata": {"name": "a"}, "data": {"password": "c2VjcmV0"}})
    space.create(SECRETS, {"metadata": {"name": "b"}, "type": "example.com/other"})
    space.delete(SECRETS)
    events = space.events(SECRETS, version, metadata_only=True, field_selector="type=Opaque")
    assert [(event.type, event.object["metadata"]["name"]) for event in events] == [("ADDED", "a"), ("DELETED", "a")]
    assert events[0].object == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


@pytest.mark.servers("http", "kube-apiserver")
def test_a_bookmark_tells_those_who_ask_how_far_a_watch_has_come(space: Space, start: str) -> None:
    """Two seconds before the end, if anything happened since the start that was not told."""
    space.create(PROBES, painted("a", "red"))
    with ThreadPoolExecutor() as threads:
        query = f"watch=1&timeoutSeconds=4&resourceVersion={start}&labelSelector=color%3Dred"
        unasked = threads.submit(space.ask, "GET", PROBES, query=query)
        stream = space.watch(PROBES, start, seconds=4, label_selector="color=red")
        assert next(stream).type == "ADDED"
        unseen = space.create(PROBES, painted("b", "blue"))["metadata"]["resourceVersion"]
        bookmarks = list(stream)
    assert {event.type for event in bookmarks} == {"BOOKMARK"}
    assert [event["type"] for event in unasked.result().events] == ["ADDED"]
    bookmark = bookmarks[-1].object
    assert (bookmark["kind"], bookmark["apiVersion"]) == (PROBES.kind, PROBES.api_version)
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(unseen)
    space.probe("c")
    assert space.told(PROBES, bookmark["metadata"]["resourceVersion"]) == [("ADDED", "c")]


@pytest.mark.servers("in-process")
def test_in_process_a_watch_tells_what_there_is_and_ends_with_a_bookmark(space: Space, start: str) -> None:
    space.create(PROBES, painted("a", "red"))
    unseen = space.create(PROBES, painted("b", "blue"))["metadata"]["resourceVersion"]
    added, bookmark = space.watch(PROBES, start, label_selector="color=red")
    assert (added.type, bookmark.type) == ("ADDED", "BOOKMARK")
    assert bookmark.object["metadata"]["resourceVersion"] == unseen


def test_a_watch_from_a_version_of_the_future_tells_nothing_not_even_a_bookmark(space: Space, start: str) -> None:
    """As after the restore of an older backup: only a list tells that the version is not one of this history."""
    space.probe()
    ahead = str(int(start) + 1_000_000)
    assert list(space.watch(PROBES, ahead, seconds=3)) == []


@pytest.mark.servers("http", "kube-apiserver")
def test_a_watch_ends_when_its_time_is_up(space: Space, start: str) -> None:
    began = time.monotonic()
    assert [event for event in space.watch(PROBES, start, seconds=1) if event.type != "BOOKMARK"] == []
    assert 0.5 < time.monotonic() - began < 5


@pytest.mark.servers("http", "kube-apiserver")
def test_what_happens_while_a_watch_is_open_is_told_at_once(space: Space, start: str) -> None:
    space.probe("a")
    with closing(space.watch(PROBES, start)) as stream:
        assert next(stream).object["metadata"]["name"] == "a"
        space.probe("b")
        began = time.monotonic()
        assert next(stream).object["metadata"]["name"] == "b"
        assert time.monotonic() - began < 5


@pytest.mark.servers("in-process", "http")
def test_a_watch_from_before_the_history_is_expired_in_its_stream(space: Space, start: str) -> None:
    """On the store: nobody can ask a kube-apiserver's cache to forget."""
    space.probe("a")
    assert space.server.store is not None
    space.server.store.history.compact()
    reply = space.ask("GET", PROBES, query=f"watch=1&resourceVersion={start}&timeoutSeconds=1")
    assert_expired_in_stream(reply.code, reply.events)
    refused = space.refused(lambda h: list(h.watch(PROBES, start, seconds=1)))
    assert isinstance(refused.error, errors.Expired)


@pytest.mark.servers("kube-apiserver")
@pytest.mark.usefixtures("start")
def test_a_watch_from_before_the_cache_is_expired_in_its_stream(space: Space) -> None:
    reply = space.ask("GET", PROBES, query="watch=1&resourceVersion=1&timeoutSeconds=1")
    assert_expired_in_stream(reply.code, reply.events)
    refused = space.refused(lambda h: list(h.watch(PROBES, "1", seconds=1)))
    assert isinstance(refused.error, errors.Expired)


def assert_expired_in_stream(code: int, events: list[Json]) -> None:
    (event,) = events
    status = event["object"]
    assert (code, event["type"], status["kind"]) == (200, "ERROR", "Status")
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith("too old resource version: ")


@pytest.mark.parametrize("version", ["", "0"])
def test_without_a_version_a_watch_begins_with_what_is_there(space: Space, version: str) -> None:
    space.probe("a")
    space.create(PROBES, painted("b", "red"))
    assert sorted(space.told(PROBES, version)) == [("ADDED", "a"), ("ADDED", "b")]
    assert space.told(PROBES, version, label_selector="color") == [("ADDED", "b")]


def test_initial_events_end_with_an_annotated_bookmark(space: Space) -> None:
    space.probe("a")
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    events = space.ask("GET", PROBES, query=query).events
    assert [event["type"] for event in events][:2] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("resourceVersion=x", 500, id="a version that is no number"),
        pytest.param("timeoutSeconds=x", 400, id="a time that is no number"),
        pytest.param("resourceVersionMatch=Exact&resourceVersion=1", 422, id="a match without initial events"),
        pytest.param("continue=x", 422, id="a continue token"),
        pytest.param("sendInitialEvents=true", 422, id="initial events without a match"),
    ],
)
def test_a_watch_with_unusable_options_is_refused(space: Space, query: str, code: int) -> None:
    assert space.ask("GET", PROBES, query=f"watch=1&{query}").code == code


@pytest.mark.parametrize(
    "query", [{"label_selector": "="}, {"field_selector": "spec.text=a"}], ids=["labels", "fields"]
)
def test_a_watch_with_an_unusable_selector_is_refused(space: Space, start: str, query: dict[str, str]) -> None:
    refused = space.refused(lambda h: list(h.watch(PROBES, start, seconds=1, **query)))
    assert refused.summary == BAD_REQUEST


@pytest.mark.usefixtures("start")
def test_a_watch_from_a_version_to_come_tells_nothing_of_before(space: Space) -> None:
    """What a client meets whose server was restored from a backup."""
    space.probe("a")
    reply = space.ask("GET", PROBES, query="watch=1&timeoutSeconds=1&resourceVersion=999999999", accept=PARTIAL_OBJECT)
    assert (reply.code, reply.events) == (200, [])
