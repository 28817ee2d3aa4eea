"""How messages get into their queues: through Celery, by task name, in the configuration that workers share."""

# mypy: untyped-calls-exclude="kombu"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import redis
from celery import Celery
from celery.utils import uuid
from kombu.entity import Exchange, Queue
from kombu.exceptions import BatchPublishError, OperationalError

from runtime.broker import ANSWER_SECONDS, CONNECT_SECONDS, HEALTH_CHECK_SECONDS, unavailable
from runtime.messages import Message, TaskName
from runtime.settings import Settings

_SHOWN = 1024
"""Characters of a message's arguments that Flower can show."""


class Sender(Protocol):
    """Puts messages into queues. Raises BrokerUnavailable."""

    def send(self, messages: Sequence[Message]) -> None:
        """Put each message into the queue of its task. After an error any of them may be there, or not."""
        ...

    def close(self) -> None:
        """Drop the connections."""
        ...


class CelerySender:
    """Sends through Celery by task name, without importing any task."""

    def __init__(self, settings: Settings) -> None:
        self._host = settings.broker_host
        self._instance = settings.instance
        self._app = Celery("sexton-producer", set_as_current=False, config_source=celery_configuration(settings))

    def send(self, messages: Sequence[Message]) -> None:
        """Put each message into the queue of its task: Celery makes them, and one round trip carries them.

        Raises BrokerUnavailable within a few seconds, after which any of them may be there, or not.
        """
        try:
            try:
                self._publish(messages)
            except BatchPublishError:
                # A connection that died while nobody used it shows at its next use.
                self._publish(messages)
        except (OperationalError, BatchPublishError, redis.RedisError, OSError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise unavailable(self._host, cause) from error

    def _publish(self, messages: Sequence[Message]) -> None:
        # `send_task` is these two calls and, for each message once more, what takes as long as they do: routes, links,
        # a result's backend, the declaration of the queue (workers do it), a retry of what only the batch can.
        amqp = self._app.amqp
        with self._app.producer_or_acquire() as producer, producer.batch():
            for message in messages:
                name, payload = str(message.task), message.payload()
                shown = {"argsrepr": "()", "kwargsrepr": repr(payload)[:_SHOWN]}
                body = amqp.create_task_message(
                    uuid(), name, (), payload, create_sent_event=True, ignore_result=True, **shown
                )
                queue = message.task.queue(self._instance)
                amqp.send_task_message(producer, name, body, queue=queue, declare=(), retry=False)

    def close(self) -> None:
        """Drop the connections."""
        self._app.close()


def celery_configuration(settings: Settings) -> dict[str, Any]:
    """What a producer and a worker must agree on, in Celery's own names.

    Everything that Celery keeps in Redis carries the instance: several instances in one database would restore
    each other's unacknowledged messages, and one Flower would show the tasks of all.
    """
    instance = settings.instance
    queues = {task: task.queue(instance) for task in TaskName}
    return {
        "broker_url": settings.broker_url,
        "broker_connection_timeout": CONNECT_SECONDS,
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout,
            "unacked_key": f"{instance}.unacked",
            "unacked_index_key": f"{instance}.unacked-index",
            "unacked_mutex_key": f"{instance}.unacked-mutex",
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
            "socket_keepalive": True,
            "health_check_interval": HEALTH_CHECK_SECONDS,
            "client_name": f"{instance}-celery",
        },
        "control_exchange": f"{instance}.control",
        "event_exchange": f"{instance}.events",
        "task_queues": [Queue(queue, Exchange(queue), routing_key=queue) for queue in queues.values()],
        "task_routes": {str(task): {"queue": queue} for task, queue in queues.items()},
        "task_default_queue": queues[TaskName.GATE],
        "task_create_missing_queues": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_send_sent_event": True,
        "enable_utc": True,
    }
