"""`python -m watcher`: follow the clusters and enqueue what is due while it leads, until SIGTERM or SIGINT.

Ends with 0 when it was told to, and with the error's own exit code otherwise (_EXIT_CODES); every error is one line
on stderr.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from prometheus_client import CollectorRegistry

from eno.errors import SextonError, UsageError
from kube.config import load_connection
from kube.election import Timing
from kube.http import HttpCluster, Observe, Timeouts
from kube.lease import Candidate, process_identity
from kube.limits import RateLimits
from runtime.backlog import BacklogCollector, BacklogReader
from runtime.broker import BrokerWatch, check_broker
from runtime.dispatch import Dispatcher
from runtime.health import ProbeServer
from runtime.logs import configure
from runtime.metrics import API_FAMILIES, Metrics, add_build_info, observe_requests
from runtime.settings import Settings, variable
from watcher.metrics import WatcherCollector
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
    "lease_duration",
    "lease_renew_deadline",
    "lease_retry_period",
    "health_host",
    "health_port",
    "log_level",
    "log_format",
)
"""The settings that a watcher uses."""

_EXIT_CODES = """exit codes:
  0   told to end
  1   a CustomResourceDefinition is missing
  2   a flag, a setting, or a namespace that does not exist
  75  no longer leading, or a part of it ended: start it again
  77  a permission is missing"""

_POLL_SECONDS = 0.1
_LEASE_CALL_SECONDS = 5.0
"""A call about the Lease takes no longer, nor half of the time in which it has to be renewed."""

_ENDING = frozenset({signal.SIGTERM, signal.SIGINT})

_log = logging.getLogger("watcher")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    try:
        options = vars(_parser().parse_args(arguments))
        with _signals_held_back():
            _run(Settings.load(**options))
    except SextonError as error:
        print(f"watcher: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(settings: Settings) -> None:
    """Until told to end. Raises the SextonError that makes it impossible to start or to go on."""
    scope, lease_namespace = settings.scope, settings.lease_namespace
    registry = CollectorRegistry()
    connect = partial(_connect, settings, observe_requests(Metrics(registry, API_FAMILIES)))
    upstream = connect(settings.kubeconfig)
    downstream = connect(settings.downstream_kubeconfig) if settings.downstream_kubeconfig else upstream
    # Of its own, so that no list and no rate limit keeps a renewal waiting.
    leases = connect(settings.kubeconfig, timeouts=_lease_timeouts(settings))
    configure(settings.log_level, settings.log_format)
    candidate = _candidate(settings, leases, lease_namespace)
    dispatcher = Dispatcher.connect(settings)
    watcher = assemble(settings, scope, upstream, downstream, dispatcher, candidate)

    def disconnect() -> None:
        for cluster in (upstream, downstream, leases):
            cluster.close()

    with _probes(settings, watcher, registry):
        watcher.start()
        try:
            _tell_of_the_broker(settings)
            _until_told_to_end(watcher)
        finally:
            watcher.stop(disconnect=disconnect)
            dispatcher.close()


def _connect(
    settings: Settings, observe: Observe, kubeconfig: Path | None, *, timeouts: Timeouts | None = None
) -> HttpCluster:
    return HttpCluster(
        load_connection(str(kubeconfig) if kubeconfig else None),
        user_agent=f"sexton-watcher/{version('sexton')}",
        limits=RateLimits(requests_per_second=settings.requests_per_second, burst=settings.burst),
        timeouts=timeouts,
        observe=observe,
    )


def _lease_timeouts(settings: Settings) -> Timeouts:
    seconds = min(_LEASE_CALL_SECONDS, settings.lease_renew_deadline / 2)
    return Timeouts(connect=seconds, read=seconds)


def _candidate(settings: Settings, leases: HttpCluster, namespace: str) -> Candidate:
    timing = Timing(settings.lease_duration, settings.lease_renew_deadline, settings.lease_retry_period)
    return Candidate(leases, namespace, f"{settings.instance}-watcher", timing, identity=process_identity())


def _tell_of_the_broker(settings: Settings) -> None:
    """At once, and not only when there is something to enqueue."""
    for finding in check_broker(settings):
        _log.error("%s; %s", finding.message, finding.hint, extra={"action": "broker-unfit", "code": finding.code})


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """SIGTERM and SIGINT wait until they are asked for. Every thread inherits that, so it comes before the first."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _until_told_to_end(watcher: Watcher) -> None:
    """Raises what `Watcher.check` raises."""
    # Not sigtimedwait: a process that was stopped past its time is told of a signal that never came.
    while not signal.sigpending() & _ENDING:
        watcher.check()
        time.sleep(_POLL_SECONDS)
    signal.sigwait(_ENDING)


@contextmanager
def _probes(settings: Settings, watcher: Watcher, registry: CollectorRegistry) -> Iterator[None]:
    """Serve probes and metrics where a port is configured. Raises UsageError when the address cannot be had."""
    host, port = settings.health_host, settings.health_port
    if port is None:
        yield
        return

    broker = BrokerWatch(settings)

    def ready() -> list[str]:
        return [*watcher.unsynced(), *broker.defects()]

    add_build_info(registry, "watcher")
    registry.register(WatcherCollector(watcher))
    with closing(BacklogReader.connect(settings)) as backlog:
        registry.register(BacklogCollector(backlog, lambda: watcher.candidate.leads))
        with ProbeServer(host, port, {"/healthz": watcher.stuck, "/readyz": ready}, registry) as server:
            extra = {"action": "probes-started", "port": server.port}
            _log.info("probes at http://%s:%d", host, server.port, extra=extra)
            broker.start()
            try:
                yield
            finally:
                broker.stop()


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with the flags as all else is told: in one line."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError where argparse would print its usage and end the process."""
        raise UsageError(message, hint=f"see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m watcher",
        description="Follow the clusters and enqueue what is due. Every flag overrides its environment variable.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in _FLAGS:
        field = Settings.model_fields[name]
        flag, text = f"--{name.replace('_', '-')}", f"{field.description} [{variable(name)}]".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(flag, help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
