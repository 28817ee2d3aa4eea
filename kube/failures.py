"""From whatever the HTTP library and the network raise to `eno.errors`.

The class and its `reason` say all that is stable; addresses, ports and object ids of the libraries' messages
end up in the detail.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from urllib3 import exceptions as urllib3

from eno.errors import ApiError, BadResponse, Refused, TimedOut, Unreachable

VENDOR_ERRORS = (urllib3.HTTPError, urllib3.HTTPWarning, http.client.HTTPException, OSError, ValueError)
"""What a call through urllib3 can raise; HTTPWarning where Python turns warnings into errors."""

_HINT = "check that the API server is up and that its address, proxy and CA are right"

_TABLE: tuple[tuple[type[BaseException], type[ApiError], str], ...] = (
    # The first match counts, so subclasses stand before their bases: a NewConnectionError *is* a
    # ConnectTimeoutError for urllib3, although nothing timed out.
    (urllib3.NameResolutionError, Unreachable, "NameResolution"),
    (urllib3.NewConnectionError, Unreachable, "NoConnection"),
    (urllib3.TimeoutError, TimedOut, "Timeout"),
    (TimeoutError, TimedOut, "Timeout"),
    (urllib3.SSLError, Unreachable, "TLS"),
    (ssl.SSLError, Unreachable, "TLS"),
    (urllib3.ProxyError, Unreachable, "Proxy"),
    (urllib3.IncompleteRead, BadResponse, "Truncated"),
    (urllib3.InvalidChunkLength, BadResponse, "Truncated"),
    (http.client.IncompleteRead, BadResponse, "Truncated"),
    (urllib3.ResponseNotChunked, BadResponse, "BadHTTP"),
    (urllib3.BodyNotHttplibCompatible, BadResponse, "BadHTTP"),
    (urllib3.DecodeError, BadResponse, "BadEncoding"),
    (urllib3.InvalidHeader, BadResponse, "BadHTTP"),
    (urllib3.HeaderParsingError, BadResponse, "BadHTTP"),
    (urllib3.ResponseError, BadResponse, "BadHTTP"),
    (http.client.RemoteDisconnected, Unreachable, "Broken"),
    (http.client.HTTPException, BadResponse, "BadHTTP"),
    (urllib3.LocationValueError, Refused, "BadURL"),
    (urllib3.ProxySchemeUnsupported, Refused, "BadURL"),
    (ConnectionRefusedError, Unreachable, "NoConnection"),
    (socket.gaierror, Unreachable, "NameResolution"),
    (urllib3.ProtocolError, Unreachable, "Broken"),
    (OSError, Unreachable, "Broken"),
    (ValueError, Refused, "BadRequest"),
)


def error_from(operation: str, error: BaseException) -> ApiError:
    """The ApiError for an error of the HTTP library, the network or TLS. The caller chains it."""
    kind, reason = _classify(error)
    text = _text(error)
    hint = _HINT if issubclass(kind, Unreachable) else ""
    if "wrong version number" in text.lower().replace("_", " "):
        hint = "does it speak https? its address may have to begin with http://"
    return kind(operation, reason=reason, message=text, hint=hint)


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Raise errors of the HTTP library, the network and TLS as ApiErrors, chained."""
    try:
        yield
    except VENDOR_ERRORS as error:
        raise error_from(operation, error) from error


def is_stale_connection(error: ApiError) -> bool:
    """Whether the connection was gone before a byte of the answer came.

    That is what a kept-alive connection looks like that the server closed in the meantime.
    """
    vendor = error.__cause__
    inner = _inner(vendor) if vendor else None
    return isinstance(inner, ConnectionResetError | BrokenPipeError | ConnectionAbortedError)


def _classify(error: BaseException) -> tuple[type[ApiError], str]:
    inner = _inner(error)
    if inner is not None:
        return _classify(inner)
    for vendor, kind, reason in _TABLE:
        if isinstance(error, vendor):
            return kind, reason
    return Unreachable, "Failed"


def _inner(error: BaseException) -> BaseException | None:
    """The error that urllib3 wrapped, where the wrapper says less."""
    if isinstance(error, urllib3.MaxRetryError):
        return error.reason
    if isinstance(error, urllib3.ProtocolError) and error.args:
        return error.args[-1] if isinstance(error.args[-1], BaseException) else None
    return None


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
