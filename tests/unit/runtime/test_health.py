"""The probes: `ok`, or one defect a line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3
from prometheus_client import CollectorRegistry, Counter

from eno.errors import UsageError
from runtime.health import ProbeServer

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
