"""The backlog: what waits, what workers hold, what is parked, told by one process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import redis
from prometheus_client import CollectorRegistry

from eno.errors import BrokerUnavailable
from runtime.backlog import BacklogCollector, BacklogReader
from runtime.broker import Keys, connect
from runtime.messages import TaskName
from runtime.redis_server import RedisServer
from tests.support.hints import settings
from tests.support.redis import running_redis

NOW = 1_800_000_000.0
RECOVER = TaskName.RECOVER.queue("sexton")
GATE = TaskName.GATE.queue("sexton")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with connect(settings(broker_url=server.url)) as client:
        client.flushall()
        yield client
        client.config_set("maxmemory-policy", "noeviction")


@pytest.fixture
def reader(client: redis.Redis, server: RedisServer) -> BacklogReader:
    return BacklogReader(settings(broker_url=server.url), client, clock=lambda: NOW)


def reserve(client: redis.Redis, tag: str, queue: str) -> None:
    """As kombu keeps a message that was taken and not acknowledged."""
    client.hset("sexton.unacked", tag, json.dumps([{"body": "…"}, queue, queue]))


def exported(reader: BacklogReader, leads: Callable[[], bool] = lambda: True) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BacklogCollector(reader, leads))
    return registry


def test_an_empty_redis_has_no_backlog(reader: BacklogReader) -> None:
    backlog = reader.read()
    assert [backlog.waiting.total(), backlog.reserved.total(), backlog.parked.total()] == [0, 0, 0]


def test_messages_that_workers_hold_count(client: redis.Redis, reader: BacklogReader) -> None:
    client.lpush(RECOVER, "a", "b")
    reserve(client, "1", RECOVER)
    reserve(client, "2", GATE)
    backlog = reader.read()
    assert backlog.waiting[TaskName.RECOVER] == 2
    assert (backlog.reserved[TaskName.RECOVER], backlog.reserved[TaskName.GATE]) == (1, 1)


@pytest.mark.parametrize(
    "text",
    ["", "not JSON", "[" * 100_000, "5", "[]", '[{}, "x"]', '[{}, "x", 5]', '[{}, "x", "another.recover"]'],
    ids=[
        "empty",
        "no JSON",
        "deep",
        "a number",
        "an empty list",
        "two parts",
        "no queue",
        "a queue of another instance",
    ],
)
def test_what_is_no_message_of_ours_is_not_counted(client: redis.Redis, reader: BacklogReader, text: str) -> None:
    client.hset("sexton.unacked", "1", text)
    assert reader.read().reserved.total() == 0


def test_parked_keys_count_until_their_description_expires(client: redis.Redis, reader: BacklogReader) -> None:
    index = Keys("sexton").parked_index
    soon, past = NOW + 1, NOW - 1
    client.zadd(index, {"recover:u1:s1": soon, "record:u1:s1": soon, "record:u2:s1": past, "unknown:x": soon})
    parked = reader.read().parked
    assert (parked[TaskName.RECOVER], parked[TaskName.RECORD], parked.total()) == (1, 1, 2)


def test_the_leader_tells_of_every_task_and_state(client: redis.Redis, reader: BacklogReader) -> None:
    client.lpush(RECOVER, "a")
    reserve(client, "1", RECOVER)
    registry = exported(reader)
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    labels = [sample.labels for sample in samples if sample.name == "sexton_queue_messages"]
    assert {(each["task"], each["state"]) for each in labels} == {
        (task.short, state) for task in TaskName for state in ("waiting", "reserved")
    }
    for state in ("waiting", "reserved"):
        assert registry.get_sample_value("sexton_queue_messages", {"task": "recover", "state": state}) == 1
    assert registry.get_sample_value("sexton_parked_keys", {"task": "recover"}) == 0
    assert registry.get_sample_value("sexton_broker_fit") == 1


def test_a_standby_tells_nothing(reader: BacklogReader) -> None:
    assert list(exported(reader, lambda: False).collect()) == []


def test_a_redis_that_is_away_is_told_and_no_number_is_made_up() -> None:
    reader = BacklogReader.connect(settings(broker_url="redis://127.0.0.1:9/0"))
    registry = exported(reader)
    with pytest.raises(BrokerUnavailable):
        reader.read()
    assert registry.get_sample_value("sexton_broker_fit") == 0
    assert registry.get_sample_value("sexton_queue_messages", {"task": "recover", "state": "waiting"}) is None


def test_a_redis_that_may_evict_the_queues_is_not_fit(client: redis.Redis, reader: BacklogReader) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert exported(reader).get_sample_value("sexton_broker_fit") == 0


def test_items_of_any_bytes_do_not_hurt(client: redis.Redis, server: RedisServer) -> None:
    client.hset("sexton.unacked", "1", b"\xff\xfe")  # type: ignore[arg-type]
    reader = BacklogReader.connect(settings(broker_url=server.url))
    assert reader.read().reserved.total() == 0
    reader.close()
