"""`/healthz`, `/readyz` and `/metrics`: whether a process makes progress, can do its work, and what it did.

A probe asks a function for what is wrong now and answers 200 with `ok`, or 503 with one defect a line. What
counts as a defect is the business of whoever starts the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from eno.errors import UsageError

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the defects that there are now, one line each."""

METRICS_PATH = "/metrics"

_REQUEST_SECONDS = 5.0
_POLL_SECONDS = 0.1


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

    def __init__(
        self, address: tuple[str, int], checks: Mapping[str, Check], metrics: CollectorRegistry | None
    ) -> None:
        self.checks = checks
        self.metrics = metrics
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_SECONDS

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
