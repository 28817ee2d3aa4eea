"""A proxy for tests in front of any API server, which fails in chosen ways.

A client that speaks to `Proxy.url` speaks to the real server: answers, status codes and versions are its own.
Rules single requests out and say what becomes of them:

    with Proxy(connection) as proxy:
        proxy.rule(request("PATCH", r"/secrets/"), Drop(carried_out=True), times=1)
        proxy.rule(request(watch=True), Silence(after=2))

The latest rule that matches counts; `times` is how often it does before it is used up, `Rule.played` what it was
applied to. What matches none is passed on. Everything that came in is in `Proxy.seen`, in order. The proxy speaks
plain HTTP on 127.0.0.1 and adds the credentials of its connection, unless the client sends its own.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

from devcluster.kubeconfig import write_kubeconfig
from kube.config import Connection
from tests.support.faults import PATIENCE, Fault, Pass

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}


@dataclass(frozen=True)
class Seen:
    """A request as it came in, `at` monotonic seconds. `query` holds the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0

    @property
    def watch(self) -> bool:
        """Whether the answer is a stream."""
        return self.query.get("watch") in ("1", "true")

    @property
    def first_page(self) -> bool:
        """Whether a list begins with it, of more than one object."""
        return self.query.get("limit", "1") != "1" and "continue" not in self.query


Match: TypeAlias = Callable[[Seen], bool]


def request(method: str = "", path: str = "", *, watch: bool | None = None, **query: str) -> Match:
    """Requests with this method, a path that holds this regular expression, and these parameters."""

    def matches(seen: Seen) -> bool:
        return (
            method in ("", seen.method)
            and re.search(path, seen.path) is not None
            and watch in (None, seen.watch)
            and query.items() <= seen.query.items()
        )

    return matches


@dataclass
class Rule:
    """What becomes of the requests that match; `left` is how often it still will, None: always."""

    match: Match
    fault: Fault
    left: int | None
    played: list[Seen] = field(default_factory=list)


class Proxy:
    """Runs inside its `with` block, which closes every connection at its end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.seen: list[Seen] = []
        self.closing = threading.Event()
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._upstream: set[http.client.HTTPConnection] = set()
        self._http = _Listener(("127.0.0.1", 0), _Handler)
        self._http.proxy = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True, name="proxy")

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.end_streams()
        self._http.shutdown()
        self._http.close_clients()
        self._http.server_close()
        self._thread.join(PATIENCE)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads to the proxy, and return `path`."""
        write_kubeconfig(path, self.url)
        return path

    def rule(self, match: Match, fault: Fault, *, times: int | None = None) -> Rule:
        """From now on `fault` becomes of what matches; for ever, or so many times."""
        rule = Rule(match, fault, times)
        with self._lock:
            self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def end_streams(self) -> None:
        """End every stream that is being passed on, in good order and before its time."""
        with self._lock:
            for upstream in self._upstream:
                _shut(upstream.sock)

    def fault_for(self, seen: Seen) -> Fault:
        """What becomes of this request, which is remembered."""
        with self._lock:
            self.seen.append(seen)
            for rule in reversed(self._rules):
                if rule.left != 0 and rule.match(seen):
                    rule.left = rule.left if rule.left is None else rule.left - 1
                    rule.played.append(seen)
                    return rule.fault
        return Pass()

    @contextmanager
    def upstream(self) -> Iterator[http.client.HTTPConnection]:
        """A connection to the server, closed with the proxy at the latest."""
        parts = urlsplit(self.connection.server)
        host, port = parts.hostname or "", parts.port
        upstream = (
            http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=self.connection.tls)
            if self.connection.tls
            else http.client.HTTPConnection(host, port, timeout=PATIENCE)
        )
        with self._lock:
            self._upstream.add(upstream)
        try:
            yield upstream
        finally:
            with self._lock:
                self._upstream.discard(upstream)
            upstream.close()


class Exchange:
    """One request on its way: what a Fault can do about it."""

    def __init__(self, handler: _Handler, upstream: http.client.HTTPConnection, body: bytes) -> None:
        self.target = handler.path
        self._handler = handler
        self._upstream = upstream
        self._body = body

    def forward(self) -> http.client.HTTPResponse:
        """The server's answer, its body unread."""
        headers = {k: v for k, v in self._handler.headers.items() if k.lower() not in _HOP_BY_HOP}
        authorization = self._handler.server.proxy.connection.authorization()
        if authorization and "Authorization" not in headers:
            headers["Authorization"] = authorization
        self._upstream.request(self._handler.command, self.target, self._body or None, headers)
        return self._upstream.getresponse()

    def relay(self, response: http.client.HTTPResponse, *, lines: int | None = None) -> None:
        """Pass the answer on: whole, or of a stream only so many lines and without its end."""
        if response.length is not None and lines is None:
            self.reply(response.status, dict(response.getheaders()), response.read())
            return
        self.begin(response)
        self.pass_on(response, lines=lines)

    def begin(self, response: http.client.HTTPResponse) -> None:
        """Send the head of a stream."""
        self._handler.begin(response.status, dict(response.getheaders()), chunked=True)

    def pass_on(self, response: http.client.HTTPResponse, *, lines: int | None = None) -> None:
        """Send what comes of a stream: all of it and its end, or so many lines."""
        while lines is None or lines > 0:
            line = response.readline()
            if not line:
                self.end()
                return
            self.send(line)
            lines = lines if lines is None else lines - 1

    def reply(self, code: int, headers: Mapping[str, str], body: bytes, *, length: int | None = None) -> None:
        """Send a complete answer, or one that claims to be of another `length`."""
        self._handler.begin(code, headers, length=len(body) if length is None else length)
        self._handler.wfile.write(body)

    def send(self, part: bytes) -> None:
        """Send a part of a stream."""
        if part:
            self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self._handler.wfile.flush()

    def end(self) -> None:
        """End a stream in good order."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Close the connection to the client, whatever was sent."""
        self._handler.close_connection = True
        _shut(self._handler.connection)

    def pause(self, seconds: float) -> None:
        """Do nothing for so long, or until the proxy ends."""
        self._handler.server.proxy.closing.wait(seconds)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: Proxy

    def __init__(self, *arguments: Any) -> None:
        self._clients: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._clients.add(request)
        super().process_request(request, client_address)

    def close_clients(self) -> None:
        for client in list(self._clients):
            _shut(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client or a server that goes away is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle_request(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.fault_for(Seen(self.command, parts.path, query, time.monotonic()))
        with self.server.proxy.upstream() as upstream:
            fault.play(Exchange(self, upstream, body))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def begin(self, code: int, headers: Mapping[str, str], *, length: int = 0, chunked: bool = False) -> None:
        """Send the head of an answer."""
        self.send_response_only(code)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(length))))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """`Proxy.seen` says more."""


def _shut(connection: socket.socket | None) -> None:
    with suppress(OSError):
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)
