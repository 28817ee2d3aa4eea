"""Watches on the wire: read as they come, ended as they end, closed for good."""

from __future__ import annotations

import threading

import pytest

from eno import errors
from kube.cluster import Json
from kube.http import HttpCluster
from kube.reflector import Reflector
from kube.resources import SECRETS
from tests.support.talking import QUERY, line, page, secret, talking, watch
from tests.support.wire import Answer, Do, answer, chunked


def test_a_watch_passes_events_and_bookmarks_on_and_ends_with_the_stream() -> None:
    body = line("ADDED", secret()) + line("NOVEL", {}) + b"\n" + line("BOOKMARK", secret("", "9"))
    with talking(chunked(body[:30], body[30:])) as (wire, client):
        assert [event.type for event in watch(client)] == ["ADDED", "BOOKMARK"]
    (call,) = wire.calls
    assert call.target == (
        "/api/v1/namespaces/ns/secrets?watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=1"
    )


def test_an_event_is_passed_on_before_the_next_one_is_sent() -> None:
    with talking(chunked(line("ADDED", secret()), Do.HANG)) as (_, client):
        stream = watch(client)
        assert next(stream).type == "ADDED"
        stream.close()


def test_a_stream_without_chunks_is_read_as_it_comes_too() -> None:
    head = b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"
    with talking([head, line("ADDED", secret()), Do.HANG]) as (_, client):
        stream = watch(client)
        assert next(stream).type == "ADDED"
        stream.close()
    with talking([head, line("ADDED", secret()), Do.CLOSE]) as (_, client):
        assert len(list(watch(client))) == 1


def test_an_expired_version_inside_a_watch_is_raised() -> None:
    gone = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    with talking(chunked(line("ADDED", secret()), gone)) as (_, client):
        stream = watch(client)
        next(stream)
        with pytest.raises(errors.Expired):
            next(stream)


BROKEN_STREAMS: dict[str, tuple[Answer, type[errors.ApiError]]] = {
    "reset": (chunked(line("ADDED", secret()), Do.RESET), errors.Unreachable),
    "cut off between chunks": (chunked(line("ADDED", secret()), Do.CLOSE), errors.Unreachable),
    "cut off inside a chunk": (
        [*chunked(line("ADDED", secret()), end=False), b"ff\r\n{", Do.CLOSE],
        errors.Unreachable,
    ),
    "ended inside an event": (chunked(line("ADDED", secret()), b'{"type"'), errors.Unreachable),
    "silent": (chunked(line("ADDED", secret()), Do.HANG), errors.TimedOut),
    "garbage": (chunked(line("ADDED", secret()), b"<html>\n"), errors.BadResponse),
}


@pytest.mark.parametrize(("broken", "expected"), BROKEN_STREAMS.values(), ids=BROKEN_STREAMS)
def test_a_watch_that_breaks_says_how(broken: Answer, expected: type[errors.ApiError]) -> None:
    with talking(broken) as (_, client):
        stream = watch(client)
        assert next(stream).type == "ADDED"
        with pytest.raises(errors.ApiError) as caught:
            next(stream)
    assert type(caught.value) is expected


def test_a_closed_watch_leaves_no_half_read_connection_behind() -> None:
    endless = chunked(line("ADDED", secret()), line("ADDED", secret()), Do.HANG)
    with talking(endless, answer(secret("b"))) as (wire, client):
        stream = watch(client)
        next(stream)
        stream.close()
        assert client.get(SECRETS, "ns", "b") == secret("b")
    assert [call.connection for call in wire.calls] == [1, 2]


def test_closing_the_client_ends_a_watch_that_another_thread_reads() -> None:
    outcome: list[BaseException | str] = []
    reading = threading.Event()

    def follow(client: HttpCluster) -> None:
        try:
            for _ in watch(client, timeout_seconds=60):
                reading.set()
            outcome.append("ended")
        except errors.Unreachable as error:
            outcome.append(error)

    with talking(chunked(line("ADDED", secret()), Do.HANG)) as (_, client):
        thread = threading.Thread(target=follow, args=(client,))
        thread.start()
        assert reading.wait(5)
        client.close()
        thread.join(5)
        assert not thread.is_alive()
    assert len(outcome) == 1


class Versions:
    """A sink that keeps names and versions, and says when it has seen one."""

    def __init__(self, until: tuple[str, str]) -> None:
        self.known: dict[str, str] = {}
        self.seen = threading.Event()
        self._until = until

    def record(self, obj: Json) -> tuple[str, str]:
        return obj["metadata"]["name"], obj["metadata"]["resourceVersion"]

    def replace(self, records: list[tuple[str, str]], version: str) -> None:
        assert version
        self.known = dict(records)
        self._check()

    def changed(self, obj: Json) -> None:
        self.known |= [self.record(obj)]
        self._check()

    def deleted(self, obj: Json) -> None:
        del self.known[obj["metadata"]["name"]]

    def bookmark(self, version: str) -> None:
        """Of no interest here."""

    def _check(self) -> None:
        if self._until in self.known.items():
            self.seen.set()


def test_a_reflector_in_a_thread_goes_on_after_an_expired_version_and_stops_when_told() -> None:
    gone = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    answers = [
        answer(page(secret("a", "7"), version="10")),
        chunked(line("MODIFIED", secret("a", "11")), gone),
        answer(page(secret("b", "12"), version="12")),
        chunked(line("ADDED", secret("c", "13")), Do.HANG),
    ]
    sink, stop = Versions(until=("c", "13")), threading.Event()
    with talking(*answers) as (wire, client):
        reflector = Reflector(client, QUERY, sink, watch_timeout=60)
        thread = threading.Thread(target=reflector.run, args=(stop,))
        thread.start()
        try:
            assert sink.seen.wait(10)
        finally:
            stop.set()
            client.close()
            thread.join(10)
        assert not thread.is_alive()
    assert sink.known == {"b": "12", "c": "13"}
    assert [call.target.partition("&resourceVersion=")[2] for call in wire.calls] == [
        "",
        "10&timeoutSeconds=60",
        "",
        "12&timeoutSeconds=60",
    ]
    assert reflector.stats.expired == 1
