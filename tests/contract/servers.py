"""The servers that are held against each other, each reachable as a `Cluster` and by plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import urllib3

from devcluster.answers import Answer, Stream, answer, error_line
from devcluster.direct import DirectCluster
from devcluster.requests import Request, parse_target
from devcluster.server import Server as StoreServer
from devcluster.statuses import Refusal
from devcluster.store import Store
from kube.cluster import Cluster, Json
from kube.config import Connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.contract.kinds import definitions
from tests.contract.plain import Ask, Exchange, PlainCluster, Reply
from tests.support.waiting import until

Name: TypeAlias = Literal["in-process", "http", "kube-apiserver"]

NAMES: tuple[Name, ...] = ("in-process", "http", "kube-apiserver")

UNHURRIED = RateLimits(100_000, 100_000, 100_000)

_PATIENCE = 30.0
"""Seconds that an answer may take."""


@dataclass(frozen=True)
class Server:
    """A server under test.

    `cluster` is how Sexton reaches it, `exchange` sends anything. `store` is what lies behind, None for a real
    kube-apiserver. `connection` is None without HTTP. `compact` makes every version before now too old; None
    where nobody can ask for that, as on somebody else's cluster.
    """

    name: Name
    cluster: Cluster
    exchange: Exchange
    store: Store | None = None
    connection: Connection | None = None
    compact: Callable[[], None] | None = None

    @property
    def plain(self) -> PlainCluster:
        """The cluster without translation of refusals."""
        return PlainCluster(self.exchange)

    @property
    def real(self) -> bool:
        """Whether this is a kube-apiserver."""
        return self.store is None

    def get(self, target: str) -> Reply:
        """The answer to a GET."""
        return self.exchange(Ask("GET", target))

    def install(self) -> list[str]:
        """Serve the kinds of this run, and return the names of their definitions once they are served."""
        installed = []
        for definition in definitions():
            self.plain.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
            installed.append(definition["metadata"]["name"])
        for definition in definitions():
            self._wait_for(definition["spec"])
        return installed

    def _wait_for(self, spec: Json) -> None:
        target = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
        until(lambda: self.get(target).code == 200, f"{spec['names']['plural']} are served")


def in_process(store: Store) -> Server:
    """The store itself: no sockets, no threads."""

    def exchange(ask: Ask) -> Reply:
        target, query = parse_target(ask.target)
        result = answer(store, Request(ask.method, target, query, ask.accept, ask.content_type, ask.body or b""))
        if isinstance(result, Answer):
            warnings = ", ".join(f"299 - {json.dumps(text)}" for text in result.warnings)
            return Reply(result.code, result.body, {"content-type": result.content_type, "warning": warnings})
        return Reply(200, b"".join(_lines(store, result)), {"content-type": "application/json"})

    return Server("in-process", DirectCluster(store), exchange, store, compact=store.history.compact)


@contextmanager
def over_http(store: Store) -> Iterator[Server]:
    """The store behind its HTTP server."""
    with StoreServer(store).running() as server, reached(Connection(server.url)) as (cluster, exchange):
        yield Server("http", cluster, exchange, store, Connection(server.url), store.history.compact)


@contextmanager
def kube_apiserver(connection: Connection, compact: Callable[[], None] | None = None) -> Iterator[Server]:
    """A running kube-apiserver."""
    with reached(connection) as (cluster, exchange):
        yield Server("kube-apiserver", cluster, exchange, None, connection, compact)


@contextmanager
def reached(connection: Connection) -> Iterator[tuple[HttpCluster, Exchange]]:
    """A server over HTTP, as Sexton speaks to it and plainly."""
    pool = urllib3.PoolManager(ssl_context=connection.tls) if connection.tls else urllib3.PoolManager()

    def exchange(ask: Ask) -> Reply:
        headers = {"Accept": ask.accept, "Content-Type": ask.content_type}
        if (authorization := connection.authorization()) is not None:
            headers["Authorization"] = authorization
        url, body = connection.server + ask.target, ask.body
        response = pool.request(ask.method, url, body=body, headers=headers, timeout=_PATIENCE, retries=False)
        return Reply(response.status, response.data, {key.lower(): value for key, value in response.headers.items()})

    with closing(HttpCluster(connection, user_agent="contract", limits=UNHURRIED)) as cluster:
        yield cluster, exchange
    pool.clear()


def as_bearer(connection: Connection, token: str) -> Connection:
    """The same server for whoever holds the token."""
    return replace(connection, authorization=lambda: f"Bearer {token}", reload=None)


def _lines(store: Store, stream: Stream) -> Iterator[bytes]:
    try:
        for event in stream.watch.poll():
            yield stream.line(store, event, "")
    except Refusal as refusal:
        yield error_line(refusal)
        return
    if stream.bookmarks:
        yield stream.bookmark(initial=stream.initial_bookmark)
