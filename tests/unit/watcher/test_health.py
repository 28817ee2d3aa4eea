"""The probes: `ok`, or one defect a line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3

from eno.errors import UsageError
from watcher.health import HealthServer

DEFECTS: list[str] = []


def get(server: HealthServer, path: str) -> tuple[int, str]:
    with urllib3.PoolManager(retries=False, timeout=5.0) as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{server.port}{path}")
        return answer.status, answer.data.decode()


@pytest.fixture
def server() -> Iterator[HealthServer]:
    DEFECTS.clear()
    with HealthServer("127.0.0.1", 0, {"/healthz": list, "/readyz": lambda: DEFECTS}) as running:
        yield running


def test_a_probe_without_defects_answers_ok(server: HealthServer) -> None:
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz?verbose") == (200, "ok\n")


def test_a_probe_answers_503_with_one_defect_a_line(server: HealthServer) -> None:
    DEFECTS.extend(["Redis is away", "not listed yet"])
    assert get(server, "/readyz") == (503, "Redis is away\nnot listed yet\n")
    assert get(server, "/healthz") == (200, "ok\n")


def test_another_path_is_not_found(server: HealthServer) -> None:
    assert get(server, "/")[0] == 404


def test_an_address_that_is_taken_is_refused_in_one_line(server: HealthServer) -> None:
    with pytest.raises(UsageError, match=rf"health probes at 127.0.0.1:{server.port}: cannot listen"):
        HealthServer("127.0.0.1", server.port, {})


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused_in_one_line(port: int) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        HealthServer("127.0.0.1", port, {})


def test_a_closed_server_gives_its_port_back() -> None:
    first = HealthServer("127.0.0.1", 0, {})
    first.close()
    HealthServer("127.0.0.1", first.port, {}).close()
