"""`python -m bench.apiserver`: the embedded API server, filled from a file, that notes when it answered what.

Its audit log tells whole seconds, for people. Here the instants are those of the monotonic clock, which all
processes of one machine share, so that latencies can be taken without a stopwatch in the product.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.inputs import NAMESPACE, Family, read
from bench.timeline import Entry, Log
from devcluster import audit, definitions
from devcluster.__main__ import load_definitions
from devcluster.direct import DirectCluster
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from devcluster.store import Store
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS, Resource


class _Server(Server):
    """Collects no garbage: there is none, and looking through all objects after each write would be measured."""

    def _collect(self) -> None:
        self.closing.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; the kubeconfig appears when everything is there."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    store = Store(seed="bench")
    load_definitions(store, [definitions.development_directory()])
    fill(DirectCluster(store), options.families)
    log = Log(options.timeline)

    def note(each: audit.Entry) -> None:
        log.note(
            Entry(
                at=time.monotonic(),
                agent=each.userAgent,
                verb=each.verb,
                resource=f"{each.resource}/{each.subresource}" if each.subresource else each.resource,
                name=each.name,
                code=each.code,
                received=each.bytesIn,
                sent=each.bytesOut,
            )
        )

    server = _Server(store, audit=note)
    with server.running():
        write_kubeconfig(options.kubeconfig, server.url)
        stop.wait()
    log.close()
    return 0


def fill(cluster: DirectCluster, path: Path) -> None:
    """Create the namespace and every family in the file."""
    cluster.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
    for family in read(path):
        _add(cluster, family)


def _add(cluster: DirectCluster, family: Family) -> None:
    owner = _create(cluster, COMPOSITIONS, NAMESPACE, family.composition)
    for each in family.slices:
        for reference in each["metadata"]["ownerReferences"]:
            reference["uid"] = owner["metadata"]["uid"]
        _create(cluster, RESOURCE_SLICES, NAMESPACE, each)
    for secret in family.secrets:
        _create(cluster, SECRETS, secret["metadata"]["namespace"], secret)


def _create(cluster: DirectCluster, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    """With its status, which a create alone does not take."""
    created = cluster.create(resource, namespace, body)
    if not body.get("status"):
        return created
    created["status"] = body["status"]
    return cluster.update(resource, namespace, body["metadata"]["name"], created, subresource="status")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.apiserver", description=__doc__)
    parser.add_argument("--families", type=Path, required=True, help="what is there from the start")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="written once the server answers")
    parser.add_argument("--timeline", type=Path, required=True, help="a line per finished request")
    return parser


if __name__ == "__main__":
    sys.exit(main())
