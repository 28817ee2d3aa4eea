"""The two API servers a command talks to, from the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from importlib.metadata import version

from kube.config import Connection
from kube.http import HttpCluster, Timeouts
from kube.limits import RateLimits
from runtime.settings import Settings
from workers.context import Context
from workers.process import load_connections

USER_AGENT = f"sexton-console/{version('sexton')}"


def utc_now() -> datetime:
    """The clock of everything a person starts."""
    return datetime.now(UTC)


def connect(connection: Connection, settings: Settings) -> HttpCluster:
    """The API server behind a connection, asked no faster than the settings allow."""
    limits = RateLimits(settings.requests_per_second, settings.burst, settings.slice_writes_per_second)
    return HttpCluster(connection, user_agent=USER_AGENT, limits=limits)


def waiting(settings: Settings) -> Callable[[float], AbstractContextManager[HttpCluster]]:
    """Connects to the upstream API server for a command that follows it: a silent one is noticed soon.

    What is returned takes the seconds that are left, beyond which no answer is waited for. Raises UsageError.
    """
    connection, _ = load_connections(settings)

    def connect(patience: float) -> AbstractContextManager[HttpCluster]:
        timeouts = Timeouts(connect=min(5.0, patience), read=min(10.0, patience), watch_grace=1.0)
        return closing(HttpCluster(connection, user_agent=USER_AGENT, timeouts=timeouts))

    return connect


def context(settings: Settings) -> Context:
    """Both clusters as a worker with these settings would see them. Raises UsageError."""
    first, second = load_connections(settings)
    upstream = connect(first, settings)
    downstream = upstream if second is None else connect(second, settings)
    return Context(upstream, downstream, utc_now, settings)
