"""The whole examination: every check that can be made, whatever else is away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

from console.doctor.access import check_access
from console.doctor.broker import check_redis
from console.doctor.checks import Check, Examination, broken, failed, ok, skipped, warning
from console.doctor.definitions import check_definition
from console.doctor.environment import AREA as OURS
from console.doctor.environment import check_environment
from console.doctor.leader import check_leader
from console.doctor.servers import Patient, check_namespace, check_server
from console.options import FLAGS
from console.permissions import Process, Side, needed
from eno.errors import ApiError, UsageError
from eno.inventory.secrets import INVENTORY_NAMESPACE
from kube.config import load_connection
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from runtime.settings import Settings, variable

UPSTREAM, DOWNSTREAM = "Upstream", "Downstream"


@dataclass(frozen=True, slots=True)
class Doctor:
    """Examines with these settings, which name a scope. `in_scope`: and a person chose it. `clock` is ours."""

    settings: Settings
    processes: Collection[Process]
    clock: Callable[[], datetime]
    in_scope: bool = True

    def upstream(self) -> Iterator[Check]:
        """Where compositions are."""
        yield from self._server(UPSTREAM, self.settings.kubeconfig, self._look_upstream)

    def downstream(self) -> Iterator[Check]:
        """Where inventories are, which only recovery has to do with."""
        if not self.settings.enable_tombstone_recovery:
            yield skipped(DOWNSTREAM, "inventories", "recovery is not enabled with these settings")
            return
        path = self.settings.downstream_kubeconfig or self.settings.kubeconfig
        yield from self._server(DOWNSTREAM, path, self._look_downstream)

    def _server(
        self, area: str, kubeconfig: Path | None, look: Callable[[Patient, str], Iterator[Check]]
    ) -> Iterator[Check]:
        try:
            connection = load_connection(None if kubeconfig is None else str(kubeconfig))
        except UsageError as error:
            yield broken(area, "kubeconfig", error)
            yield skipped(area, "everything else", "there is no way to reach the API server")
            return
        with closing(Patient(connection)) as cluster:
            try:
                yield from check_server(area, cluster, self.clock())
            except ApiError as error:
                yield broken(area, "API server", error, f"{_kubectl(kubeconfig)} version")
                yield skipped(area, "everything else", "the API server does not answer")
                return
            # Not with its kubeconfig, which is that of somebody who may not grant anything.
            yield from look(cluster, f"kubectl --server={quote(cluster.server)}" if kubeconfig else "kubectl")

    def _look_upstream(self, cluster: Patient, kubectl: str) -> Iterator[Check]:
        settings = self.settings
        watched = settings.scope.composition_namespace
        for kind in (COMPOSITIONS, RESOURCE_SLICES):
            yield from check_definition(UPSTREAM, cluster, kind, watched, kubectl)
        namespaces = {watched: "the compositions' namespace"} if watched else {}
        namespaces |= {settings.pod_namespace: "the processes' namespace"} if settings.pod_namespace else {}
        for name, what in namespaces.items():
            yield check_namespace(UPSTREAM, cluster, name, what, kubectl)
        yield check_leader(UPSTREAM, cluster, settings, self.clock(), kubectl)
        yield from self._access(UPSTREAM, cluster, Side.UPSTREAM, kubectl)

    def _look_downstream(self, cluster: Patient, kubectl: str) -> Iterator[Check]:
        yield check_namespace(DOWNSTREAM, cluster, INVENTORY_NAMESPACE, "the inventories' namespace", kubectl)
        yield from self._access(DOWNSTREAM, cluster, Side.DOWNSTREAM, kubectl)

    def _access(self, area: str, cluster: Patient, side: Side, kubectl: str) -> Iterator[Check]:
        if not self.in_scope:
            yield skipped(area, "permissions", "no namespace is named to have them in")
            return
        wanted = needed(self.processes, side, recovery=self.settings.enable_tombstone_recovery)
        yield from check_access(area, cluster, wanted, self.settings, kubectl)


def examine(
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    processes: Collection[Process],
    clock: Callable[[], datetime],
) -> Examination:
    """Every check, in order. Raises nothing: whatever goes wrong is what it is about."""
    checks = [*check_environment(environment)]
    try:
        settings = Settings.load(FLAGS, **flags)
    except UsageError as error:
        return Examination([*checks, _unusable(error)])
    scoped = settings.all_namespaces or bool(settings.composition_namespace or settings.pod_namespace)
    checks += _settings(settings) if scoped else [_no_scope()]
    doctor = Doctor(settings if scoped else _everywhere(settings), processes, clock, scoped)
    return Examination([*checks, *doctor.upstream(), *doctor.downstream(), *check_redis(settings)])


def _settings(settings: Settings) -> Iterable[Check]:
    namespace = settings.scope.composition_namespace
    yield ok(
        OURS, "settings", f"instance {settings.instance}, {f'namespace {namespace}' if namespace else 'all namespaces'}"
    )
    if settings.enable_tombstone_recovery:
        yield ok(OURS, "recovery", f"enabled in namespace {settings.pod_namespace}")
    else:
        found = "not enabled with these settings, so what it needs is not checked"
        yield warning(
            OURS, "recovery", found, f"export {variable('enable_tombstone_recovery')}=true POD_NAMESPACE=NAMESPACE"
        )


def _no_scope() -> Check:
    found = "no namespace to look after"
    return failed(OURS, "settings", found, "export POD_NAMESPACE=NAMESPACE   # that of watcher and workers")


def _everywhere(settings: Settings) -> Settings:
    return settings.model_copy(update={"all_namespaces": True})


def _unusable(error: UsageError) -> Check:
    return failed(OURS, "settings", error.what, error.hint or "correct the variable; docs/settings.md says how")


def _kubectl(kubeconfig: Path | None) -> str:
    return f"kubectl --kubeconfig={quote(str(kubeconfig))}" if kubeconfig else "kubectl"
