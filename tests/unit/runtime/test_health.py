"""The probes: `ok`, or one defect a line."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import urllib3
from prometheus_client import CollectorRegistry, Counter

from eno.errors import UsageError
from runtime import health
from runtime.health import CONNECTIONS, ProbeServer
from tests.support.waiting import until

DEFECTS: list[str] = []


def get(server: ProbeServer, path: str) -> tuple[int, str]:
    with urllib3.PoolManager(retries=False, timeout=5.0) as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{server.port}{path}")
        return answer.status, answer.data.decode()


@pytest.fixture
def server() -> Iterator[ProbeServer]:
    DEFECTS.clear()
    with ProbeServer("127.0.0.1", 0, {"/healthz": list, "/readyz": lambda: DEFECTS}) as running:
        yield running


def test_a_probe_without_defects_answers_ok(server: ProbeServer) -> None:
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz?verbose") == (200, "ok\n")


def test_a_probe_answers_503_with_one_defect_a_line(server: ProbeServer) -> None:
    DEFECTS.extend(["Redis is away", "not listed yet"])
    assert get(server, "/readyz") == (503, "Redis is away\nnot listed yet\n")
    assert get(server, "/healthz") == (200, "ok\n")


def test_another_path_is_not_found(server: ProbeServer) -> None:
    assert get(server, "/")[0] == 404


def test_an_address_that_is_taken_is_refused_in_one_line(server: ProbeServer) -> None:
    with pytest.raises(UsageError, match=rf"health probes at 127.0.0.1:{server.port}: cannot listen"):
        ProbeServer("127.0.0.1", server.port, {})


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused_in_one_line(port: int) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        ProbeServer("127.0.0.1", port, {})


def test_a_closed_server_gives_its_port_back() -> None:
    first = ProbeServer("127.0.0.1", 0, {})
    first.close()
    ProbeServer("127.0.0.1", first.port, {}).close()


def test_metrics_are_served_in_the_format_that_is_asked_for() -> None:
    registry = CollectorRegistry()
    Counter("buried", "Graves.", registry=registry).inc()
    with ProbeServer("127.0.0.1", 0, {}, registry) as server, urllib3.PoolManager(retries=False, timeout=5.0) as pool:
        url = f"http://127.0.0.1:{server.port}/metrics"
        plain = pool.request("GET", url)
        assert plain.headers["Content-Type"].startswith("text/plain; version=")
        assert b"\nburied_total 1.0\n" in plain.data
        modern = pool.request("GET", url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert modern.headers["Content-Type"].startswith("application/openmetrics-text")
        assert modern.data.endswith(b"# EOF\n")


def test_without_metrics_there_are_none(server: ProbeServer) -> None:
    assert get(server, "/metrics")[0] == 404


# Whoever else can reach the port

HALF = b"GET /healthz HTTP/1.1\r\nX: "


def call(server: ProbeServer, said: bytes = HALF) -> socket.socket:
    """A connection on which this was said."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(said)
    return connection


def closed(connection: socket.socket) -> bool:
    """Whether the server has hung up, which it has to do within the timeout of the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_request_that_never_ends_is_not_heard_for_ever(server: ProbeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.5)
    with call(server) as connection:
        connection.settimeout(0.05)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with suppress(TimeoutError):
                if closed(connection):
                    return
            with suppress(ConnectionError):
                connection.send(b"a")
    pytest.fail("it is heard for as long as it says something")


def test_of_too_many_connections_the_oldest_gives_way(server: ProbeServer) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        crowd = [stack.enter_context(call(server)) for _ in range(CONNECTIONS * 3)]
        assert get(server, "/healthz") == (200, "ok\n")
        assert threading.active_count() - before <= CONNECTIONS
        assert all(closed(each) for each in crowd[: CONNECTIONS * 2])


def test_where_nobody_can_give_way_a_connection_is_closed_at_once() -> None:
    busy, goes_on = threading.Semaphore(0), threading.Event()

    def long() -> list[str]:
        busy.release()
        goes_on.wait(30)
        return []

    with ProbeServer("127.0.0.1", 0, {"/long": long, "/healthz": list}) as server, ExitStack() as stack:
        crowd = [stack.enter_context(call(server, b"GET /long HTTP/1.0\r\n\r\n")) for _ in range(CONNECTIONS)]
        assert all(busy.acquire(timeout=10) for _ in crowd)
        with call(server) as one_more:
            assert closed(one_more)
        goes_on.set()
        until(lambda: answers(server), "there is room again")


def answers(server: ProbeServer) -> bool:
    with suppress(urllib3.exceptions.HTTPError):
        return get(server, "/healthz") == (200, "ok\n")
    return False


def test_a_client_that_hangs_up_is_no_news(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG, logger="runtime.health")
    asked, gone = threading.Event(), threading.Event()

    def slow() -> list[str]:
        asked.set()
        gone.wait(10)
        return ["x" * 1_000_000]

    with ProbeServer("127.0.0.1", 0, {"/slow": slow}) as server:
        connection = call(server, b"GET /slow HTTP/1.0\r\n\r\n")
        assert asked.wait(10)
        # Without a farewell: whatever is sent is refused.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        gone.set()
        until(lambda: bool(caplog.records), "it is noticed")

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("DEBUG", "127.0.0.1 hung up")]
    assert capfd.readouterr().err == ""


def test_a_check_that_fails_itself_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError

    with ProbeServer("127.0.0.1", 0, {"/broken": broken}) as server:
        with call(server, b"GET /broken HTTP/1.0\r\n\r\n") as connection:
            assert closed(connection)
        until(lambda: bool(caplog.records), "it is told")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("ERROR", "a probe failed")]
