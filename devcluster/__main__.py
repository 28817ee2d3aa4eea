"""`python -m devcluster`: an API server on loopback until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from devcluster import definitions
from devcluster.audit import AuditLog
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import LOOPBACK, Server
from devcluster.statuses import Refusal
from devcluster.store import HISTORY, Store
from eno.errors import SextonError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code: 0, or that of the error, which is printed on one line."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        _serve(options, stop)
    except SextonError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _serve(options: argparse.Namespace, stop: threading.Event) -> None:
    store = Store(seed=options.seed or secrets.token_hex(8), history=options.history)
    load_definitions(store, options.crds or [definitions.development_directory()])
    try:
        audit = AuditLog(options.audit_log) if options.audit_log else None
        server = Server(store, host=options.host, port=options.port, audit=audit)
    except OSError as error:
        raise UsageError(
            "cannot start",
            where=f"{options.host}:{options.port}",
            hint="choose another host, port or file",
            detail=str(error),
        ) from error
    with server.running():
        if options.kubeconfig:
            write_kubeconfig(options.kubeconfig, options.advertise or server.url)
        print(f"listening on {server.url}", flush=True)
        stop.wait()
    if audit is not None:
        audit.close()


def load_definitions(store: Store, paths: Sequence[Path]) -> None:
    """Serve the CustomResourceDefinitions of files and directories. Raises UsageError."""
    for path in paths:
        for definition in definitions.load(path):
            try:
                store.create(definitions.KIND, None, definition)
            except Refusal as refusal:
                raise UsageError("refused", where=str(path), detail=refusal.message) from refusal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devcluster", description="An in-memory Kubernetes API.")
    parser.add_argument(
        "--host",
        default=LOOPBACK,
        help="address to listen on, default %(default)s; anybody who reaches it may do anything",
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) picks a free one")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="written once the server answers")
    parser.add_argument(
        "--advertise", type=_url, metavar="URL", help="what the kubeconfig names; default: where it listens"
    )
    parser.add_argument(
        "--crds",
        type=Path,
        action="append",
        metavar="PATH",
        help="CRD manifests, a file or a directory; repeatable; default: Sexton's development CRDs",
    )
    parser.add_argument("--audit-log", type=Path, metavar="FILE", help="append a JSON line per finished request")
    parser.add_argument("--history", type=int, default=HISTORY, help="changes that watches can reach back")
    parser.add_argument("--seed", default="", help="makes uids and generated names repeatable")
    return parser


def _url(value: str) -> str:
    """Refuses what no client could connect to, which is told on one line by argparse."""
    try:
        parts = urlsplit(value)
        complete = parts.scheme == "http" and parts.hostname and parts.port != 0
    except ValueError:
        complete = False
    if not complete:
        raise argparse.ArgumentTypeError("must look like http://host:port")
    return value


if __name__ == "__main__":
    sys.exit(main())
