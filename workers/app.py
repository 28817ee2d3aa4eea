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
from collections.abc import Callable
from queue import Empty
from typing import Any

import click
from billiard import pool
from celery import signals
from celery.worker.consumer import Consumer
from kombu.transport import redis as transport
from kombu.transport import virtual

from runtime import logs
from runtime.broker import check_broker
from runtime.sender import celery_configuration
from runtime.settings import Settings
from workers import dashboard, envelope
from workers.monitor import Monitor, Monitored, PulseStep, ServerStep
from workers.process import WorkerProcess, load_connections
from workers.refusal import one_line_errors
from workers.tasks import TASKS, register

log = logging.getLogger(__name__)

_FAREWELL_POLLS = 20
"""Tenths of a second that a child which leaves waits for its parent to read its results."""


class GuardedMessage(virtual.Message):
    """kombu's message, made of nothing where an item of the queue has not the shape of one."""

    def __init__(self, payload: object, channel: Any = None, **options: Any) -> None:
        item = payload if envelope.is_message(payload) else envelope.EMPTY
        super().__init__(item, channel=channel, **options)  # type: ignore[no-untyped-call]


class GuardedQoS(transport.QoS):
    """kombu's record of unacknowledged messages, which does without where Redis has no memory for it.

    The message is off the queue already: it is executed, and one that gets lost is derived again.
    """

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember the message until it is acknowledged."""
        try:
            super().append(message, delivery_tag)  # type: ignore[no-untyped-call]
        except self.channel.ResponseError as error:
            log.warning("message not registered: %s", error, extra={"action": "message-not-registered"})
            virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]


class GuardedChannel(transport.Channel):
    """kombu's channel, which survives items that it cannot decode, and the loss of its connection.

    Such items are off the queue already.
    """

    Message = GuardedMessage
    QoS = GuardedQoS

    def _connparams(self, *arguments: Any, **options: Any) -> Any:
        # A channel that is closed after its connection was would want to put unacknowledged messages back. What
        # kombu makes of that is an AttributeError, which ends the worker.
        if self.connection.client is None:
            raise ConnectionError("closed")
        return super()._connparams(*arguments, **options)  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            taken = super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except Empty:
            self._answered()
            raise
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            extra = {"action": "message-rejected"}
            log.warning("message dropped: cannot be decoded (%s)", type(error).__name__, extra=extra)
            self._answered()
            raise Empty from error
        self._answered()
        return taken

    def _answered(self) -> None:
        # None once the connection is closed, which a channel outlives.
        if (client := self.connection.client) is not None:
            client.on_answer()


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
        connection.on_answer = self.app.monitor.pulse.answered
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


def create_app(settings: Settings) -> Monitored:
    """The application for these settings. Nothing is connected, and no other application is affected."""
    return _assemble(settings, WorkerProcess(settings))


def program_app() -> Monitored:
    """The application of this program, with the settings of its environment.

    Settings that cannot be used end the program: one line on stderr, the error's exit code (2), no traceback.
    """
    with one_line_errors():
        settings = Settings.load()
        # Raises where no namespace was asked for.
        log.debug("scope: %s", settings.scope, extra={"action": "settings"})
    # A parent that ends reads no results of tasks that it has just given out, and puts their messages back. The
    # children would wait half a minute for it, longer than most deployments wait for them.
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _FAREWELL_POLLS
    process = WorkerProcess(settings)
    app = _assemble(settings, process)
    _connect_signals(settings, process, app.monitor)
    return app


def _assemble(settings: Settings, process: WorkerProcess) -> Monitored:
    app = Monitored("sexton", set_as_current=False, config_source=_configuration(settings))
    app.monitor = Monitor(settings, process)
    app.steps["worker"].add(ServerStep)
    app.steps["consumer"].add(PulseStep)
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


def _connect_signals(settings: Settings, process: WorkerProcess, monitor: Monitor) -> None:
    """Signals belong to the whole program, hence only to the one that runs this application."""

    def set_up_logging(loglevel: int | None = None, **_: Any) -> None:
        # `-l` is WARNING where nobody gave it, so the more talkative of the two counts.
        level = min(logging.getLevelNamesMapping()[settings.log_level], loglevel or logging.WARNING)
        logs.configure(logging.getLevelName(level), settings.log_format)

    def check_clusters(**_: Any) -> None:
        with one_line_errors():
            load_connections(settings)

    def report_broker(**_: Any) -> None:
        for finding in check_broker(settings):
            extra = {"action": "not-ready", "finding": finding.code}
            log.error("%s; %s", finding.message, finding.hint, extra=extra)

    def begin(**_: Any) -> None:
        monitor.disown()

    def close(**_: Any) -> None:
        process.close()

    def drain(**_: Any) -> None:
        monitor.pulse.draining = True

    def configure_flower(**_: Any) -> None:
        context = click.get_current_context(silent=True)
        if context is None or context.info_name != dashboard.COMMAND:
            return
        from tornado.options import options

        with one_line_errors():
            dashboard.apply(options, settings)

    signals.import_modules.connect(configure_flower, weak=False)
    signals.setup_logging.connect(set_up_logging, weak=False)
    signals.celeryd_init.connect(check_clusters, weak=False)
    signals.worker_ready.connect(report_broker, weak=False)
    signals.worker_process_init.connect(begin, weak=False)
    signals.worker_process_shutdown.connect(close, weak=False)
    signals.worker_shutting_down.connect(drain, weak=False)
