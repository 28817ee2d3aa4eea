"""`Cluster` over HTTP: sends the requests of `kube.requests` and believes only what `kube.replies` lets pass.

It speaks to urllib3 directly instead of through the official client's API classes: bodies stay raw JSON (no
field is lost in a model), content types are exactly those that were asked for, and there are no thread pools.

Create one per process, after a fork: a connection shared with a parent process mixes up answers.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import urllib3
from urllib3.util import make_headers, parse_url

from eno.errors import ApiError, BadResponse, Unauthorized, Unreachable, UsageError
from kube import replies, requests
from kube.cluster import PAGE_SIZE, Json, JsonPatch, Page, Query, WatchEvent
from kube.config import Connection
from kube.failures import VENDOR_ERRORS, error_from, is_stale_connection, translated
from kube.limits import RateLimits, TokenBucket
from kube.requests import Request
from kube.resources import RESOURCE_SLICES, Resource
from kube.statuses import error_from_status
from kube.streams import events

CONNECTIONS = 10
"""Idle connections that are kept: more than a process has threads."""

READERS = 4
"""Objects that are read at once. Fewer than so many are read sooner than threads are started."""

Observe: TypeAlias = Callable[[str, str, int | None, float], None]
"""Is told of a request: verb, plural of the resource, status (None: no answer), seconds until the answer's head.

A request that is sent again is told of again; waiting for a rate limit does not count.
"""

_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `read` is the longest silence within an answer; a watch may be silent for its own
    `timeoutSeconds` plus `watch_grace`."""

    connect: float = 5.0
    read: float = 30.0
    watch_grace: float = 10.0


@dataclass(frozen=True, slots=True)
class _Reply:
    body: bytes
    date: datetime | None


class HttpCluster:
    """One API server over HTTP. May be shared by threads.

    What is sent again, and when:
    - any request once after a 401, with credentials read anew: a refused request was not carried out;
    - a GET once when a kept-alive connection turned out to be closed before a byte of the answer came;
    - a write never otherwise: without an answer nobody knows whether it was carried out.

    `observe` is told of each request that was sent. `clock` (monotonic seconds) and `sleep` serve the rate limits.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        timeouts: Timeouts | None = None,
        limits: RateLimits | None = None,
        observe: Observe | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        limits = limits or RateLimits()
        self._connection = connection
        self._pool = _pool(connection)
        self._user_agent = user_agent
        self._timeouts = timeouts or Timeouts()
        self._observe = observe or (lambda *_: None)
        self._clock = clock
        self._calls = TokenBucket(limits.requests_per_second, limits.burst, clock=clock, sleep=sleep)
        self._slice_writes = TokenBucket(limits.slice_writes_per_second, 1, clock=clock, sleep=sleep)
        self._lock = threading.Lock()
        self._watches: set[urllib3.BaseHTTPResponse] = set()

    @property
    def server(self) -> str:
        """The server's URL, for people."""
        return self._connection.server

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        """See `Cluster.get`."""
        return self._object(requests.get(resource, namespace, name, metadata_only=metadata_only))

    def get_each(self, resource: Resource, namespace: str | None, names: Sequence[str]) -> Iterator[Json]:
        """See `kube.cluster.get_each`. Up to READERS at a time."""
        read = partial(self.get, resource, namespace)
        if len(names) < READERS:
            yield from map(read, names)
            return
        executor = ThreadPoolExecutor(READERS, "reader")
        try:
            yield from executor.map(read, names)
        finally:
            # Nobody waits for the others: a task that is interrupted, or has met an error, ends at once.
            executor.shutdown(wait=False, cancel_futures=True)

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        """See `Cluster.list_page`."""
        request = requests.list_page(query, limit=limit, continue_token=continue_token)
        reply = self._send(request)
        return replies.page_from(request, reply.body, reply.date)

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        """See `Cluster.create`."""
        return self._object(requests.create(resource, namespace, body))

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        """See `Cluster.update`."""
        return self._object(requests.update(resource, namespace, name, body, subresource=subresource))

    def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: JsonPatch,
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Json:
        """See `Cluster.json_patch`."""
        return self._object(
            requests.json_patch(resource, namespace, name, operations, subresource=subresource, strict=strict)
        )

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        """See `Cluster.merge_patch`."""
        return self._object(requests.merge_patch(resource, namespace, name, patch, subresource=subresource))

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """See `Cluster.delete`."""
        self._object(requests.delete(resource, namespace, name, uid=uid, resource_version=resource_version))

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        """See `Cluster.watch`. Nothing is sent before the first event is asked for."""
        request = requests.watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
        response = self._open(request, read_timeout=timeout_seconds + self._timeouts.watch_grace)
        with self._lock:
            self._watches.add(response)
        try:
            yield from events(request, _chunks(request, response))
        finally:
            with self._lock:
                self._watches.discard(response)
            response.close()  # not back to the pool: half of an answer may be left in it

    def close(self) -> None:
        """Drop every connection. Watches end with an error in the threads that read them."""
        with self._lock:
            watches = list(self._watches)
        for response in watches:
            with contextlib.suppress(ValueError, RuntimeError, OSError):  # it ended in the meantime
                response.shutdown()
        self._pool.clear()

    def _object(self, request: Request) -> Json:
        return replies.object_from(request, self._send(request).body)

    def _send(self, request: Request) -> _Reply:
        response = self._open(request, read_timeout=self._timeouts.read)
        with translated(request.operation):
            body = response.read()
        return _Reply(body, replies.date_from(response.headers.get("Date")))

    def _open(self, request: Request, *, read_timeout: float) -> urllib3.BaseHTTPResponse:
        """The 2xx answer to `request`, its body unread. Raises the ApiError of any other."""
        try:
            return self._attempt(request, read_timeout)
        except Unauthorized as error:
            self._reload(request, error)
            return self._attempt(request, read_timeout)
        except Unreachable as error:
            if request.method != "GET" or not is_stale_connection(error):
                raise
            return self._attempt(request, read_timeout)

    def _attempt(self, request: Request, read_timeout: float) -> urllib3.BaseHTTPResponse:
        headers = {**request.headers, "User-Agent": self._user_agent, **self._authorization(request)}
        self._throttle(request)
        response = self._answered(request, headers, read_timeout)
        if 200 <= response.status < 300:
            return response
        raise _refusal(request, response)

    def _answered(self, request: Request, headers: Mapping[str, str], read_timeout: float) -> urllib3.BaseHTTPResponse:
        started, status = self._clock(), None
        try:
            with translated(request.operation):
                response = self._pool.request(
                    request.method,
                    self._connection.server + request.target,
                    body=request.body,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=self._timeouts.connect, read=read_timeout),
                    retries=False,  # and with that no redirects either
                    preload_content=False,
                )
            status = response.status
            return response
        finally:
            self._observe(request.verb, request.resource.plural, status, self._clock() - started)

    def _throttle(self, request: Request) -> None:
        if request.resource == RESOURCE_SLICES and request.method != "GET":
            self._slice_writes.acquire()
        self._calls.acquire()

    def _authorization(self, request: Request) -> dict[str, str]:
        try:
            value = self._connection.authorization()
        except UsageError as error:
            raise _no_credentials(request, error) from error
        return {"Authorization": value} if value else {}

    def _reload(self, request: Request, refused: Unauthorized) -> None:
        """Read the credentials anew: a token may have been rotated, a client certificate renewed."""
        if self._connection.reload is None:
            raise refused
        try:
            connection = self._connection.reload()
        except UsageError as error:
            raise _no_credentials(request, error) from error
        with self._lock:
            self._connection, self._pool = connection, _pool(connection)


def _pool(connection: Connection) -> urllib3.PoolManager:
    settings: dict[str, Any] = {"maxsize": CONNECTIONS}
    if connection.tls is not None:
        settings["ssl_context"] = connection.tls
    if connection.tls_server_name:
        settings["server_hostname"] = connection.tls_server_name
    if not connection.proxy:
        return urllib3.PoolManager(**settings)
    credentials = parse_url(connection.proxy).auth
    headers = make_headers(proxy_basic_auth=credentials) if credentials else None
    return urllib3.ProxyManager(connection.proxy, proxy_headers=headers, **settings)


def _chunks(request: Request, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The body as it comes in. A stream has no length, so one that is cut short is a broken connection."""
    try:
        while chunk := response.read1(_CHUNK):
            yield chunk
    except VENDOR_ERRORS as error:
        failure = error_from(request.operation, error)
        if isinstance(failure, BadResponse):
            failure = Unreachable(request.operation, reason="Broken", message=failure.detail)
        raise failure from error


def _refusal(request: Request, response: urllib3.BaseHTTPResponse) -> ApiError:
    """The error for an answer that is not 2xx. Its body may be cut off: the status alone says enough."""
    try:
        body = response.read()
    except VENDOR_ERRORS:
        body = b""
    if 300 <= response.status < 400:
        return BadResponse(
            request.operation,
            status=response.status,
            reason="Redirect",
            message=f"to {response.headers.get('Location', 'nowhere')}",
            hint="give the API server's own address: redirects are not followed",
        )
    now = replies.date_from(response.headers.get("Date")) or datetime.now(UTC)
    retry_after = replies.retry_after_from(response.headers.get("Retry-After"), now)
    return error_from_status(request.operation, response.status, body, retry_after=retry_after)


def _no_credentials(request: Request, error: UsageError) -> Unauthorized:
    return Unauthorized(request.operation, reason="NoCredentials", message=str(error))
