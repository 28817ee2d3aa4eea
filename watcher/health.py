"""`/healthz` and `/readyz`: whether the process makes progress, and whether it can do its work.

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

from eno.errors import UsageError

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the defects that there are now, one line each."""

_REQUEST_SECONDS = 5.0
_POLL_SECONDS = 0.1


class HealthServer:
    """Answers on `host:port` from construction until `close`; port 0 takes a free one. A context manager.

    Raises UsageError when the address cannot be had.
    """

    def __init__(self, host: str, port: int, checks: Mapping[str, Check]) -> None:
        try:
            self._server = _Server((host, port), checks)
        except (OSError, OverflowError) as error:
            raise UsageError(
                "cannot listen",
                where=f"health probes at {host}:{port}",
                detail=str(error),
                hint="choose another --health-port",
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], checks: Mapping[str, Check]) -> None:
        self.checks = checks
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        check = self.server.checks.get(self.path.partition("?")[0])
        if check is None:
            self._answer(HTTPStatus.NOT_FOUND, "not found")
        elif defects := check():
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(defects))
        else:
            self._answer(HTTPStatus.OK, "ok")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a probe every few seconds is no news."""

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = (text + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
