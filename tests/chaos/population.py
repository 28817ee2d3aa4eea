"""Hundreds of objects in every situation that calls for work, and a stand-in for Eno that goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from devcluster.eno import Eno
from eno.decision import finished
from eno.errors import ApiError
from eno.objects import Composition
from eno.retirement import UNCLAIMED_SINCE_ANNOTATION
from eno.times import format_time
from kube.cluster import Cluster, Json, Query, list_all
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from tests.support.factories import (
    NAMESPACE,
    STAMP,
    composition_json,
    decided,
    entry,
    inventory,
    manifest,
    slice_json,
    synthesis,
)

LINEAGE = 5
"""Compositions that share a synthesizer, and so their history and what they want."""

PAUSE = 0.3
"""Seconds between two looks of Eno at everything."""

READY_STATE = {"reconciled": True, "ready": STAMP}


class Population:
    """Creates objects by the dozen; each kind of composition has names of its own."""

    def __init__(self, cluster: Cluster, *, namespace: str = NAMESPACE) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self.names: list[str] = []

    def lost(self, count: int, kind: str = "lost") -> None:
        """Recreated, with history: two resources are owed tombstones; every fifth has no slice left to take them."""
        self._each(kind, count, self._add_lost)

    def plain(self, count: int, kind: str = "plain") -> None:
        """Synthesized with history on hand: the decision is NotNeeded."""
        self._each(kind, count, self._add_plain)

    def ready(self, count: int, kind: str = "ready") -> None:
        """Decided and ready, and not recorded yet."""
        self._each(kind, count, self._add_ready)

    def littered(self, count: int, kind: str = "littered") -> None:
        """The same, with a slice that nothing refers to and one that waits for its finalizer to be removed."""
        self._each(kind, count, self._add_littered)

    def unclaimed(self, count: int, kind: str = "unclaimed") -> None:
        """Inventories that nobody has claimed for a month."""
        self._each(kind, count, self._add_unclaimed, owners=False)

    def some_of_each(self, count: int) -> None:
        """`count` objects, in every situation there is."""
        shares = {"lost": 0.3, "plain": 0.25, "ready": 0.25, "littered": 0.1, "unclaimed": 0.1}
        for kind, share in shares.items():
            getattr(self, kind)(round(count * share))

    def _each(self, kind: str, count: int, add: Callable[[str, str], object], *, owners: bool = True) -> None:
        names = [f"{kind}-{number}" for number in range(count)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, names, (f"{kind}-{number // LINEAGE}" for number in range(count))))
        self.names += names if owners else []

    def _add_lost(self, name: str, synthesizer: str) -> None:
        wanted = entry(name=f"{name}-kept")
        self._remember(name, synthesizer, [wanted, entry(name=f"{name}-a"), entry(name=f"{name}-b")])
        if int(name.rpartition("-")[2]) % LINEAGE == 0:
            self._compose(name, synthesizer, synthesis(f"of-{name}"), {})
        else:
            body = [manifest(name=f"{name}-kept")]
            self._compose(name, synthesizer, synthesis(f"of-{name}", slices=[f"{name}-0"]), {f"{name}-0": body})

    def _add_plain(self, name: str, synthesizer: str) -> None:
        current = synthesis(f"of-{name}", slices=[f"{name}-0"], tombstoneRecoveryRequired=False)
        self._compose(name, synthesizer, current, {f"{name}-0": [manifest(name=name)]})

    def _add_ready(self, name: str, synthesizer: str) -> str:
        decision = decided("NotNeeded", f"of-{name}")
        fields = {"ready": STAMP, "reconciled": STAMP, "tombstoneRecoveryStatus": decision}
        current = synthesis(f"of-{name}", slices=[f"{name}-0"], tombstoneRecoveryRequired=False, **fields)
        return self._compose(name, synthesizer, current, {f"{name}-0": [manifest(name=name)]}, [READY_STATE])

    def _add_littered(self, name: str, synthesizer: str) -> None:
        uid = self._add_ready(name, synthesizer)
        for each in ("old", "leaving"):
            self._add_slice(f"{name}-{each}", [manifest(name=f"{name}-{each}")], name, uid)
        self._cluster.delete(RESOURCE_SLICES, self._namespace, f"{name}-leaving")

    def _add_unclaimed(self, name: str, synthesizer: str) -> None:
        since = format_time(datetime.now(UTC) - timedelta(days=30))
        self._remember(name, synthesizer, [entry(name=name)], **{UNCLAIMED_SINCE_ANNOTATION: since})

    def _compose(
        self, name: str, synthesizer: str, current: Json, slices: dict[str, list[str]], states: Any = None
    ) -> str:
        """The composition last of all, so that nobody sees references that lead nowhere. Returns its UID."""
        body = composition_json(name, uid=None, namespace=self._namespace, synthesizer=synthesizer, current=current)
        created = self._cluster.create(COMPOSITIONS, self._namespace, body)
        uid = str(created["metadata"]["uid"])
        for each, manifests in slices.items():
            self._add_slice(each, manifests, name, uid, states)
        status = {"status": body["status"]}
        self._cluster.merge_patch(COMPOSITIONS, self._namespace, name, status, subresource="status")
        return uid

    def _add_slice(self, name: str, manifests: list[str], owner: str, uid: str, states: Any = None) -> None:
        body = slice_json(name, manifests, namespace=self._namespace, owner=owner, uid=uid, states=states)
        for key in ("uid", "resourceVersion"):
            del body["metadata"][key]
        self._cluster.create(RESOURCE_SLICES, self._namespace, body)
        if states is not None:
            patch = {"status": body["status"]}
            self._cluster.merge_patch(RESOURCE_SLICES, self._namespace, name, patch, subresource="status")

    def _remember(self, name: str, synthesizer: str, entries: Any, **annotations: str) -> None:
        for secret in inventory(entries, name=name, namespace=self._namespace, synthesizer=synthesizer):
            for key in ("uid", "resourceVersion"):
                del secret["metadata"][key]
            secret["metadata"]["annotations"] |= annotations
            self._cluster.create(SECRETS, "kube-system", secret)


@contextmanager
def reconciling(cluster: Cluster, namespace: str = NAMESPACE) -> Iterator[None]:
    """Eno at work during the block: what is decided is loaded, and every resource becomes ready."""
    over = threading.Event()
    eno = Eno(cluster, lambda: datetime.now(UTC))

    def work() -> None:
        while not over.wait(PAUSE):
            for item in list_all(cluster, Query(COMPOSITIONS, namespace)).items:
                composition = Composition.from_json(item)
                current = composition.current
                if current is not None and finished(current) and current.ready is None:
                    _load(eno, composition)

    thread = threading.Thread(target=work, daemon=True, name="eno")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def _load(eno: Eno, composition: Composition) -> None:
    try:
        eno.reconcile(composition.namespace, composition.name)
    except ApiError:
        """Somebody else wrote in between: the next look sees it."""
