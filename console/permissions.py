"""What each process asks of each API server: one table, for `sexton doctor` and for the roles in `deploy/`.

A permission is granted to an identity, and there are four: watcher and workers, upstream and downstream. The table
is what the code calls and nothing more; a test holds it against the requests that the processes really make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from eno.inventory.secrets import INVENTORY_NAMESPACE
from kube.resources import COMPOSITIONS, EVENTS, LEASES, RESOURCE_SLICES, SECRETS, Resource
from runtime.settings import Settings


class Process(StrEnum):
    """A kind of process with an identity of its own."""

    WATCHER = "watcher"
    WORKER = "worker"


class Side(StrEnum):
    """Which API server."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


class Place(StrEnum):
    """Where a permission is needed."""

    WATCHED = "the watch scope"
    """The composition namespace, or all of them."""

    RECOVERED = "the recovery namespace"
    OWN = "the process' own namespace"
    INVENTORIES = "the inventories' namespace"


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one resource, as in a rule of a Role. `recovery`: needed only where recovery is enabled.

    `only`: on the one object of this name, in which `{instance}` stands for the instance. Not for `create`, `list` and
    `watch`, which Kubernetes does not narrow by name.
    """

    process: Process
    side: Side
    place: Place
    resource: Resource
    verbs: tuple[str, ...]
    why: str
    subresource: str = ""
    recovery: bool = False
    only: str = ""

    @property
    def plural(self) -> str:
        """As in a rule: `compositions/status`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural

    @property
    def qualified(self) -> str:
        """As on kubectl's command line: `compositions.eno.azure.io/status`."""
        return f"{self.resource.qualified}/{self.subresource}" if self.subresource else self.resource.qualified

    def name(self, settings: Settings) -> str:
        """The name of the one object that it is needed on, empty for any."""
        return self.only.format(instance=settings.instance)

    def namespace(self, settings: Settings) -> str:
        """The namespace that it is needed in with these settings, empty for all. Raises UsageError without a scope."""
        match self.place:
            case Place.WATCHED:
                return settings.scope.composition_namespace
            case Place.INVENTORIES:
                return INVENTORY_NAMESPACE
            case _:
                return settings.pod_namespace or settings.scope.composition_namespace


_WATCHER_UP = (Process.WATCHER, Side.UPSTREAM)
_WORKER_UP = (Process.WORKER, Side.UPSTREAM)

PERMISSIONS: tuple[Permission, ...] = (
    Permission(*_WATCHER_UP, Place.WATCHED, COMPOSITIONS, ("list", "watch"), "to follow compositions"),
    Permission(*_WATCHER_UP, Place.WATCHED, RESOURCE_SLICES, ("list", "watch"), "to follow slices (metadata only)"),
    Permission(*_WATCHER_UP, Place.OWN, LEASES, ("create",), "to take part in the election of a leader"),
    Permission(*_WATCHER_UP, Place.OWN, LEASES, ("get", "update"), "to elect one leader", only="{instance}-watcher"),
    Permission(
        Process.WATCHER,
        Side.DOWNSTREAM,
        Place.INVENTORIES,
        SECRETS,
        ("list", "watch"),
        "to follow inventories (metadata only)",
        recovery=True,
    ),
    Permission(
        *_WORKER_UP, Place.WATCHED, COMPOSITIONS, ("get", "patch"), "to look fresh, and to request a resynthesis"
    ),
    Permission(
        *_WORKER_UP, Place.RECOVERED, COMPOSITIONS, ("list",), "to ask what others of the lineage want", recovery=True
    ),
    Permission(
        *_WORKER_UP, Place.WATCHED, COMPOSITIONS, ("patch",), "to publish decision and readiness", subresource="status"
    ),
    Permission(
        *_WORKER_UP,
        Place.WATCHED,
        RESOURCE_SLICES,
        ("get", "patch", "delete"),
        "to append tombstones, and to clean up",
    ),
    Permission(*_WORKER_UP, Place.RECOVERED, RESOURCE_SLICES, ("create",), "to create overflow slices", recovery=True),
    Permission(*_WORKER_UP, Place.WATCHED, EVENTS, ("create",), "to tell of decisions"),
    Permission(
        Process.WORKER,
        Side.DOWNSTREAM,
        Place.INVENTORIES,
        SECRETS,
        ("get", "list", "create", "patch", "delete"),
        "to record, read and retire inventories",
        recovery=True,
    ),
)


def needed(processes: Iterable[Process], side: Side, *, recovery: bool) -> Iterator[Permission]:
    """What these processes need of one API server."""
    wanted = frozenset(processes)
    for each in PERMISSIONS:
        if each.process in wanted and each.side is side and (recovery or not each.recovery):
            yield each
