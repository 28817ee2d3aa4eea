"""`python -m bench.peers informer|kopf`: what others hold of the same compositions and slices.

- `informer`: the official client's SharedInformer, which keeps whole objects.
- `kopf`: an operator that keeps a name and a version of each, no more. Its own indexes would take minutes here:
  their start is quadratic.

Both print `synced` when they have seen everything, and then wait to be ended.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf
import kubernetes
from kubernetes.informer import SharedInformer

from bench.inputs import NAMESPACE
from bench.site import PEER_AGENT
from kube.config import load_connection
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, Resource

_FOLLOWED = (COMPOSITIONS, RESOURCE_SLICES)


@dataclass(frozen=True, slots=True)
class _Metadata:
    resource_version: str


@dataclass(frozen=True, slots=True)
class _Listed:
    """The shape that the informer expects; for custom resources the client answers with dictionaries."""

    items: Sequence[dict[str, Any]]
    metadata: _Metadata


def informer(kubeconfig: Path, objects: int) -> None:
    """Follow both kinds until ended."""
    kubernetes.config.load_kube_config(str(kubeconfig))
    client = kubernetes.client.ApiClient()
    client.user_agent = PEER_AGENT
    api = kubernetes.client.CustomObjectsApi(client)
    informers = [SharedInformer(_lister(api, resource), namespace=NAMESPACE) for resource in _FOLLOWED]
    for each in informers:
        each.start()
    while sum(len(each.cache.list_keys()) for each in informers) < objects:
        time.sleep(0.02)
    print("synced", flush=True)
    signal.sigwait({signal.SIGTERM})


def _lister(api: Any, resource: Resource) -> Callable[..., Any]:
    def lister(**options: Any) -> Any:
        answer = api.list_namespaced_custom_object(resource.group, resource.version, plural=resource.plural, **options)
        if options.get("watch"):
            return answer
        return _Listed(answer["items"], _Metadata(answer["metadata"]["resourceVersion"]))

    return lister


def operator(kubeconfig: Path, objects: int) -> None:
    """Follow both kinds until ended."""
    registry = kopf.OperatorRegistry()
    known: dict[tuple[str, str], str] = {}

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=load_connection(str(kubeconfig)).server)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False

    async def keep(body: kopf.Body, **_: Any) -> None:
        known[str(body["kind"]), str(body.metadata.name)] = str(body.metadata["resourceVersion"])
        if len(known) == objects:
            print("synced", flush=True)

    for resource in _FOLLOWED:
        kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)(keep)
    kopf.run(registry=registry, standalone=True, namespaces=[NAMESPACE])


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("peer", choices=("informer", "kopf"))
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--objects", type=int, required=True, help="how many there are to see")
    options = parser.parse_args(arguments)
    {"informer": informer, "kopf": operator}[options.peer](options.kubeconfig, options.objects)
    return 0


if __name__ == "__main__":
    sys.exit(main())
