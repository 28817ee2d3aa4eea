"""Sexton's recover as a kopf operator in one process: `python -m bench.kopf_operator`.

The handler is the product's, on the product's API client; kopf brings the watching, the retries and a pool of
`--threads` threads. It is a handler of raw events, kopf's cheapest kind: nothing is stored on the objects.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import kopf

from bench.inputs import NAMESPACE
from bench.site import PEER_AGENT, UNLIMITED
from eno.decision import recovery_due
from eno.errors import SextonError
from eno.objects import Composition
from kube.config import load_connection
from kube.http import HttpCluster
from runtime.messages import RecoverMessage
from runtime.settings import Settings
from workers.context import Context
from workers.handlers.recover import recover

log = logging.getLogger(__name__)


def register(context: Context, threads: int) -> kopf.OperatorRegistry:
    """The operator's handlers."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.execution.max_workers = threads
        settings.posting.enabled = False

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=load_connection(str(context.settings.kubeconfig)).server)

    @kopf.on.event("eno.azure.io", "v1", "compositions", registry=registry)
    def look(body: kopf.Body, **_: Any) -> None:
        composition = Composition.from_json(dict(body))
        if composition.current is None or not recovery_due(composition):
            return
        message = RecoverMessage(
            namespace=composition.namespace,
            name=composition.name,
            uid=composition.uid,
            synthesis_uuid=composition.current.uuid,
        )
        try:
            recover(message, context)
        except SextonError as error:
            log.warning("%s", error)

    return registry


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.kopf_operator", description=__doc__)
    parser.add_argument("--threads", type=int, required=True, help="that execute handlers")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO)
    settings = Settings.load()
    cluster = HttpCluster(load_connection(str(settings.kubeconfig)), user_agent=PEER_AGENT, limits=UNLIMITED)
    context = Context(cluster, cluster, lambda: datetime.now(UTC), settings)
    kopf.run(registry=register(context, options.threads), standalone=True, namespaces=[NAMESPACE])
    return 0


if __name__ == "__main__":
    sys.exit(main())
