"""Every function of a profile belongs to one room."""

from __future__ import annotations

import pytest

from bench.profiling import room

SITE = "/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        pytest.param("~", "<method 'recv_into' of '_socket.socket' objects>", "sockets (waiting included)", id="reads"),
        pytest.param("~", "<built-in method msgspec._core.json_decode>", "JSON", id="JSON"),
        pytest.param(
            "~", "<method 'validate_python' of 'pydantic_core._pydantic_core'>", "models (pydantic)", id="models"
        ),
        pytest.param("~", "<built-in method builtins.len>", "other", id="another built-in"),
        pytest.param(f"{SITE}/urllib3/connection.py", "request", "HTTP client", id="urllib3"),
        pytest.param("/clone/kube/http.py", "get", "HTTP client", id="our client"),
        pytest.param("/clone/eno/objects.py", "from_json", "models (pydantic)", id="views count as models"),
        pytest.param("/clone/eno/tombstones.py", "missing", "rules", id="rules"),
        pytest.param("/clone/workers/reading.py", "read_slices", "handlers", id="handlers"),
        pytest.param("/usr/lib/python3.11/threading.py", "wait", "other", id="the rest"),
    ],
)
def test_a_function_belongs_to_one_room(file: str, function: str, expected: str) -> None:
    assert room(file, function) == expected
