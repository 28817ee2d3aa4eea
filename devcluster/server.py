"""HTTP around a store: one thread per connection, one lock around the store, watches as chunked streams."""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

from devcluster.answers import Answer, Stream, answer, error_line, refused
from devcluster.audit import Entry
from devcluster.garbage import sweep
from devcluster.requests import BODY_LIMIT, Request, parse_target
from devcluster.statuses import Refusal, bad_request, too_large
from devcluster.store import Store
from eno.times import format_time

GARBAGE_SECONDS = 0.2
"""Seconds between two passes of the garbage collector."""

_DRAIN_LIMIT = 16 * 1024 * 1024
_BOOKMARK_SECONDS = 10.0
_STREAM_SECONDS = 1800
_LOOK_SECONDS = 0.5


LOOPBACK = "127.0.0.1"


class Server:
    """A running API server. `port` 0 picks a free one; `url` says which, for clients on this machine.

    `audit` is told every finished request. Raises OSError when the port is taken.
    """

    def __init__(
        self, store: Store, *, host: str = LOOPBACK, port: int = 0, audit: Callable[[Entry], None] | None = None
    ) -> None:
        self.store = store
        self.audit = audit
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self._http = _HttpServer((host, port), _Handler)
        self._http.owner = self
        self._threads = [
            threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True, name="http"),
            threading.Thread(target=self._collect, daemon=True, name="garbage"),
        ]

    @property
    def url(self) -> str:
        address, port = str(self._http.server_address[0]), self._http.server_address[1]
        return f"http://{LOOPBACK if ip_address(address).is_unspecified else address}:{port}"

    def start(self) -> None:
        """Begin to answer; returns at once. Connections are accepted from construction on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all streams, answer what is under way, close the port. Idempotent."""
        if self.closing.is_set():
            return
        self.closing.set()
        with self.changed:
            self.changed.notify_all()
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def running(self) -> Iterator[Server]:
        """Started inside the block, stopped after it."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def answer(self, request: Request) -> Answer | Stream:
        """Carry one request out under the lock, and wake the watches when it changed something."""
        with self.changed:
            before = self.store.version
            result = answer(self.store, request)
            if self.store.version != before:
                self.changed.notify_all()
            return result

    def _collect(self) -> None:
        seen = -1
        while not self.closing.wait(GARBAGE_SECONDS):
            with self.changed:
                if self.store.version != seen:
                    if sweep(self.store):
                        self.changed.notify_all()
                    seen = self.store.version


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    owner: Server

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Wake the threads that wait for the next request of a kept connection."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RD)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the server's; everything else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _HttpServer

    def handle_request(self) -> None:
        owner = self.server.owner
        target, query = parse_target(self.path)
        self._sent = 0
        body, refusal = self._read_body()
        request = Request(
            method=self.command,
            target=target,
            query=query,
            accept=self.headers.get("Accept", ""),
            content_type=self.headers.get("Content-Type", ""),
            body=body,
            user_agent=self.headers.get("User-Agent", ""),
        )
        result = refused(refusal) if refusal else owner.answer(request)
        code = 200 if isinstance(result, Stream) else result.code
        try:
            if isinstance(result, Stream):
                self._stream(result, query.get("includeObject", ""))
            else:
                self._answer(result)
        except OSError:
            self.close_connection = True
        finally:
            if owner.audit is not None:
                owner.audit(_entry(owner.store, request, code, len(body), self._sent))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = handle_request

    def log_message(self, format: str, *args: Any) -> None:
        """The audit log says more."""

    def version_string(self) -> str:
        return "devcluster"

    def _read_body(self) -> tuple[bytes, Refusal | None]:
        try:
            return self._read_bounded()
        except ValueError:
            self.close_connection = True
            return b"", bad_request("the length of the request's body cannot be read")

    def _read_bounded(self) -> tuple[bytes, Refusal | None]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            chunks = b"".join(self._chunks())
        else:
            length = int(self.headers.get("Content-Length") or 0)
            if length > BODY_LIMIT:
                # Read what was sent, or the client sees a reset instead of the answer.
                self.rfile.read(min(length, _DRAIN_LIMIT))
                self.close_connection = True
                return b"", too_large(f"limit is {BODY_LIMIT}")
            chunks = self.rfile.read(length) if length else b""
        if len(chunks) > BODY_LIMIT:
            self.close_connection = True
            return b"", too_large(f"limit is {BODY_LIMIT}")
        return chunks, None

    def _chunks(self) -> Iterator[bytes]:
        received = 0
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            received += size
            yield self.rfile.read(size)
            if received > _DRAIN_LIMIT:
                return
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, result: Answer) -> None:
        self.send_response(result.code)
        self.send_header("Content-Type", result.content_type)
        self.send_header("Content-Length", str(len(result.body)))
        self.send_header("Cache-Control", "no-cache, private")
        for warning in result.warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            self.send_header("Warning", f'299 - "{escaped}"')
        if result.retry_after is not None:
            self.send_header("Retry-After", str(result.retry_after))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(result.body)
        self.wfile.flush()
        self._sent = len(result.body)

    def _stream(self, stream: Stream, include: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Cache-Control", "no-cache, private")
        self.end_headers()
        self.wfile.flush()
        for lines in self._lines(stream, include):
            if lines:
                self._sent += len(lines)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(lines), lines))
                self.wfile.flush()
            elif self._client_is_gone():
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _lines(self, stream: Stream, include: str) -> Iterator[bytes]:
        """What to send next; empty when there was nothing for a while."""
        owner = self.server.owner
        now = time.monotonic()
        end = now + (stream.timeout or _STREAM_SECONDS)
        next_bookmark = now + _BOOKMARK_SECONDS
        initial = stream.initial_bookmark
        while not owner.closing.is_set():
            with owner.changed:
                try:
                    events = list(stream.watch.poll())
                except Refusal as refusal:
                    yield error_line(refusal)
                    return
                if not events and not initial:
                    owner.changed.wait(_pause(now, min(end, next_bookmark)))
            yield b"".join(stream.line(owner.store, event, include) for event in events)
            now = time.monotonic()
            if stream.bookmarks and not stream.watch.ahead and (initial or now >= next_bookmark or now >= end):
                yield stream.bookmark(initial=initial)
                initial = False
                next_bookmark = now + _BOOKMARK_SECONDS
            if now >= end:
                return

    def _client_is_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""


def _pause(now: float, end: float) -> float:
    """Seconds to wait for changes: not past the end, and not so long that a gone client is not noticed."""
    return max(0.0, min(end - now, _LOOK_SECONDS))


def _entry(store: Store, request: Request, code: int, received: int, sent: int) -> Entry:
    target = request.target
    return Entry(
        time=format_time(store.clock()),
        userAgent=request.user_agent,
        verb=request.verb,
        group=target.group or "",
        resource=target.plural or target.rest,
        subresource=target.subresource,
        namespace=target.namespace or "",
        name=target.name,
        code=code,
        bytesIn=received,
        bytesOut=sent,
    )
