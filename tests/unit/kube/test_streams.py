"""A watch's body, cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import ApiError, BadResponse, Expired, ServerError, Unreachable
from kube import requests, streams
from kube.cluster import Json, Query, WatchEvent
from kube.resources import SECRETS

WATCH = requests.watch(Query(SECRETS, "ns"), resource_version="1", timeout_seconds=300)
METADATA_WATCH = requests.watch(Query(SECRETS, "ns", metadata_only=True), resource_version="1", timeout_seconds=300)


def secret(name: str = "a", version: Any = "2", kind: str = "Secret") -> Json:
    return {"kind": kind, "metadata": {"name": name, "resourceVersion": version}}


def line(type_: Any = "MODIFIED", obj: Any = None) -> bytes:
    event = {"type": type_, "object": secret() if obj is None else obj}
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def read(*chunks: bytes, request: requests.Request = WATCH) -> list[WatchEvent]:
    return list(streams.events(request, chunks))


@given(st.lists(st.text(max_size=20), max_size=5), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_events_come_out_whole_wherever_the_chunks_are_cut(
    names: list[str], cuts: list[int], blank_lines: bool
) -> None:
    body = (b"\n" if blank_lines else b"").join(line(obj=secret(name)) for name in names)
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[start:end] for start, end in pairwise(edges)]
    assert [event.object["metadata"]["name"] for event in read(*chunks)] == names


def test_a_character_split_between_two_chunks_survives() -> None:
    body = line(obj=secret("größe-☃"))
    at = body.index("☃".encode()) + 1
    assert [event.object["metadata"]["name"] for event in read(body[:at], body[at:])] == ["größe-☃"]


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_a_known_event_is_passed_on(type_: str) -> None:
    assert read(line(type_)) == [WatchEvent(type_, secret())]  # type: ignore[arg-type]


def test_an_unknown_event_type_is_skipped_and_the_watch_goes_on() -> None:
    assert read(line("SPLIT", {}), line("ADDED")) == [WatchEvent("ADDED", secret())]


@pytest.mark.parametrize("blank", [b"\n", b"  \r\n", b"\n\n\n"])
def test_blank_lines_are_nothing(blank: bytes) -> None:
    assert len(read(blank, line(), blank, line())) == 2


def test_a_windows_line_end_is_no_harm() -> None:
    assert len(read(line().replace(b"\n", b"\r\n"))) == 1


def test_a_bookmark_may_be_of_any_kind() -> None:
    bookmark = line("BOOKMARK", secret(kind="Secret"))
    assert [event.type for event in read(bookmark, request=METADATA_WATCH)] == ["BOOKMARK"]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"kind": "Status", "code": 410, "reason": "Expired"}, Expired),
        ({"kind": "Status", "code": 410, "reason": "Gone"}, Expired),
        ({"kind": "Status", "code": 500, "reason": "InternalError"}, ServerError),
        ({}, ServerError),
    ],
)
def test_an_error_event_is_raised_after_the_events_before_it(obj: Json, expected: type[ApiError]) -> None:
    stream = streams.events(WATCH, [line(), line("ERROR", obj)])
    assert next(stream) == WatchEvent("MODIFIED", secret())
    with pytest.raises(expected) as caught:
        next(stream)
    assert caught.value.where == "watch secrets ns"


GARBAGE = {
    "no JSON": b"<html>\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "not UTF-8": b'{"type":"\xff"}\n',
    "no type": b'{"object":{}}\n',
    "a type that is no string": b'{"type":1,"object":{}}\n',
    "no object": b'{"type":"ADDED"}\n',
    "an object that is none": line("ADDED", []),
    "an object of another kind": line("ADDED", secret(kind="ConfigMap")),
    "an object without a version": line("ADDED", {"kind": "Secret", "metadata": {}}),
    "an object without metadata": line("ADDED", {"kind": "Secret"}),
    "a version that is a number": line("ADDED", secret(version=3)),
    "an empty version": line("ADDED", secret(version="")),
    "a bookmark without a version": line("BOOKMARK", {"kind": "Secret"}),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_line_that_is_no_event_is_a_bad_response(garbage: bytes) -> None:
    with pytest.raises(BadResponse):
        read(line(), garbage)


def test_whole_objects_instead_of_metadata_are_refused() -> None:
    with pytest.raises(BadResponse, match="expected PartialObjectMetadata, got Secret"):
        read(line(), request=METADATA_WATCH)


def test_a_stream_that_ends_inside_an_event_is_a_broken_connection() -> None:
    with pytest.raises(Unreachable):
        read(line(), line()[:10])


def test_a_stream_that_ends_between_events_has_ended() -> None:
    assert read() == []
    assert len(read(line())) == 1


def test_a_line_without_an_end_is_not_collected_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LINE_LIMIT", 100)
    with pytest.raises(BadResponse):
        read(*[b"x" * 30] * 10)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_stream_is_a_traceback(chunks: list[bytes]) -> None:
    try:
        read(*chunks)
    except ApiError:
        return
