"""`/healthz`, `/readyz` and `/metrics`: whether a process makes progress, can do its work, and what it did.

A probe asks a function for what is wrong now and answers 200 with `ok`, or 503 with one defect a line. What
counts as a defect is the business of whoever starts the server.

Anybody who reaches the port may ask, so there is a bound to connections, and to how long each is heard. Where there
are too many, it is the oldest that gives way: whoever asks as a probe does is answered before its turn comes.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from eno.errors import UsageError

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the defects that there are now, one line each."""

METRICS_PATH = "/metrics"

CONNECTIONS = 32
"""That are heard at once, each by a thread."""

REQUEST_SECONDS = 10.0
"""From the connection to the end of the answer: as long as Prometheus waits for a scrape."""

_POLL_SECONDS = 0.1
_YIELD_SECONDS = 0.2
"""For a connection that gives way to end its thread."""

log = logging.getLogger(__name__)


class ProbeServer:
    """Answers on `host:port` from construction until `close`; port 0 takes a free one. A context manager.

    `checks` are the probes by path; `metrics` is what `/metrics` shows, which is not found without it. Raises
    UsageError when the address cannot be had.
    """

    def __init__(
        self, host: str, port: int, checks: Mapping[str, Check], metrics: CollectorRegistry | None = None
    ) -> None:
        try:
            self._server = _Server((host, port), checks, metrics)
        except (OSError, OverflowError) as error:
            raise UsageError(
                "cannot listen",
                where=f"health probes at {host}:{port}",
                detail=str(error),
                hint="choose another SEXTON_HEALTH_PORT",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="health", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering and give the port back."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def disown(self) -> None:
        """In a forked child, which inherited the socket: leave the port to the parent alone."""
        self._server.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], checks: Mapping[str, Check], metrics: CollectorRegistry | None
    ) -> None:
        self.checks = checks
        self.metrics = metrics
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._heard: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hear it in a thread of its own, or close it where no other one gives way."""
        with self._lock:
            if len(self._heard) >= CONNECTIONS:
                self._end(next(iter(self._heard)))
        if not self._slots.acquire(timeout=_YIELD_SECONDS):
            self.shutdown_request(request)
            return
        with self._lock:
            self._heard[request] = time.monotonic() + REQUEST_SECONDS
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._over(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """All that is done about one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._over(request)

    def service_actions(self) -> None:
        """Every _POLL_SECONDS, and after each connection: end those whose time is over."""
        now = time.monotonic()
        with self._lock:
            for request in [each for each, deadline in self._heard.items() if deadline <= now]:
                self._end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 — as socketserver calls it
        """A client that hangs up is no news, and neither is one that was hung up on."""
        if isinstance(sys.exception(), OSError):
            log.debug("%s hung up", client_address[0], extra={"action": "probe-broken-off"})
        else:
            log.exception("a probe failed", extra={"action": "probe-failed"})

    def _over(self, request: socket.socket) -> None:
        with self._lock:
            self._heard.pop(request, None)
        self._slots.release()

    def _end(self, request: socket.socket) -> None:
        """Wakes the thread that waits for the client. It closes the connection."""
        del self._heard[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == METRICS_PATH and self.server.metrics is not None:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, encode(self.server.metrics), content_type)
        elif (check := self.server.checks.get(path)) is None:
            self._say(HTTPStatus.NOT_FOUND, "not found")
        elif defects := check():
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(defects))
        else:
            self._say(HTTPStatus.OK, "ok")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a probe every few seconds is no news."""

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._answer(status, (text + "\n").encode(), "text/plain; charset=utf-8")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
