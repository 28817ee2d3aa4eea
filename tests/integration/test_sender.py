"""On a real Redis: messages are what Celery itself would have sent, made with less ado."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from eno.errors import BrokerUnavailable
from eno.inventory.secrets import lineage
from runtime.broker import connect
from runtime.messages import CleanupMessage, GateMessage, Message, RecoverMessage, RetireMessage
from runtime.sender import CelerySender, celery_configuration
from runtime.settings import Settings
from tests.support.factories import NAMESPACE
from tests.support.redis import running_redis
from tests.support.waiting import until

OWNER = {"namespace": NAMESPACE, "name": "shop", "uid": "u", "synthesis_uuid": "s"}
MESSAGES = [
    pytest.param(RecoverMessage(**OWNER), id="recover"),
    pytest.param(GateMessage(**OWNER), id="gate"),
    pytest.param(CleanupMessage(**OWNER, slices=("a", "b")), id="cleanup"),
    pytest.param(RetireMessage(namespace=NAMESPACE, lineage=lineage(NAMESPACE, "web")), id="retire"),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield Settings.load(broker_url=server.url, pod_namespace=NAMESPACE)


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    with connect(settings) as client:
        client.flushall()
        yield client


def taken(client: redis.Redis, settings: Settings, message: Message) -> dict[str, Any]:
    """The item that waits for a worker, without what differs from one message to the next."""
    item: dict[str, Any] = json.loads(str(client.rpop(message.task.queue(settings.instance))))
    for part, names in {"headers": ("id", "root_id"), "properties": ("correlation_id", "delivery_tag")}.items():
        for name in names:
            assert item[part].pop(name)
    item["properties"].pop("reply_to")
    # `send_task` says these twice.
    for name in ("argsrepr", "kwargsrepr"):
        item["properties"].pop(name, None)
    item["body"] = json.loads(base64.b64decode(item["body"]))
    return item


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_the_one_that_send_task_makes(client: redis.Redis, settings: Settings, message: Message) -> None:
    sender = CelerySender(settings)
    sender.send([message])
    sender.close()
    with Celery("plain", set_as_current=False, config_source=celery_configuration(settings)) as app:
        payload = message.payload()
        options = {"argsrepr": "()", "kwargsrepr": repr(payload), "ignore_result": True}
        app.send_task(str(message.task), kwargs=payload, **options)
    assert taken(client, settings, message) == taken(client, settings, message)


def test_flower_hears_of_messages_that_wait(client: redis.Redis, settings: Settings) -> None:
    sender = CelerySender(settings)
    messages = [case.values[0] for case in MESSAGES]
    with client.pubsub() as events:
        events.psubscribe(f"*{settings.instance}.events*")
        events.get_message(timeout=5)
        sender.send(messages)
        heard: list[str] = []

        def all_heard() -> bool:
            if event := events.get_message(timeout=1):
                body = json.loads(base64.b64decode(json.loads(event["data"])["body"]))
                heard.extend(f"{each['type']} {each['name']} {each['queue']}" for each in _listed(body))
            return len(heard) == len(messages)

        until(all_heard, "every message is told of")
    sender.close()
    assert heard == [f"task-sent {each.task} {each.task.queue(settings.instance)}" for each in messages]


def _listed(body: Any) -> list[Any]:
    return body if isinstance(body, list) else [body]


def test_a_redis_that_is_away_is_told_in_one_line(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        away = Settings.load(broker_url=server.url, pod_namespace=NAMESPACE)
    sender = CelerySender(away)
    with pytest.raises(BrokerUnavailable) as caught:
        sender.send([RecoverMessage(**OWNER)])
    sender.close()
    assert "\n" not in str(caught.value)
