"""The Celery application of the workers, and the entry point behind `celery -A workers`.

Choices that are not obvious:

- A message is acknowledged after its task (`acks_late`) and put back when the task's process dies. The hard time
  limit acknowledges all the same: the key is derived again, and counted, instead of running into it for ever.
- Tasks that run while the connection to Redis breaks are left to finish. They cannot be acknowledged any more and
  so are delivered once more, which finds nothing left to do; killing them in the middle would gain nothing.
- One message per process and no prefetching: a message that waited in a worker's memory would wait for the slowest
  task of that worker, and its visibility timeout would run meanwhile.
- SIGTERM ends the worker after its running tasks, whose time is limited. SIGQUIT (which `REMAP_SIGTERM=SIGQUIT`
  makes of SIGTERM) gives them `SEXTON_SOFT_SHUTDOWN_TIMEOUT` seconds and puts the rest back.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

from celery import Celery, signals
from celery.worker.consumer import Consumer
from kombu.transport import redis as transport
from kombu.transport import virtual

from eno.errors import SextonError
from runtime import logs
from runtime.broker import check_broker
from runtime.dispatch import celery_configuration
from runtime.settings import Settings
from workers import envelope
from workers.process import WorkerProcess, load_connections
from workers.tasks import TASKS, register

log = logging.getLogger(__name__)


class GuardedMessage(virtual.Message):
    """kombu's message, made of nothing where an item of the queue has not the shape of one."""

    def __init__(self, payload: object, channel: Any = None, **options: Any) -> None:
        item = payload if envelope.is_message(payload) else envelope.EMPTY
        super().__init__(item, channel=channel, **options)  # type: ignore[no-untyped-call]


class GuardedChannel(transport.Channel):
    """kombu's channel, which survives items that it cannot decode. They are off the queue already."""

    Message = GuardedMessage

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            extra = {"action": "message-rejected"}
            log.warning("message dropped: cannot be decoded (%s)", type(error).__name__, extra=extra)
            raise Empty from error


class GuardedTransport(transport.Transport):
    """kombu's Redis transport with guarded channels."""

    Channel = GuardedChannel


class GuardedConsumer(Consumer):  # type: ignore[misc]
    """Celery's consumer, which lets nothing through but what `workers.envelope` accepts."""

    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        """The connection that messages come from, once it is made."""
        connection = self.app.connection_for_read(heartbeat=heartbeat)
        # Not `transport_cls`: that is shown in logs and sent to Flower, which takes a name and no class.
        connection.get_transport_cls = lambda: GuardedTransport
        return self.ensure_connected(connection)

    def create_task_handler(self, **options: Any) -> Callable[[Any], None]:
        """The function that is called with each kombu message."""
        receive = super().create_task_handler(**options)
        known = frozenset(map(str, TASKS))

        def on_message(message: Any) -> None:
            verdict = envelope.inspect(message.headers, _payload(message), known)
            match verdict:
                case envelope.Accepted(headers):
                    message.headers = dict(headers)
                    receive(message)
                case envelope.Dropped(action, reason):
                    log.warning("message dropped: %s", reason, extra={"action": action})
                    message.reject_log_error(log, self.connection_errors)

        return on_message

    def on_decode_error(self, message: Any, error: Exception) -> None:
        """Throw away a message in an encoding other than JSON."""
        log.warning("message dropped: %s", type(error).__name__, extra={"action": "message-rejected"})
        message.ack_log_error(log, self.connection_errors)


def _payload(message: Any) -> object:
    """The decoded body, or None when there is no decoding it (pickle, gzip bombs, plain garbage)."""
    try:
        return message.payload
    except Exception:
        return None


def create_app(settings: Settings) -> Celery:
    """The application for these settings. Nothing is connected, and no other application is affected."""
    return _assemble(settings, WorkerProcess(settings))


def program_app() -> Celery:
    """The application of this program, with the settings of its environment.

    Settings that cannot be used end the program: one line on stderr, the error's exit code (2), no traceback.
    """
    with _one_line_errors():
        settings = Settings.load()
        # Raises where no namespace was asked for.
        log.debug("scope: %s", settings.scope, extra={"action": "settings"})
    process = WorkerProcess(settings)
    _connect_signals(settings, process)
    return _assemble(settings, process)


def _assemble(settings: Settings, process: WorkerProcess) -> Celery:
    app = Celery("sexton", set_as_current=False, config_source=_configuration(settings))
    register(app, lambda: process.executor)
    return app


def _configuration(settings: Settings) -> dict[str, Any]:
    return celery_configuration(settings) | {
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_time_limit": settings.task_time_limit,
        "task_soft_time_limit": settings.task_soft_time_limit,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_consumer": f"{__name__}:{GuardedConsumer.__name__}",
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": True,
        "worker_soft_shutdown_timeout": settings.soft_shutdown_timeout,
    }


def _connect_signals(settings: Settings, process: WorkerProcess) -> None:
    """Signals belong to the whole program, hence only to the one that runs this application."""

    def set_up_logging(loglevel: int | None = None, **_: Any) -> None:
        # `-l` is WARNING where nobody gave it, so the more talkative of the two counts.
        level = min(logging.getLevelNamesMapping()[settings.log_level], loglevel or logging.WARNING)
        logs.configure(logging.getLevelName(level), settings.log_format)

    def check_clusters(**_: Any) -> None:
        with _one_line_errors():
            load_connections(settings)

    def report_broker(**_: Any) -> None:
        for finding in check_broker(settings):
            extra = {"action": "not-ready", "finding": finding.code}
            log.error("%s; %s", finding.message, finding.hint, extra=extra)

    def close(**_: Any) -> None:
        process.close()

    signals.setup_logging.connect(set_up_logging, weak=False)
    signals.celeryd_init.connect(check_clusters, weak=False)
    signals.worker_ready.connect(report_broker, weak=False)
    signals.worker_process_shutdown.connect(close, weak=False)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SextonError as error:
        sys.stderr.write(f"sexton: {error}\n")
        raise SystemExit(error.exit_code) from None
