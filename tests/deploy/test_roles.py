"""The shipped roles grant what the processes do, and nothing more: seen on the embedded clusters and on a real server.

On the real one the processes are the identities that were applied, and admission policies are in force.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from console.cast import Server, start_servers
from console.permissions import Process
from console.stage import Stage
from console.waiting import NotInTime
from kube.cluster import Json
from kube.resources import NAMESPACES
from kube.resources import SECRETS as SECRET_KIND
from runtime.redis_server import RedisServer
from runtime.settings import Settings, variable
from tests.deploy.admission import COMPOSITIONS, NAMESPACE, SECRETS, SLICES, Installed
from tests.deploy.grants import Grant, asked_of_the_devcluster, asked_of_the_server, granted, tabled
from tests.deploy.lifetime import DEADLINE, GRACE, WATCHER, WORKER, Command, Lifetime
from tests.deploy.rendering import Kustomize, Rendered, environment
from tests.support.apiserver import ApiServer
from tests.support.command import Sexton
from tests.support.factories import composition_json, entry, manifest, slice_json, synthesis
from tests.support.factories import inventory as snapshots
from tests.support.redis import running_redis

ENO = ("eno-system", "eno-reconciler")
"""Namespace and ServiceAccount that the stand-in for Eno runs as."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as running:
        yield running


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


def commands(
    rendered: Rendered, redis: RedisServer, kubeconfigs: Mapping[str, tuple[Path, Path]]
) -> dict[str, Command]:
    """The processes as their manifests start them, with what Kubernetes would fill in.

    `kubeconfigs` are those of the upstream and the downstream cluster, by account.
    """
    found = {}
    for account, (upstream, downstream) in kubeconfigs.items():
        (container,) = rendered.named("Deployment", account)["spec"]["template"]["spec"]["containers"]
        _, *words = [*container["command"], *container.get("args", [])]
        module = ["-m", "celery"] if container["command"][0] == "celery" else []
        inherited = {name: value for name, value in os.environ.items() if name not in foreign()}
        given = {name: value for name, value in environment(container, rendered.objects).items() if value is not None}
        ours = {
            variable("pod_namespace"): NAMESPACE,
            variable("broker_url"): redis.url,
            variable("kubeconfig"): str(upstream),
            variable("downstream_kubeconfig"): str(downstream),
            variable("retirement_grace"): GRACE,
            # Two processes on one machine.
            variable("health_host"): "127.0.0.1",
            variable("health_port"): "0",
            "no_proxy": "127.0.0.1",
        }
        found[account] = Command([sys.executable, *module, *words], inherited | given | ours)
    return found


def foreign() -> set[str]:
    """Variables of whoever runs the tests that mean something to Sexton."""
    return {"KUBECONFIG", *map(variable, Settings.model_fields)}


def test_the_roles_grant_what_is_asked_of_the_embedded_clusters(
    kustomize: Kustomize, stage: Stage, redis: RedisServer
) -> None:
    upstream, downstream = start_servers(stage, time.monotonic() + DEADLINE)
    kubeconfigs = (upstream.kubeconfig, downstream.kubeconfig)
    with closing(upstream.connect()) as up, closing(downstream.connect()) as down:
        up.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})

        def squat(secret: Json) -> None:
            down.create(SECRET_KIND, secret["metadata"]["namespace"], secret)

        started = commands(kustomize.overlay("trial"), redis, {WATCHER: kubeconfigs, WORKER: kubeconfigs})
        Lifetime(stage, up, down, squat, started).unfold()

    rendered = kustomize.overlay("trial")
    for account in (WATCHER, WORKER):
        asked = asked_of_the_devcluster(account, upstream.audit_log, downstream.audit_log)
        assert asked == granted(rendered, account)


def test_the_roles_grant_what_is_asked_of_a_real_api_server(
    installed: Installed, audit_log: Path, stage: Stage, redis: RedisServer
) -> None:
    server = installed.server
    kubeconfigs = {account: kubeconfig(server, NAMESPACE, account, stage.directory) for account in (WATCHER, WORKER)}
    let_eno_in(installed)
    eno = Server("Eno", kubeconfig(server, *ENO, stage.directory), audit_log)
    with closing(eno.connect()) as cluster:
        started = commands(installed.rendered, redis, {name: (path, path) for name, path in kubeconfigs.items()})
        Lifetime(stage, cluster, cluster, lambda secret: installed.put(SECRETS, secret), started).unfold()

    for account in (WATCHER, WORKER):
        asked, refusals = asked_of_the_server(account, audit_log)
        assert refusals == []
        assert asked == granted(installed.rendered, account)


def kubeconfig(server: ApiServer, namespace: str, account: str, directory: Path) -> Path:
    """For a ServiceAccount that exists."""
    token = server.service_account_token(namespace, account)
    return server.kubeconfig_for(token, directory / f"{account}.kubeconfig")


def let_eno_in(installed: Installed) -> None:
    """An account for Eno, that may do everything."""
    namespace, name = ENO
    installed.run("create", "namespace", namespace)
    installed.run("create", "serviceaccount", name, "-n", namespace)
    installed.run(
        "create", "clusterrolebinding", "eno", "--clusterrole=cluster-admin", f"--serviceaccount={namespace}:{name}"
    )


@pytest.mark.parametrize("process", Process)
def test_the_roles_are_what_sexton_doctor_checks_for(kustomize: Kustomize, process: Process) -> None:
    assert granted(kustomize.overlay("trial"), f"sexton-{process}") == tabled(process)


def test_in_all_namespaces_only_what_is_looked_after_there_is_granted_there(kustomize: Kustomize) -> None:
    rendered = kustomize.extended("trial", ["components/all-namespaces"])
    everywhere = {grant for grant in granted(rendered, WORKER) if grant.namespace == "*"}
    assert Grant("*", "eno.azure.io", "compositions", "get") in everywhere
    assert not {(grant.resource, grant.verb) for grant in everywhere} & {
        ("compositions", "list"),
        ("resourceslices", "create"),
    }
    assert {grant.group for grant in everywhere} == {"eno.azure.io", ""}
    assert "secrets" not in {grant.resource for grant in everywhere}
    assert {grant.namespace for grant in granted(rendered, WATCHER) if grant.resource == "secrets"} == {"kube-system"}


@pytest.mark.parametrize("overlay", ["managed-redis", "per-queue"])
def test_the_overlays_of_one_cluster_grant_the_same(kustomize: Kustomize, overlay: str) -> None:
    for account in (WATCHER, WORKER):
        assert granted(kustomize.overlay(overlay), account) == granted(kustomize.overlay("trial"), account)


def test_two_clusters_share_what_one_grants(kustomize: Kustomize) -> None:
    upstream, downstream = kustomize.overlay("two-clusters"), kustomize.overlay("two-clusters/downstream")
    for account in (WATCHER, WORKER):
        ours = granted(upstream, account), granted(downstream, account)
        assert ours[0] | ours[1] == granted(kustomize.overlay("trial"), account)
        assert "secrets" not in {grant.resource for grant in ours[0]}
        assert {grant.resource for grant in ours[1]} == {"secrets"}


def test_flower_and_redis_have_no_permissions_and_no_token(kustomize: Kustomize) -> None:
    rendered = kustomize.overlay("trial")
    pods = dict(rendered.pods())
    for name in ("sexton-flower", "sexton-redis"):
        account = pods[name]["spec"].get("serviceAccountName", "default")
        assert granted(rendered, account) == set()
        assert pods[name]["spec"]["automountServiceAccountToken"] is False


# People

VIEWER, INVENTORY_VIEWER = "a-viewer", "an-inventory-viewer"
"""Accounts with sexton-viewer; the second has sexton-inventory-viewer, too."""

TITLE = f"{NAMESPACE}/looked-at"

COMMANDS: Mapping[str, tuple[int, set[str]]] = {
    "status": (0, {VIEWER, INVENTORY_VIEWER}),
    f"explain {TITLE}": (0, {VIEWER, INVENTORY_VIEWER}),
    f"wait {TITLE} --timeout 2": (NotInTime.exit_code, {VIEWER, INVENTORY_VIEWER}),
    f"plan {TITLE}": (0, {INVENTORY_VIEWER}),
    "inventory list": (0, {INVENTORY_VIEWER}),
    f"inventory show {TITLE}": (0, {INVENTORY_VIEWER}),
    f"inventory verify {TITLE}": (0, {INVENTORY_VIEWER}),
}
"""Everything that only reads: how it ends, and who may."""


def bound(account: str, namespace: str, kind: str, role: str) -> Json:
    """A RoleBinding."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{account}-{role}", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def test_people_see_everything_with_the_roles_for_viewers(
    installed: Installed, audit_log: Path, redis: RedisServer, tmp_path: Path
) -> None:
    slice_ = slice_json("looked-at-1", [manifest()], owner="looked-at", uid="uid")
    body = composition_json("looked-at", namespace=NAMESPACE, current=synthesis("one", slices=["looked-at-1"]))
    for each, path in ((slice_, SLICES), (body, COMPOSITIONS)):
        del each["metadata"]["resourceVersion"]
        each["metadata"]["namespace"] = NAMESPACE
        installed.put(path, each, status=each.get("status"))
    for secret in snapshots([entry()], name="looked-at", namespace=NAMESPACE):
        del secret["metadata"]["resourceVersion"]
        installed.put(SECRETS, secret)

    bindings = [bound(account, NAMESPACE, "ClusterRole", "sexton-viewer") for account in (VIEWER, INVENTORY_VIEWER)]
    bindings.append(bound(INVENTORY_VIEWER, "kube-system", "Role", "sexton-inventory-viewer"))
    text = yaml.safe_dump_all(bindings)
    installed.run("apply", "-f", "-", text=text)
    rendered = Rendered(f"{installed.rendered.text}---\n{text}")
    for account in (VIEWER, INVENTORY_VIEWER):
        installed.run("create", "serviceaccount", account, "-n", NAMESPACE)
        place = kubeconfig(installed.server, NAMESPACE, account, tmp_path)
        sexton = Sexton(
            {
                variable("kubeconfig"): str(place),
                variable("broker_url"): redis.url,
                variable("pod_namespace"): NAMESPACE,
                variable("enable_tombstone_recovery"): "true",
            }
        )
        for command, (code, who) in COMMANDS.items():
            if account in who:
                ended = sexton(*command.split())
                assert ended.code == code, f"{command} as {account}: {ended}"
        asked, refusals = asked_of_the_server(account, audit_log)
        assert refusals == []
        assert asked == granted(rendered, account)


def test_viewers_read_and_view_is_not_given_what_slices_may_hold(kustomize: Kustomize) -> None:
    viewer = kustomize.overlay("trial").named("ClusterRole", "sexton-viewer")
    assert {verb for rule in viewer["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in viewer["metadata"]["labels"]
    assert [rule.get("resourceNames") for rule in viewer["rules"] if "leases" in rule["resources"]] == [
        [f"{Settings.model_fields['instance'].default}-watcher"]
    ]
