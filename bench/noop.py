"""A Celery application whose one task does nothing: what the queue costs when there is no work in it.

Its configuration is the one of Sexton's workers, as far as it concerns delivery: `celery -A bench.noop worker`.
"""

from __future__ import annotations

from celery import Celery

from runtime.messages import TaskName
from runtime.sender import celery_configuration
from runtime.settings import Settings

TASK = "bench.nothing"
_DELIVERY = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "worker_send_task_events": True,
    "broker_connection_retry_on_startup": True,
}

settings = Settings.load()
queue = TaskName.GATE.queue(settings.instance)
app = Celery("bench", set_as_current=False, config_source=celery_configuration(settings) | _DELIVERY)


@app.task(name=TASK, queue=queue, shared=False)  # type: ignore[untyped-decorator]
def nothing() -> None:
    """Does nothing."""
