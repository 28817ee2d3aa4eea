"""One error tree for everything Sexton raises.

Two questions decide what happens to an error: *may the same call succeed later?* (`Retryable` or `Terminal`,
a type, never a flag) and *is it about the API server?* (`ApiError`). Whatever a library raises is translated
into this tree at the edge that called it, with the library's exception chained.

Every error is one line for a person: what went wrong, where, and what to do about it.
"""

from __future__ import annotations

from eno.characters import visible


class SextonError(Exception):
    """Base class of all errors that Sexton raises on purpose.

    `what` and `where` hold nothing that varies between attempts (no ports, object ids or times), because
    they are published in statuses, where a repeated error must not be a new write. `detail` may vary: it is
    shown to people and logs only.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "", detail: str = "") -> None:
        super().__init__(what, where, hint, detail)
        self.what = what
        self.where = where
        self.hint = hint
        self.detail = detail

    @property
    def summary(self) -> str:
        """What and where, stable across attempts."""
        return f"{self.where}: {self.what}" if self.where else self.what

    def __str__(self) -> str:
        line = self.summary
        if self.detail:
            line += f" ({self.detail})"
        if self.hint:
            line += f"; {self.hint}"
        return visible(" ".join(line.split()))


class Retryable(SextonError):
    """Raised when the same task may succeed later without anybody changing it.

    `retry_after` is the pause in seconds that the other side asked for, or None.
    """

    exit_code = 75

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        detail: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(what, where=where, hint=hint, detail=detail)
        self.retry_after = retry_after


class Terminal(SextonError):
    """Raised when trying again changes nothing until a person, or the object itself, changes something."""


class UsageError(Terminal):
    """Raised when a person's input is refused: an argument, a file, a setting."""

    exit_code = 2


class BrokerUnavailable(Retryable):
    """Raised when Redis cannot be reached or does not answer in time."""

    exit_code = 69


class ConfigurationMismatch(Retryable):
    """Raised when a message was made for another scope or other switches than this worker's.

    A rolling change of settings causes it for a while, so the key comes back until both sides agree.
    """


class MalformedManifest(Retryable):
    """Raised when a manifest in a slice cannot be read. Retryable: the slice may be replaced."""


class MalformedObject(Terminal):
    """Raised when an API object does not have the shape its definition promises."""


class IncompleteSynthesis(Retryable):
    """Raised when a synthesis cannot be read whole: a reference without a name, a terminating slice."""


class PlanRejected(Retryable):
    """Raised when tombstones cannot be packed, before anything is written."""


class InventoryTooLarge(Terminal):
    """Raised when one inventory entry does not fit a Secret, before anything is written."""


class InvalidInventory(Terminal):
    """Raised when stored history cannot be trusted. Names the Secret and the defect."""


class StartOver(Retryable):
    """Raised when what a decision was made from has changed under the task, so it has to be made anew."""


class MissingCapability(Terminal):
    """Raised when the API server dropped a field that Sexton depends on (an older CRD)."""


class ApiError(SextonError):
    """Base class of everything that can go wrong with a call to an API server.

    `status` is the HTTP status (0 when there was none), `reason` the machine-readable reason of the Status
    object. The server's message is `detail`, since servers put varying things into it.
    """

    def __init__(
        self,
        operation: str,
        *,
        status: int = 0,
        reason: str = "",
        message: str = "",
        hint: str = "",
        retry_after: float | None = None,
    ) -> None:
        what = " ".join(part for part in (str(status) if status else "", reason) if part) or "failed"
        SextonError.__init__(self, what, where=operation, hint=hint, detail=message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(ApiError, Retryable):
    """Raised on a 404 that names the object, or its namespace: it does not exist."""


class NotServed(ApiError, Retryable):
    """Raised on any other 404: the kind is not served, or something in between does not know the path.

    It says nothing of the object, and so is never taken for its absence.
    """


class Conflict(ApiError, Retryable):
    """Raised on 409 with a stale resourceVersion or an unmet precondition."""


class AlreadyExists(ApiError, Retryable):
    """Raised on 409 when the name to be created is taken."""


class Expired(ApiError, Retryable):
    """Raised on 410: a resourceVersion or continue token is too old. The list starts over."""


class Unauthorized(ApiError, Retryable):
    """Raised on 401, after the token was read anew once."""

    exit_code = 77


class Forbidden(ApiError, Retryable):
    """Raised on 403. Retryable: permissions can be granted while we wait."""

    exit_code = 77


class NamespaceTerminating(ApiError, Terminal):
    """Raised on 403 when something is to be created in a namespace that is being deleted."""


class Throttled(ApiError, Retryable):
    """Raised on 429, and on any answer that carries `Retry-After`."""


class ServerError(ApiError, Retryable):
    """Raised on 5xx, 408, and statuses that the API conventions do not name."""


class Unreachable(ApiError, Retryable):
    """Raised when there was no complete answer: refused, reset, cut off, name or TLS failure."""

    exit_code = 69


class TimedOut(Unreachable):
    """Raised when no answer came in time. The request may or may not have been carried out."""


class Refused(ApiError, Terminal):
    """Raised on 400, 405, 406, 413 and 415: the request itself is wrong and stays wrong."""


class Invalid(ApiError, Terminal):
    """Raised on 422. Either a JSON-Patch `test` failed or the schema refused the object: read again to know."""


class BadResponse(ApiError, Retryable):
    """Raised when a success was answered with something that is not the promised JSON."""
