"""Every error class of the HTTP library is translated, including those that it does not have yet."""

from __future__ import annotations

import http.client
import inspect
import socket
import ssl
from typing import Any

import pytest
from urllib3 import exceptions as vendor
from urllib3.connectionpool import HTTPConnectionPool

from eno import errors
from kube.failures import VENDOR_ERRORS, error_from, is_stale_connection, translated

TITLE = "get secrets ns/a"
POOL: Any = HTTPConnectionPool("127.0.0.1", 54321)
SPECIAL: dict[type[BaseException], tuple[Any, ...]] = {
    vendor.MaxRetryError: (POOL, "/", vendor.NewConnectionError(POOL, "refused")),
    vendor.ReadTimeoutError: (POOL, "/", "read timed out"),
    vendor.NameResolutionError: ("host", POOL, socket.gaierror(-2, "unknown")),
    vendor.NewConnectionError: (POOL, "refused"),
    vendor.ProxyError: ("proxy", OSError("tunnel failed: 407")),
    vendor.HostChangedError: (POOL, "/"),
    vendor.RequestError: (POOL, "/", "x"),
    vendor.IncompleteRead: (3, 7),
    vendor.HeaderParsingError: ([], b"x"),
}


class Closed:
    """A response in the state in which urllib3 reports a bad chunk."""

    length_remaining = None

    def tell(self) -> int:
        return 3


def instance(kind: type[BaseException]) -> BaseException:
    if kind is vendor.InvalidChunkLength:
        return kind(Closed(), b"zz")
    if kind in SPECIAL:
        return kind(*SPECIAL[kind])
    return kind(POOL, "x") if issubclass(kind, vendor.PoolError) else kind("x")


def exception_classes(module: Any) -> list[type[BaseException]]:
    classes = inspect.getmembers(module, inspect.isclass)
    return [kind for name, kind in classes if issubclass(kind, Exception) and not name.startswith("_")]


VENDOR_CLASSES = [
    *exception_classes(vendor),
    *exception_classes(http.client),
    *exception_classes(ssl),
    *exception_classes(socket),
]


@pytest.mark.parametrize("kind", VENDOR_CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_every_class_of_the_vendor_is_translated_and_chained(kind: type[BaseException]) -> None:
    error = instance(kind)
    with pytest.raises(errors.ApiError) as caught, translated(TITLE):
        raise error
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, errors.Retryable | errors.Terminal)
    assert caught.value.where == TITLE
    assert "54321" not in caught.value.summary
    assert "0x" not in caught.value.summary


def test_the_enumeration_saw_the_vendors_classes() -> None:
    assert len(VENDOR_CLASSES) > 50
    assert vendor.ProtocolError in VENDOR_CLASSES


def protocol_error(inner: BaseException) -> BaseException:
    return vendor.ProtocolError("Connection aborted.", inner)


CLASSES: dict[str, tuple[BaseException, type[errors.ApiError], str]] = {
    "refused": (vendor.NewConnectionError(POOL, "x"), errors.Unreachable, "NoConnection"),
    "no such host": (instance(vendor.NameResolutionError), errors.Unreachable, "NameResolution"),
    "connect timeout": (vendor.ConnectTimeoutError("x"), errors.TimedOut, "Timeout"),
    "read timeout": (instance(vendor.ReadTimeoutError), errors.TimedOut, "Timeout"),
    "socket timeout": (TimeoutError("x"), errors.TimedOut, "Timeout"),
    "wrapped timeout": (protocol_error(TimeoutError("x")), errors.TimedOut, "Timeout"),
    "reset": (protocol_error(ConnectionResetError(104, "reset")), errors.Unreachable, "Broken"),
    "closed before an answer": (
        protocol_error(http.client.RemoteDisconnected("x")),
        errors.Unreachable,
        "Broken",
    ),
    "certificate": (vendor.SSLError("CERTIFICATE_VERIFY_FAILED"), errors.Unreachable, "TLS"),
    "proxy": (instance(vendor.ProxyError), errors.Unreachable, "Proxy"),
    "body cut off": (protocol_error(vendor.IncompleteRead(3, 7)), errors.BadResponse, "Truncated"),
    "chunk cut off": (protocol_error(http.client.IncompleteRead(b"")), errors.BadResponse, "Truncated"),
    "no HTTP": (protocol_error(http.client.BadStatusLine("SSH-2.0")), errors.BadResponse, "BadHTTP"),
    "bad gzip": (vendor.DecodeError("x"), errors.BadResponse, "BadEncoding"),
    "bad URL": (vendor.LocationParseError("x"), errors.Refused, "BadURL"),
    "retries used up": (instance(vendor.MaxRetryError), errors.Unreachable, "NoConnection"),
    "a bad header value": (ValueError("Invalid header value"), errors.Refused, "BadRequest"),
}


@pytest.mark.parametrize(("error", "kind", "reason"), CLASSES.values(), ids=CLASSES)
def test_what_went_wrong_decides_the_class(error: BaseException, kind: type[errors.ApiError], reason: str) -> None:
    got = error_from(TITLE, error)
    assert type(got) is kind
    assert got.summary == f"{TITLE}: {reason}"
    assert "\n" not in str(got)


def test_https_to_a_port_that_speaks_http_is_asked_about() -> None:
    wrong = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    assert "does it speak https?" in error_from(TITLE, vendor.SSLError(wrong)).hint
    assert "does it speak https?" not in error_from(TITLE, CLASSES["certificate"][0]).hint


def test_a_class_that_nobody_has_heard_of_is_retryable() -> None:
    class Novelty(vendor.HTTPError):
        pass

    assert isinstance(error_from(TITLE, Novelty("x")), errors.Unreachable)


@pytest.mark.parametrize("error", [errors.NotFound(TITLE), KeyError("x"), AssertionError("x")])
def test_what_is_not_the_vendors_passes_untouched(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, translated(TITLE):
        raise error
    assert caught.value is error


STALE = {
    "reset": (protocol_error(ConnectionResetError(104, "reset")), True),
    "closed before an answer": (protocol_error(http.client.RemoteDisconnected("x")), True),
    "broken pipe": (protocol_error(BrokenPipeError(32, "pipe")), True),
    "body cut off": (protocol_error(vendor.IncompleteRead(3, 7)), False),
    "refused": (vendor.NewConnectionError(POOL, "x"), False),
    "timeout": (instance(vendor.ReadTimeoutError), False),
}


@pytest.mark.parametrize(("error", "stale"), STALE.values(), ids=STALE)
def test_only_a_connection_that_was_gone_before_the_answer_is_stale(error: BaseException, stale: bool) -> None:
    with pytest.raises(errors.ApiError) as caught, translated(TITLE):
        raise error
    assert is_stale_connection(caught.value) is stale


def test_the_edge_catches_the_vendors_roots() -> None:
    uncaught = [kind for kind in exception_classes(vendor) if not issubclass(kind, VENDOR_ERRORS)]
    assert uncaught == []
