"""TLS in front of any TCP server, as a managed Redis has it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from tests.support.wire import TLS


class _Front(ThreadingTCPServer):
    """Takes connections that speak TLS, and makes one to the server behind for each."""

    daemon_threads = True

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Joined)
        self.behind = behind
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(TLS / "server.crt", TLS / "server.key")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What clients do wrong with TLS is for them to tell."""


class _Joined(BaseRequestHandler):
    server: _Front

    def handle(self) -> None:
        behind = socket.create_connection(("127.0.0.1", self.server.behind))
        with closing(behind), closing(self.server.context.wrap_socket(self.request, server_side=True)) as client:
            back = threading.Thread(target=_pass, args=(behind, client), daemon=True)
            back.start()
            _pass(client, behind)
            back.join()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def encrypted(port: int) -> Iterator[int]:
    """The port of 127.0.0.1 at which the server of another port is reached by TLS alone, while the block runs."""
    with _Front(port) as front:
        threading.Thread(target=front.serve_forever, args=(0.05,), name="tls", daemon=True).start()
        try:
            yield front.server_address[1]
        finally:
            front.shutdown()
