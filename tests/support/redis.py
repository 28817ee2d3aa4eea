"""A real Redis for integration tests; skipped, with the reason, where no server program is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eno.errors import UsageError
from runtime.redis_server import RedisServer, find_program, start_redis


@contextmanager
def running_redis(directory: Path, *, port: int | None = None) -> Iterator[RedisServer]:
    """A server of its own for the block, stopped by its process id afterwards."""
    try:
        find_program()
    except UsageError as error:
        pytest.skip(str(error))
    with start_redis(directory, port=port) as server:
        yield server
