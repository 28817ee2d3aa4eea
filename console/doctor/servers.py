"""One API server as the doctor meets it: whether it answers, what it is, and whether it tells the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from console.clusters import USER_AGENT
from console.doctor.checks import Check, broken, failed, ok, skipped, warning
from eno.errors import ApiError, Forbidden, NotFound
from kube import replies
from kube.cluster import Json
from kube.config import Connection
from kube.http import HttpCluster, Timeouts
from kube.limits import RateLimits
from kube.requests import Request
from kube.resources import NAMESPACES, Resource

SKEW_SECONDS = 10.0
"""By how much clocks may differ. An answer takes its time, and its date is in whole seconds."""

_VERSION = Request("get version", "GET", "/version", Resource("", "", "version", "", namespaced=False))
_TIMEOUTS = Timeouts(connect=3.0, read=10.0)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What an API server says of itself: its version, and its clock (None: no Date header)."""

    version: str
    date: datetime | None


class Patient(HttpCluster):
    """An API server that is asked about itself."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, user_agent=USER_AGENT, timeouts=_TIMEOUTS, limits=RateLimits())

    def greet(self) -> Greeting:
        """Everybody may ask for this who can log in. Raises ApiError."""
        reply = self._send(_VERSION)
        body: Json = replies.object_from(_VERSION, reply.body)
        return Greeting(str(body.get("gitVersion") or "unknown"), reply.date)


def check_server(area: str, cluster: Patient, now: datetime) -> Iterator[Check]:
    """Whether it answers, and its clock. Raises ApiError when it does not answer."""
    greeting = cluster.greet()
    yield ok(area, "API server", f"{greeting.version} at {cluster.server}")
    yield _clock(area, greeting.date, now)


def check_namespace(area: str, cluster: Patient, namespace: str, what: str, kubectl: str = "kubectl") -> Check:
    """Whether a namespace is there and stays. `what` says what it is for, `kubectl` is the command that gets there."""
    name = f"namespace {namespace}"
    try:
        body = cluster.get(NAMESPACES, None, namespace)
    except NotFound:
        return failed(area, name, f"{what} does not exist", f"{kubectl} create namespace {quote(namespace)}")
    except Forbidden:
        return warning(area, name, f"{what}: this identity may not look", f"{kubectl} get namespace {quote(namespace)}")
    except ApiError as error:
        return broken(area, name, error)
    if body["metadata"].get("deletionTimestamp"):
        fix = f"{kubectl} get namespace {quote(namespace)} -o yaml   # what its conditions wait for"
        return failed(area, name, f"{what} is being deleted", fix)
    return ok(area, name, what)


def _clock(area: str, date: datetime | None, now: datetime) -> Check:
    if date is None:
        return skipped(area, "clock", "the server does not tell its time")
    skew = (now - date).total_seconds()
    if abs(skew) <= SKEW_SECONDS:
        return ok(area, "clock", "agrees with ours")
    direction = "ahead of" if skew > 0 else "behind"
    found = f"ours is {abs(skew):.0f} s {direction} the server's: ages and graces are judged wrongly"
    return failed(area, "clock", found, "timedatectl set-ntp true   # on this machine, or on the server's")
