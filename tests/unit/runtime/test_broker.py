from collections.abc import Iterator

import pytest
import redis

from eno.errors import BrokerUnavailable
from runtime.broker import check_broker, connect, findings_in, translated
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
