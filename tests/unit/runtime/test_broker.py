import socket
from collections.abc import Iterator, Sequence
from queue import Queue

import pytest
import redis

from eno.errors import BrokerUnavailable
from runtime import broker
from runtime.broker import UNREACHABLE, BrokerWatch, Finding, check_broker, connect, findings_in, translated
from tests.support.hints import settings


def descendants(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        yield from descendants(child)


@pytest.mark.parametrize("kind", sorted(set(descendants(redis.RedisError)), key=lambda kind: kind.__qualname__))
def test_every_error_of_the_client_is_translated(kind: type[Exception]) -> None:
    error = kind.__new__(kind)
    error.args = ("some reason",)
    with pytest.raises(BrokerUnavailable, match="Redis host:1/0: not available") as caught, translated("host:1/0"):
        raise error
    assert caught.value.__cause__ is error


def test_a_refused_connection_names_the_host_and_no_password() -> None:
    broken = settings(broker_url="redis://user:hunter2@127.0.0.1:1/0")
    with pytest.raises(BrokerUnavailable) as caught, translated(broken.broker_host), connect(broken) as client:
        client.ping()
    assert "127.0.0.1:1/0" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint == "start it, or set SEXTON_BROKER_URL"


def test_a_refused_command_is_no_reason_to_start_the_server() -> None:
    with pytest.raises(BrokerUnavailable) as caught, translated("host:1/0"):
        raise redis.ResponseError("OOM command not allowed")
    assert caught.value.hint == ""


@pytest.mark.parametrize(
    ("error", "asks"),
    [
        pytest.param(redis.TimeoutError("Timeout connecting to server"), True, id="a handshake that nobody answers"),
        pytest.param(redis.ConnectionError("Connection closed by server."), True, id="no TLS to a TLS port"),
        pytest.param(redis.ConnectionError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF"), True, id="cut off in TLS"),
        pytest.param(redis.ConnectionError("[SSL: WRONG_VERSION_NUMBER]"), True, id="TLS to a port without"),
        pytest.param(redis.ConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED]"), False, id="a wrong certificate"),
        pytest.param(redis.ConnectionError("Connection refused."), False, id="nobody there"),
    ],
)
def test_where_one_side_may_speak_tls_and_the_other_not_it_asks(error: redis.RedisError, asks: bool) -> None:
    with pytest.raises(BrokerUnavailable) as caught, translated("host:1/0"):
        raise error
    assert ("does it speak TLS?" in caught.value.hint) is asks


def test_a_server_that_says_nothing_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        (finding,) = check_broker(settings(broker_url=f"redis://x:y@127.0.0.1:{silent.getsockname()[1]}/0"))
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert finding.code == UNREACHABLE


def test_a_watch_looks_again_and_again_and_remembers_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "CHECK_SECONDS", 0.01)
    told: Queue[Sequence[Finding]] = Queue()
    watch = BrokerWatch(settings(broker_url="redis://127.0.0.1:1/0"), told.put)
    assert watch.defects() == ["Redis has not been looked at yet"]
    watch.start()
    try:
        (first,), (again,) = told.get(timeout=10), told.get(timeout=10)
        assert first.code == again.code == UNREACHABLE
        assert watch.defects() == [again.message]
    finally:
        watch.stop()


def test_an_unreachable_broker_is_a_finding() -> None:
    (finding,) = check_broker(settings(broker_url="redis://127.0.0.1:1/0"))
    assert finding.code == "unreachable"


@pytest.mark.parametrize(
    ("info", "codes"),
    [
        pytest.param({"maxmemory_policy": "noeviction", "redis_version": "7.2.4"}, [], id="a fit server"),
        pytest.param({"maxmemory_policy": "noeviction", "redis_version": "6.2.0"}, [], id="the oldest fit server"),
        pytest.param(
            {"maxmemory_policy": "allkeys-lru", "redis_version": "7.2.4"}, ["eviction-policy"], id="one that evicts"
        ),
        pytest.param(
            {"maxmemory_policy": "volatile-ttl", "redis_version": "7.2.4"},
            ["eviction-policy"],
            id="one that evicts only what has a TTL, and so the hints",
        ),
        pytest.param({"maxmemory_policy": "noeviction", "redis_version": "6.0.16"}, ["version"], id="an old server"),
        pytest.param({}, ["version"], id="one that tells nothing"),
    ],
)
def test_findings(info: dict[str, str], codes: list[str]) -> None:
    assert [finding.code for finding in findings_in(info, "host:1/0")] == codes
