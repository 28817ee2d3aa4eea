"""A server that says exactly what a test tells it to, byte by byte, and remembers what it was sent.

For the faults that no well-behaved server can be asked for: half an answer, silence, a reset, a page of HTML.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

TLS = Path(__file__).parent / "tls"
"""A CA, a server certificate for 127.0.0.1 and api.test, and a client certificate, valid for a century.

Their keys are public, and worthless: nothing but these tests trusts the CA.
"""

PATIENCE = 10.0
"""Seconds after which a silent client is given up on."""


class Do(Enum):
    """What a script can do besides sending bytes."""

    CLOSE = auto()
    RESET = auto()
    HANG = auto()
    """Say nothing more until the test is over."""


Step: TypeAlias = bytes | Do
Answer: TypeAlias = Iterable[Step]


@dataclass(frozen=True)
class Call:
    """One request as it arrived. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(body: Any = None, *, status: int = 200, reason: str = "", **headers: str) -> list[Step]:
    """A complete answer. A body that is not bytes is sent as JSON; `a_b="c"` becomes the header `a-b: c`."""
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    fields = {"content-type": "application/json", "content-length": str(len(data))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return [f"HTTP/1.1 {status} {reason or 'Whatever'}\r\n{head}\r\n".encode() + data]


def chunked(*parts: Step, end: bool = True, status: int = 200) -> list[Step]:
    """An answer in chunks, as a watch is; without its end when `end` is false."""
    head = f"HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    steps: list[Step] = [head.encode()]
    steps += [b"%x\r\n%s\r\n" % (len(part), part) if isinstance(part, bytes) else part for part in parts]
    return [*steps, b"0\r\n\r\n"] if end else steps


class Wire:
    """Listens on 127.0.0.1 and answers each request with the next answer of its script."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[Call] = []
        self.connections = 0
        self._answers = list(answers)
        self._tls = tls
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Wire:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, connection, self.connections)

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.settimeout(PATIENCE)
        with suppress(OSError), connection:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                with self._lock:
                    self._sockets.append(connection)
                while call := _read(stream, number):
                    self.calls.append(call)
                    if not self._play(connection):
                        return

    def _play(self, connection: socket.socket) -> bool:
        """Whether the connection stays open for the next request."""
        steps = self._answers.pop(0) if self._answers else [Do.CLOSE]
        for step in steps:
            match step:
                case Do.CLOSE:
                    return False
                case Do.RESET:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return False
                case Do.HANG:
                    self._over.wait(PATIENCE)
                    return False
                case _:
                    connection.sendall(step)
        return True


def _read(stream: Any, connection: int) -> Call | None:
    line = stream.readline().decode()
    if not line.strip():
        return None
    method, target, _ = line.split()
    headers = {}
    while (field := stream.readline().decode().strip()) != "":
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0")))
    return Call(method, target, headers, body, connection)
