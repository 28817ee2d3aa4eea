"""The two API servers a command talks to, from the settings."""

from __future__ import annotations

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


def waiting(settings: Settings) -> HttpCluster:
    """The upstream API server for a command that follows it: a silent one is noticed soon. Raises UsageError."""
    connection, _ = load_connections(settings)
    return HttpCluster(connection, user_agent=USER_AGENT, timeouts=Timeouts(connect=5.0, read=10.0, watch_grace=2.0))


def context(settings: Settings) -> Context:
    """Both clusters as a worker with these settings would see them. Raises UsageError."""
    first, second = load_connections(settings)
    upstream = connect(first, settings)
    downstream = upstream if second is None else connect(second, settings)
    return Context(upstream, downstream, utc_now, settings)
