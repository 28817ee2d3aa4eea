"""An `HttpCluster` and the scripted server that it talks to."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Callable, Generator, Iterator
from typing import Any

from kube.cluster import Json, Query, WatchEvent
from kube.config import Connection
from kube.http import HttpCluster, Timeouts
from kube.resources import SECRETS
from tests.support.wire import Answer, Wire

FAST = Timeouts(connect=0.3, read=0.3, watch_grace=-0.7)
"""A watch of one second, the shortest that can be asked for, counts as silent after 0.3 seconds."""

QUERY = Query(SECRETS, "ns")


@contextlib.contextmanager
def cluster(connection: Connection, **changes: Any) -> Iterator[HttpCluster]:
    """A client that is closed in the end."""
    arguments: dict[str, Any] = {"user_agent": "sexton/test", "timeouts": FAST} | changes
    client = HttpCluster(connection, **arguments)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def talking(
    *answers: Answer,
    tls: ssl.SSLContext | None = None,
    connection: Callable[[str], Connection] = Connection,
    **changes: Any,
) -> Iterator[tuple[Wire, HttpCluster]]:
    """A scripted server and a client of it."""
    with Wire(*answers, tls=tls) as wire, cluster(connection(wire.url), **changes) as client:
        yield wire, client


def watch(client: HttpCluster, *, timeout_seconds: int = 1) -> Generator[WatchEvent]:
    """A watch of Secrets from version 10."""
    return client.watch(QUERY, resource_version="10", timeout_seconds=timeout_seconds)


def secret(name: str = "a", version: str = "7") -> Json:
    """A Secret as a server sends it."""
    return {"kind": "Secret", "metadata": {"name": name, "resourceVersion": version}}


def page(*items: Json, version: str = "10", token: str = "") -> Json:
    """A page of a list of Secrets."""
    metadata = {"resourceVersion": version, "continue": token}
    return {"kind": "SecretList", "metadata": metadata, "items": list(items)}


def line(type_: str, obj: Json) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"
