"""`python -m bench.bare`: recover, one composition after the other, in one process without any queue.

What a recovery costs by itself: the bound for one worker process.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from bench.site import PEER_AGENT, UNLIMITED
from eno.objects import Composition
from kube.cluster import Query, list_all
from kube.config import load_connection
from kube.http import HttpCluster
from kube.resources import COMPOSITIONS
from runtime.messages import RecoverMessage
from runtime.settings import Settings
from workers.context import Context
from workers.handlers.recover import recover


def main() -> int:
    """Recover every composition there is. Returns the exit code."""
    logging.basicConfig(level=logging.INFO)
    settings = Settings.load()
    cluster = HttpCluster(load_connection(str(settings.kubeconfig)), user_agent=PEER_AGENT, limits=UNLIMITED)
    context = Context(cluster, cluster, lambda: datetime.now(UTC), settings)
    for item in list_all(cluster, Query(COMPOSITIONS, settings.pod_namespace)).items:
        composition = Composition.from_json(item)
        if composition.current is not None:
            recover(
                RecoverMessage(
                    namespace=composition.namespace,
                    name=composition.name,
                    uid=composition.uid,
                    synthesis_uuid=composition.current.uuid,
                ),
                context,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
