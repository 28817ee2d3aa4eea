"""What can become of a request on its way through `tests.support.proxy`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, Protocol

from kube.cluster import Json

if TYPE_CHECKING:
    from tests.support.proxy import Exchange

PATIENCE = 60.0
"""Seconds that anything may take before the proxy gives up."""

_VERSION = re.compile(rb'("resourceVersion":\s*)"(\d+)"')


class Fault(Protocol):
    """What becomes of a request."""

    def play(self, exchange: Exchange) -> None:
        """Answer it, or do not."""
        ...


@dataclass(frozen=True)
class Pass:
    """Nothing out of the ordinary."""

    def play(self, exchange: Exchange) -> None:
        exchange.relay(exchange.forward())


@dataclass(frozen=True)
class Delay:
    """Carried out only after `seconds`."""

    seconds: float

    def play(self, exchange: Exchange) -> None:
        exchange.pause(self.seconds)
        exchange.relay(exchange.forward())


@dataclass(frozen=True)
class Answer:
    """Answered by the proxy; the server never hears of it."""

    status: int
    body: Json | bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def play(self, exchange: Exchange) -> None:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        exchange.reply(self.status, {"content-type": "application/json"} | dict(self.headers), body)


@dataclass(frozen=True)
class Drop:
    """The connection breaks before an answer; `carried_out` says whether the server did what was asked."""

    carried_out: bool = False

    def play(self, exchange: Exchange) -> None:
        if self.carried_out:
            exchange.forward().read()
        exchange.hang_up()


@dataclass(frozen=True)
class Hang:
    """Carried out or not, there is never an answer, and the connection stays open."""

    carried_out: bool = False

    def play(self, exchange: Exchange) -> None:
        if self.carried_out:
            exchange.forward().read()
        exchange.pause(PATIENCE)
        exchange.hang_up()


@dataclass(frozen=True)
class Silence:
    """A stream that says nothing more after so many lines, and does not end."""

    after: int = 0

    def play(self, exchange: Exchange) -> None:
        exchange.relay(exchange.forward(), lines=self.after)
        exchange.pause(PATIENCE)
        exchange.hang_up()


@dataclass(frozen=True)
class Cut:
    """A stream that breaks after so many lines, inside the next one where `half` is given."""

    after: int = 0
    half: bytes = b""

    def play(self, exchange: Exchange) -> None:
        exchange.relay(exchange.forward(), lines=self.after)
        exchange.send(self.half)
        exchange.hang_up()


@dataclass(frozen=True)
class Insert:
    """A stream that tells one more thing after so many lines, and ends in good order unless it `goes_on`."""

    event: Json
    after: int = 0
    goes_on: bool = False

    def play(self, exchange: Exchange) -> None:
        response = exchange.forward()
        exchange.relay(response, lines=self.after)
        exchange.send(json.dumps(self.event).encode() + b"\n")
        if self.goes_on:
            exchange.pass_on(response)
        else:
            exchange.end()


@dataclass(frozen=True)
class End:
    """A stream that ends in good order after so many lines, before its time."""

    after: int = 0

    def play(self, exchange: Exchange) -> None:
        exchange.relay(exchange.forward(), lines=self.after)
        exchange.end()


@dataclass(frozen=True)
class Split:
    """A stream in chunks of so many bytes, which end inside of events and of UTF-8 sequences."""

    size: int = 1

    def play(self, exchange: Exchange) -> None:
        response = exchange.forward()
        exchange.begin(response)
        while line := response.readline():
            for start in range(0, len(line), self.size):
                exchange.send(line[start : start + self.size])
        exchange.end()


@dataclass(frozen=True)
class Truncate:
    """An answer of which only the first half comes, although all of it was announced."""

    def play(self, exchange: Exchange) -> None:
        response = exchange.forward()
        body = response.read()
        exchange.reply(response.status, dict(response.getheaders()), body[: len(body) // 2], length=len(body))
        exchange.hang_up()


@dataclass(frozen=True)
class Paged:
    """A list in pages of so many objects, whatever the client asked for."""

    limit: int = 1

    def play(self, exchange: Exchange) -> None:
        exchange.target = re.sub(r"\blimit=\d+", f"limit={self.limit}", exchange.target)
        exchange.relay(exchange.forward())


@dataclass(frozen=True)
class Ahead:
    """Reads from a server whose versions are higher by so much.

    When the rule ends, versions go backwards, as after the restore of an older backup.
    """

    by: int

    def play(self, exchange: Exchange) -> None:
        exchange.target = re.sub(r"\bresourceVersion=(\d+)", self._behind, exchange.target)
        response = exchange.forward()
        if response.length is not None:
            exchange.reply(response.status, dict(response.getheaders()), self._raised(response.read()))
            return
        exchange.begin(response)
        while line := response.readline():
            exchange.send(self._raised(line))
        exchange.end()

    def _behind(self, version: re.Match[str]) -> str:
        return f"resourceVersion={int(version[1]) - self.by}"

    def _raised(self, body: bytes) -> bytes:
        return _VERSION.sub(lambda found: b'%b"%d"' % (found[1], int(found[2]) + self.by), body)


@dataclass
class Stale:
    """The same answer for ever: the first one to each target, as from a cache that stopped following."""

    answers: dict[str, tuple[int, Mapping[str, str], bytes]] = field(default_factory=dict)

    def play(self, exchange: Exchange) -> None:
        if exchange.target not in self.answers:
            response = exchange.forward()
            self.answers[exchange.target] = response.status, dict(response.getheaders()), response.read()
        exchange.reply(*self.answers[exchange.target])


def status(code: int, reason: str, message: str = "", **details: Any) -> Json:
    """A Status object that says what went wrong."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return body | {"message": message, "reason": reason, "code": code} | ({"details": details} if details else {})


def throttled(seconds: int) -> Answer:
    """429 with `Retry-After`, as from API priority and fairness."""
    body = status(429, "TooManyRequests", "too many requests, please try again later", retryAfterSeconds=seconds)
    return Answer(429, body, {"retry-after": str(seconds)})


def throttled_until(instant: datetime) -> Answer:
    """429 with a date in `Retry-After`, as from a proxy that knows nothing of Status objects."""
    return Answer(429, b"<html>", {"retry-after": format_datetime(instant, usegmt=True)})


def unavailable(code: int = 500) -> Answer:
    """An error of the server's own."""
    return Answer(code, status(code, "InternalError", "etcdserver: request timed out"))


def expired() -> Answer:
    """410 as the status of the answer: an old continue token, or a watch from an old version."""
    return Answer(410, status(410, "Expired", "too old resource version: 1 (2)"))


def expired_in_stream(after: int = 0) -> Insert:
    """410 as an ERROR line of a watch that was answered with 200."""
    return Insert({"type": "ERROR", "object": status(410, "Expired", "too old resource version: 1 (2)")}, after)
