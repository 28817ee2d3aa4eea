"""What can go wrong with one call, by the names that plans use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eno.errors import (
    ApiError,
    Conflict,
    Expired,
    Invalid,
    NotServed,
    ServerError,
    Throttled,
    TimedOut,
    Unreachable,
)
from tests.simulation.wire import Call


class Crash(BaseException):
    """The process is gone. Nothing may catch it. `again`: its message is delivered once more."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


CRASHES = ("before+again", "before+gone", "lost", "after+again", "after+gone")
"""Of a write: crash before it is sent, applied but the reply is lost, crash right after. The message is delivered
again, or is gone with its worker."""

REPLIES: Mapping[str, Callable[[str], ApiError]] = {
    "404": lambda what: NotServed(what, status=404, reason="NotFound"),
    "409": lambda what: Conflict(what, status=409, reason="Conflict"),
    "410": lambda what: Expired(what, status=410, reason="Expired"),
    "422-schema": lambda what: Invalid(what, status=422, reason="Invalid"),
    "429": lambda what: Throttled(what, status=429, reason="TooManyRequests", retry_after=7.0),
    "500": lambda what: ServerError(what, status=500, reason="InternalError"),
    "503": lambda what: ServerError(what, status=503, reason="ServiceUnavailable"),
    "timeout": TimedOut,
    "reset": Unreachable,
}
"""Errors that come instead of carrying the call out."""

APPLIED: Mapping[str, Callable[[str], ApiError]] = {"timeout-applied": TimedOut, "reset-applied": Unreachable}
"""Errors of the connection that come after a write was carried out."""

TOUCH = "422-test"
"""Somebody else changes the object first, so that the server itself refuses the patch or the precondition."""

CUT: Mapping[str, Callable[[str], ApiError]] = {
    "cut-410": lambda what: Expired(what, status=410, reason="Expired"),
    "cut-reset": Unreachable,
}
"""A list of which the first half arrives, and this instead of the rest."""

TOUCHED = "eno.azure.io/touched"
"""The annotation that a touch leaves. It does not count in what a run has come to."""


def possible(call: Call) -> list[str]:
    """Every error that this call can meet."""
    names = list(REPLIES)
    if call.writes:
        names += APPLIED
        if call.verb in ("patch", "delete"):
            names.append(TOUCH)
    if call.verb == "list" and not call.continued:
        names += CUT
    return names
