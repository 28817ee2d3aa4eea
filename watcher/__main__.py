"""`python -m watcher`: follow the clusters and enqueue what is due, until SIGTERM or SIGINT.

Ends with 0 when it was told to, and with the error's own exit code otherwise; every error is one line on stderr.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

from eno.errors import SextonError
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from runtime.broker import check_broker
from runtime.dispatch import Dispatcher
from runtime.logs import configure
from runtime.settings import Settings, variable
from watcher.health import HealthServer
from watcher.process import Watcher, assemble

_FLAGS = (
    "kubeconfig",
    "downstream_kubeconfig",
    "broker_url",
    "instance",
    "pod_namespace",
    "composition_namespace",
    "all_namespaces",
    "composition_label_selector",
    "enable_tombstone_recovery",
    "retirement_grace",
    "requests_per_second",
    "burst",
    "resync_seconds",
    "relist_seconds",
    "log_level",
    "log_format",
)
"""The settings that a watcher uses."""

_POLL_SECONDS = 0.5
_ENDING = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger("watcher")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = vars(_parser().parse_args(arguments))
    health = (options.pop("health_host"), options.pop("health_port"))
    try:
        with _signals_held_back():
            _run(Settings.load(**options), *health)
    except SextonError as error:
        print(f"watcher: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(settings: Settings, health_host: str, health_port: int | None) -> None:
    """Until told to end. Raises the SextonError that makes it impossible to start or to go on."""
    scope = settings.scope
    upstream = _connect(settings.kubeconfig, settings)
    downstream = _connect(settings.downstream_kubeconfig, settings) if settings.downstream_kubeconfig else upstream
    configure(settings.log_level, settings.log_format)
    dispatcher = Dispatcher.connect(settings)
    watcher = assemble(settings, scope, upstream, downstream, dispatcher)

    def disconnect() -> None:
        upstream.close()
        downstream.close()

    with _probes(settings, watcher, health_host, health_port):
        watcher.start()
        try:
            _until_told_to_end(watcher)
        finally:
            watcher.stop(disconnect=disconnect)
            dispatcher.close()


def _connect(kubeconfig: Path | None, settings: Settings) -> HttpCluster:
    connection = load_connection(str(kubeconfig) if kubeconfig else None)
    limits = RateLimits(requests_per_second=settings.requests_per_second, burst=settings.burst)
    return HttpCluster(connection, user_agent=f"sexton-watcher/{version('sexton')}", limits=limits)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """SIGTERM and SIGINT wait for sigtimedwait below. Every thread inherits that, so it comes before the first."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _until_told_to_end(watcher: Watcher) -> None:
    """Raises what `Watcher.check` raises."""
    while signal.sigtimedwait(_ENDING, _POLL_SECONDS) is None:
        watcher.check()


def _probes(settings: Settings, watcher: Watcher, host: str, port: int | None) -> AbstractContextManager[object]:
    if port is None:
        return nullcontext()

    def ready() -> list[str]:
        return [*watcher.unsynced(), *(finding.message for finding in check_broker(settings))]

    server = HealthServer(host, port, {"/healthz": watcher.stuck, "/readyz": ready})
    _log.info("probes at http://%s:%d", host, server.port, extra={"action": "probes-started", "port": server.port})
    return server


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m watcher",
        description="Follow the clusters and enqueue what is due. Every flag overrides its environment variable.",
    )
    for name in _FLAGS:
        field = Settings.model_fields[name]
        flag, text = f"--{name.replace('_', '-')}", f"{field.description} [{variable(name)}]".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(flag, help=text)
    parser.add_argument("--health-host", default="127.0.0.1", help="Address of /healthz and /readyz.")
    parser.add_argument("--health-port", type=int, help="Their port; 0 takes a free one. Default: no probes.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
