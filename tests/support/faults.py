"""What can become of a request on its way through `tests.support.proxy`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kube.cluster import Json

if TYPE_CHECKING:
    from tests.support.proxy import Exchange

PATIENCE = 60.0
"""Seconds that anything may take before the proxy gives up."""


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
    """A stream that tells one more thing after so many lines, and ends in good order."""

    event: Json
    after: int = 0

    def play(self, exchange: Exchange) -> None:
        exchange.relay(exchange.forward(), lines=self.after)
        exchange.send(json.dumps(self.event).encode() + b"\n")
        exchange.end()


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


def expired() -> Answer:
    """410 as the status of the answer: an old continue token, or a watch from an old version."""
    return Answer(410, status(410, "Expired", "too old resource version: 1 (2)"))


def expired_in_stream(after: int = 0) -> Insert:
    """410 as an ERROR line of a watch that was answered with 200."""
    return Insert({"type": "ERROR", "object": status(410, "Expired", "too old resource version: 1 (2)")}, after)
