"""`HttpCluster` on the wire: what it sends, what it believes, what it sends again and what never.

Timeouts are the only thing these tests wait for, and they are tenths of seconds.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

import pytest
from urllib3 import exceptions as vendor

from eno import errors
from kube.cluster import Cluster, list_all
from kube.config import Connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from tests.support.talking import QUERY, cluster, line, page, secret, talking, watch
from tests.support.wire import TLS, Answer, Do, Wire, answer, chunked

DATE = "Wed, 01 May 2024 12:00:00 GMT"


def get(client: HttpCluster) -> Any:
    return client.get(SECRETS, "ns", "a")


def create(client: HttpCluster) -> Any:
    return client.create(SECRETS, "ns", secret())


def patch(client: HttpCluster) -> Any:
    return client.json_patch(SECRETS, "ns", "a", [{"op": "test", "path": "/a", "value": 1}])


CALLS: dict[str, Callable[[HttpCluster], Any]] = {
    "get": get,
    "list": lambda client: client.list_page(QUERY),
    "watch": lambda client: next(iter(watch(client))),
    "create": create,
    "update": lambda client: client.update(SECRETS, "ns", "a", secret()),
    "json patch": patch,
    "merge patch": lambda client: client.merge_patch(SECRETS, "ns", "a", {}),
    "delete": lambda client: client.delete(SECRETS, "ns", "a", uid="u"),
}
WRITES = {name: CALLS[name] for name in ("create", "update", "json patch", "merge patch", "delete")}


def test_it_is_a_cluster() -> None:
    with talking() as (_, client):
        typed: Cluster = client
        assert typed is client


# What is sent


SENT: dict[str, tuple[Callable[[HttpCluster], Any], str, str, str | None, Any]] = {
    "get": (get, "GET", "/api/v1/namespaces/ns/secrets/a", None, None),
    "create": (create, "POST", "/api/v1/namespaces/ns/secrets", "application/json", secret()),
    "json patch": (
        lambda client: client.json_patch(SECRETS, "ns", "a", [], subresource="status", strict=True),
        "PATCH",
        "/api/v1/namespaces/ns/secrets/a/status?fieldValidation=Strict",
        "application/json-patch+json",
        [],
    ),
    "merge patch": (
        lambda client: client.merge_patch(SECRETS, "ns", "a", {"x": None}),
        "PATCH",
        "/api/v1/namespaces/ns/secrets/a",
        "application/merge-patch+json",
        {"x": None},
    ),
    "update": (
        lambda client: client.update(SECRETS, "ns", "a", secret(), subresource="status"),
        "PUT",
        "/api/v1/namespaces/ns/secrets/a/status",
        "application/json",
        secret(),
    ),
    "delete": (
        lambda client: client.delete(SECRETS, "ns", "a", uid="u", resource_version="7"),
        "DELETE",
        "/api/v1/namespaces/ns/secrets/a",
        "application/json",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        },
    ),
    "a name with a colon": (
        lambda client: client.get(SECRETS, "ns", "system:a b"),
        "GET",
        "/api/v1/namespaces/ns/secrets/system%3Aa%20b",
        None,
        None,
    ),
}


@pytest.mark.parametrize(("call", "method", "target", "content_type", "body"), SENT.values(), ids=SENT)
def test_a_call_is_sent_as_exactly_this(
    call: Callable[[HttpCluster], Any], method: str, target: str, content_type: str | None, body: Any
) -> None:
    with talking(answer(secret())) as (wire, client):
        call(client)
    (sent,) = wire.calls
    assert (sent.method, sent.target) == (method, target)
    assert sent.headers.get("content-type") == content_type
    assert sent.headers["user-agent"] == "sexton/test"
    assert sent.headers["accept"] == "application/json"
    assert body is None or sent.json == body


def test_a_prefix_in_the_servers_url_is_kept() -> None:
    with talking(answer(secret()), connection=lambda url: Connection(f"{url}/clusters/c-1")) as (wire, client):
        get(client)
    assert wire.calls[0].target == "/clusters/c-1/api/v1/namespaces/ns/secrets/a"


def test_metadata_is_asked_for_and_whole_objects_are_refused() -> None:
    partial = {**secret(), "kind": "PartialObjectMetadata"}
    with talking(answer(partial), answer(secret())) as (wire, client):
        assert client.get(SECRETS, "ns", "a", metadata_only=True) == partial
        with pytest.raises(errors.BadResponse):
            client.get(SECRETS, "ns", "a", metadata_only=True)
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert [call.headers["accept"] for call in wire.calls] == [accept, accept]


def test_a_connection_is_kept_for_the_next_call() -> None:
    with talking(answer(secret()), answer(secret()), answer(page())) as (wire, client):
        get(client)
        create(client)
        client.list_page(QUERY)
    assert wire.connections == 1


def test_a_page_carries_the_servers_date() -> None:
    with talking(answer(page(), date=DATE), answer(page())) as (_, client):
        assert client.list_page(QUERY).date == datetime(2024, 5, 1, 12, tzinfo=UTC)
        assert client.list_page(QUERY).date is None


def test_a_list_of_pages_is_read_to_its_end() -> None:
    pages = [answer(page(secret("a"), token="t/1")), answer(page(secret("b")))]
    with talking(*pages) as (wire, client):
        listing = list_all(client, QUERY, page_size=1)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert [call.target.partition("?")[2] for call in wire.calls] == ["limit=1", "limit=1&continue=t%2F1"]


# What is believed


BAD_SUCCESSES: dict[str, Answer] = {
    "a login page": answer(b"<html>please log in", content_type="text/html"),
    "nothing": answer(b""),
    "another kind": answer({"kind": "Elsewhere"}),
    "a list of objects": answer([secret()]),
    "half of the JSON": answer(b'{"kind":"Secret","meta'),
    "a body shorter than promised": [
        b'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{"kind":"Secret"}',
        Do.CLOSE,
    ],
    "a content length that cuts the JSON": [b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"kind":"Secret"}'],
    "chunks without an end": [*chunked(b'{"kind":"Secret"}', end=False), Do.CLOSE],
    "a chunk cut off": [*chunked(end=False), b'ff\r\n{"kind', Do.CLOSE],
    "a chunk that is none": [*chunked(end=False), b"zz\r\n"],
    "bad gzip": answer(b"no gzip", content_encoding="gzip"),
    "another protocol": [b"SSH-2.0-OpenSSH\r\n", Do.CLOSE],
    "a redirect": answer(status=302, location="http://127.0.0.1:1/"),
    "a permanent redirect": answer(status=308, location="/elsewhere"),
    "not modified": answer(b"", status=304),
}


BELIEVED = {
    ("delete", "another kind"),  # a deletion is answered with the object or a Status
    ("watch", "nothing"),  # a watch may end before its first event
}


@pytest.mark.parametrize(
    ("call", "bad"),
    [(call, bad) for call in CALLS for bad in BAD_SUCCESSES if (call, bad) not in BELIEVED],
)
def test_a_success_that_is_none_is_never_believed(call: str, bad: str) -> None:
    with talking(BAD_SUCCESSES[bad]) as (wire, client):
        with pytest.raises((errors.BadResponse, errors.Unreachable)) as caught:
            CALLS[call](client)
        assert isinstance(caught.value, errors.Retryable)
    assert len(wire.calls) == 1


TRUNCATED = [name for name in BAD_SUCCESSES if "cut" in name or "shorter" in name or "without an end" in name]


@pytest.mark.parametrize("name", TRUNCATED)
def test_a_cut_off_success_is_a_bad_response(name: str) -> None:
    with talking(BAD_SUCCESSES[name]) as (_, client), pytest.raises(errors.BadResponse):
        get(client)


def test_a_redirect_is_not_followed_and_named() -> None:
    with talking(answer(status=301, location="http://other/")) as (_, client):
        with pytest.raises(errors.BadResponse, match="301 Redirect") as caught:
            get(client)
        assert "http://other/" in caught.value.detail


def test_an_error_with_half_a_body_is_still_that_error() -> None:
    cut: Answer = [b'HTTP/1.1 409 Conflict\r\ncontent-length: 900\r\n\r\n{"kind":', Do.CLOSE]
    with talking(cut) as (_, client), pytest.raises(errors.Conflict):
        patch(client)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_status_becomes_its_class_and_the_connection_goes_on(
    call: Callable[[HttpCluster], Any],
) -> None:
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no", "details": {"name": "a"}}
    with talking(answer(status, status=404), answer(secret())) as (wire, client):
        with pytest.raises(errors.NotFound):
            call(client)
        get(client)
    assert wire.connections == 1


PAUSES: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry_after": "7"}, 7.0),
    "a date on the server's clock": (
        {"retry_after": "Wed, 01 May 2024 12:00:30 GMT", "date": DATE},
        30.0,
    ),
    "none": ({}, None),
    "garbage": ({"retry_after": "soon"}, None),
}


@pytest.mark.parametrize(("headers", "expected"), PAUSES.values(), ids=PAUSES)
def test_the_pause_that_a_server_asks_for_reaches_the_error(headers: dict[str, str], expected: float | None) -> None:
    with talking(answer(status=429, **headers)) as (_, client):
        with pytest.raises(errors.Throttled) as caught:
            get(client)
        assert caught.value.retry_after == expected


# What is sent again


class Tokens:
    """Credentials of which each is good for one load, as with a token that is rotated."""

    def __init__(self, *tokens: str | Exception) -> None:
        self._tokens = iter(tokens)

    def connection(self, url: str) -> Connection:
        token = next(self._tokens)
        if isinstance(token, Exception):
            raise token
        return Connection(url, authorization=lambda: f"Bearer {token}", reload=lambda: self.connection(url))


UNAUTHORIZED = answer({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_refused_token_is_read_anew_and_the_call_sent_once_more(
    call: Callable[[HttpCluster], Any],
) -> None:
    last = {"kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": []}
    good = last if call is CALLS["list"] else secret()
    reply = chunked(line("ADDED", secret())) if call is CALLS["watch"] else answer(good)
    with talking(UNAUTHORIZED, reply, connection=Tokens("old", "new").connection) as (wire, client):
        call(client)
    assert [sent.headers["authorization"] for sent in wire.calls] == ["Bearer old", "Bearer new"]
    assert wire.calls[0].body == wire.calls[1].body


def test_a_token_that_stays_refused_is_given_up_on_after_one_retry() -> None:
    answers = (UNAUTHORIZED, UNAUTHORIZED, answer(secret()))
    with talking(*answers, connection=Tokens("old", "new").connection) as (wire, client):
        with pytest.raises(errors.Unauthorized):
            get(client)
        assert len(wire.calls) == 2


def test_credentials_that_cannot_be_read_anew_are_an_unauthorized_call() -> None:
    tokens = Tokens("old", errors.UsageError("cannot be read", where="kubeconfig x"))
    with talking(UNAUTHORIZED, connection=tokens.connection) as (_, client):
        with pytest.raises(errors.Unauthorized, match="kubeconfig x: cannot be read") as caught:
            get(client)
        assert isinstance(caught.value.__cause__, errors.UsageError)


def test_credentials_that_cannot_be_read_are_an_unauthorized_call() -> None:
    def unreadable() -> str:
        raise errors.UsageError("cannot be read", where="kubeconfig x")

    def connection(url: str) -> Connection:
        return Connection(url, authorization=unreadable)

    with (
        talking(connection=connection) as (_, client),
        pytest.raises(errors.Unauthorized, match="kubeconfig x: cannot be read"),
    ):
        get(client)


def test_without_a_source_of_credentials_a_401_is_final() -> None:
    with talking(UNAUTHORIZED) as (wire, client), pytest.raises(errors.Unauthorized):
        get(client)
    assert len(wire.calls) == 1


def test_no_credentials_are_sent_where_there_are_none() -> None:
    with talking(answer(secret())) as (wire, client):
        get(client)
    assert "authorization" not in wire.calls[0].headers


@pytest.mark.parametrize("gone", [Do.CLOSE, Do.RESET])
def test_a_read_survives_a_kept_connection_that_the_server_had_closed(gone: Do) -> None:
    with talking(answer(secret()), [gone], answer(secret())) as (wire, client):
        get(client)
        assert get(client) == secret()
    assert len(wire.calls) == 3


def test_a_read_is_sent_again_only_once() -> None:
    with talking([Do.RESET], [Do.RESET], answer(secret())) as (wire, client):
        with pytest.raises(errors.Unreachable):
            get(client)
        assert len(wire.calls) == 2


LOST: dict[str, Answer] = {
    "closed": [Do.CLOSE],
    "reset": [Do.RESET],
    "silent": [Do.HANG],
    "cut off": [b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{", Do.CLOSE],
    "a server error": answer(status=503, retry_after="1"),
    "throttled": answer(status=429, retry_after="1"),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
def test_a_write_without_an_answer_is_never_sent_again(lost: Answer, call: Callable[[HttpCluster], Any]) -> None:
    with talking(answer(secret()), lost, answer(secret())) as (wire, client):
        get(client)
        with pytest.raises(errors.ApiError) as caught:
            call(client)
        assert isinstance(caught.value, errors.Retryable)
    assert len(wire.calls) == 2


# What takes too long


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_silent_server_is_given_up_on(call: Callable[[HttpCluster], Any]) -> None:
    with talking([Do.HANG]) as (wire, client):
        before = time.monotonic()
        with pytest.raises(errors.TimedOut):
            call(client)
        assert time.monotonic() - before < 2
    assert len(wire.calls) == 1


def test_a_server_that_stops_in_the_middle_is_given_up_on() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{"
    with talking([head, Do.HANG]) as (_, client), pytest.raises(errors.TimedOut):
        get(client)


def test_nobody_there_is_unreachable_and_its_address_no_part_of_the_summary() -> None:
    with Wire() as wire:
        pass
    with cluster(Connection(wire.url)) as client, pytest.raises(errors.Unreachable) as caught:
        get(client)
    assert caught.value.summary == "get secrets ns/a: NoConnection"
    assert str(wire.port) in caught.value.detail
    assert isinstance(caught.value.__cause__, vendor.NewConnectionError)


def test_an_unknown_host_is_unreachable() -> None:
    with cluster(Connection("http://no-such-host.invalid")) as client, pytest.raises(errors.Unreachable):
        get(client)


VENDOR_ROOTS: list[Exception] = [
    vendor.HTTPError("x"),
    vendor.InsecureRequestWarning("x"),
    vendor.ProxySchemeUnsupported("x"),
    HTTPException("x"),
    OSError("x"),
    ssl.SSLError("x"),
    ValueError("x"),
]


@pytest.mark.parametrize("error", VENDOR_ROOTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_error_of_the_library_below_comes_through(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[HttpCluster], Any], error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("urllib3.PoolManager.request", fail)
    with cluster(Connection("http://127.0.0.1:1")) as client, pytest.raises(errors.ApiError) as caught:
        call(client)
    assert caught.value.__cause__ is error


# Limits


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


def test_slice_writes_have_a_lower_limit_of_their_own() -> None:
    clock, limits = Clock(), RateLimits(requests_per_second=100, burst=100, slice_writes_per_second=2)
    resource_slice = {"kind": "ResourceSlice", "metadata": {"name": "a"}}
    answers = [answer(resource_slice)] * 8
    with talking(*answers, limits=limits, clock=clock, sleep=clock.sleep) as (_, client):
        for _ in range(3):
            client.get(RESOURCE_SLICES, "ns", "a")
        assert clock.slept == []
        for _ in range(3):
            client.create(RESOURCE_SLICES, "ns", resource_slice)
        assert clock.slept == [0.5, 0.5]
        client.delete(RESOURCE_SLICES, "ns", "a")
        client.json_patch(RESOURCE_SLICES, "ns", "a", [])
        assert clock.slept == [0.5] * 4


def test_all_calls_share_the_general_limit() -> None:
    clock, limits = Clock(), RateLimits(requests_per_second=2, burst=1)
    answers = [answer({"kind": "Composition"})] * 3
    with talking(*answers, limits=limits, clock=clock, sleep=clock.sleep) as (_, client):
        client.get(COMPOSITIONS, "ns", "a")
        client.get(COMPOSITIONS, "ns", "a")
        client.json_patch(COMPOSITIONS, "ns", "a", [])
    assert clock.slept == [0.5, 0.5]


# TLS and proxies


def server_tls(*, ask_for_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.crt", TLS / "server.key")
    if ask_for_client:
        context.load_verify_locations(TLS / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_tls(*, trusted: bool = True, certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(TLS / "ca.crt") if trusted else None)
    if certificate:
        context.load_cert_chain(TLS / "client.crt", TLS / "client.key")
    return context


TRUSTED: dict[str, tuple[bool, Callable[[str], Connection]]] = {
    "by its authority": (False, lambda url: Connection(url, tls=client_tls())),
    "and shown a client certificate": (True, lambda url: Connection(url, tls=client_tls(certificate=True))),
    "under another name than its address": (
        False,
        lambda url: Connection(url, tls=client_tls(), tls_server_name="api.test"),
    ),
}


@pytest.mark.parametrize(("ask", "connection"), TRUSTED.values(), ids=TRUSTED)
def test_a_trusted_server_is_talked_to(ask: bool, connection: Callable[[str], Connection]) -> None:
    tls = server_tls(ask_for_client=ask)
    with talking(answer(secret()), tls=tls, connection=connection) as (_, client):
        assert get(client) == secret()


UNTRUSTED: dict[str, Callable[[str], Connection]] = {
    "an unknown authority": lambda url: Connection(url, tls=client_tls(trusted=False)),
    "another name": lambda url: Connection(url, tls=client_tls(), tls_server_name="elsewhere.test"),
}


@pytest.mark.parametrize("connection", UNTRUSTED.values(), ids=UNTRUSTED)
def test_a_server_that_cannot_prove_itself_gets_no_request(connection: Callable[[str], Connection]) -> None:
    with talking(answer(secret()), tls=server_tls(), connection=connection) as (wire, client):
        with pytest.raises(errors.Unreachable, match="TLS"):
            get(client)
        assert wire.calls == []


def test_a_proxy_is_used_with_its_credentials() -> None:
    def behind(url: str) -> Connection:
        return Connection("http://api.test:8001", proxy=url.replace("http://", "http://user:pass@"))

    with talking(answer(secret()), connection=behind) as (proxy, client):
        assert get(client) == secret()
    (call,) = proxy.calls
    assert call.target == "http://api.test:8001/api/v1/namespaces/ns/secrets/a"
    assert call.headers["proxy-authorization"].startswith("Basic ")


def test_a_proxy_that_refuses_is_unreachable() -> None:
    def behind(url: str) -> Connection:
        return Connection("https://api.test:8001", tls=client_tls(), proxy=url)

    with talking(answer(status=407), connection=behind) as (proxy, client):
        with pytest.raises(errors.Unreachable, match="Proxy"):
            get(client)
        assert [call.method for call in proxy.calls] == ["CONNECT"]
