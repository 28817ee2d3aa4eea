"""`sexton doctor` on real servers: whatever is wrong is named, and the line that it shows mends it."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.cast import Server, start_servers
from console.doctor.access import grant
from console.narrator import Narrator
from console.performance import perform
from console.permissions import PERMISSIONS, Process, Side, needed
from console.render import terminal
from console.stage import Stage
from console.story import tell
from devcluster.audit import read_entries
from devcluster.definitions import development_directory, load
from kube.cluster import Query
from kube.config import load_connection
from kube.http import HttpCluster
from kube.resources import COMPOSITIONS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, SECRETS, Resource
from runtime.broker import connect
from runtime.redis_server import RedisServer
from runtime.settings import Settings
from tests.deploy.rendering import Kustomize
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.command import Printed, Sexton
from tests.support.faults import Answer, status
from tests.support.proxy import Proxy, request
from tests.support.redis import running_redis
from tests.support.waiting import until

ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


def lease(cluster: HttpCluster, namespace: str) -> None:
    """As a leader leaves it that renewed it just now, and will for an hour."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "watcher-1", "leaseDurationSeconds": 3600, "renewTime": now}
    cluster.create(LEASES, namespace, {"metadata": {"name": "sexton-watcher"}, "spec": spec})


def checks(found: Printed, state: str = "") -> dict[str, dict[str, Any]]:
    """The checks in this state, or all, by area and name."""
    document = found.json
    return {f"{each['area']}: {each['check']}": each for each in document["checks"] if state in ("", each["state"])}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Stage() as stage:
        upstream, _ = start_servers(stage, time.monotonic() + 60)
        with closing(upstream.connect()) as cluster:
            cluster.create(NAMESPACES, None, {"metadata": {"name": "apps"}})
            lease(cluster, "apps")
        yield upstream


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def sexton(server: Server, redis: RedisServer) -> Sexton:
    return Sexton(
        {
            "SEXTON_KUBECONFIG": str(server.kubeconfig),
            "SEXTON_BROKER_URL": redis.url,
            "POD_NAMESPACE": "apps",
            "SEXTON_ENABLE_TOMBSTONE_RECOVERY": "true",
        }
    )


def test_where_all_is_well_it_ends_with_zero(sexton: Sexton) -> None:
    found = sexton("doctor")
    assert (found.code, found.err) == (0, ""), found.out
    assert "✗" not in found.out
    for expected in (
        "compositions.eno.azure.io",
        "namespace kube-system",
        "watcher-1",
        "worker: secrets",
        "noeviction",
    ):
        assert expected in found.out
    folded = [line for line in found.out.splitlines() if not line.startswith(("    celery", "    kubectl"))]
    assert max(map(len, folded)) <= 80


def test_for_machines_each_check_says_where_and_what(sexton: Sexton) -> None:
    found = sexton("doctor", "--output", "json")
    assert (found.code, found.err, found.json["ok"]) == (0, "", True)
    assert checks(found)["Upstream: leader"]["state"] == "ok"


def test_whoever_is_asked_about_is_all_that_is_checked(sexton: Sexton) -> None:
    names = checks(sexton("doctor", "--process", "watcher", "-o", "json"))
    assert "Upstream: watcher: compositions" in names
    assert not [name for name in names if "worker:" in name]


def test_a_redis_that_evicts_is_mended_by_the_line(sexton: Sexton, redis: RedisServer) -> None:
    with closing(connect(Settings.load(broker_url=redis.url))) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        found = sexton("doctor", "-o", "json")
        assert (found.code, found.err.count("\n")) == (1, 1)
        (failure,) = checks(found, "failed").values()
        assert "allkeys-lru" in failure["found"]
        client.execute_command(*redis_words(failure["fix"]))
    assert sexton("doctor").code == 0


def redis_words(line: str) -> list[str]:
    """The command in a redis-cli line."""
    words = shlex.split(line)
    assert words[0] == "redis-cli"
    return [word for word in words[1:] if word not in ("-h", "-p", "127.0.0.1") and not word.isdecimal()]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        pytest.param(["+@all", "~sexton:*", "&*"], "LLEN, LPUSH", id="keys of the queues"),
        pytest.param(["+@all", "~sexton*", "&*"], "SMEMBERS, SADD, SREM, LLEN, DEL", id="keys of Celery"),
        pytest.param(["+@all", "allkeys"], "PUBLISH, PSUBSCRIBE", id="channels"),
        pytest.param(["+@all", "-@write", "allkeys", "&*"], "SET, GETDEL, DEL", id="writing"),
        pytest.param(["+@all", "-multi", "allkeys", "&*"], "MULTI", id="transactions"),
        pytest.param(["+@all", "-info", "allkeys", "&*"], "INFO", id="the server's state"),
    ],
)
def test_what_an_acl_user_may_not_do_is_named_and_mended_by_the_line(
    sexton: Sexton, redis: RedisServer, rules: list[str], says: str
) -> None:
    as_bob = sexton.having(SEXTON_BROKER_URL=redis.url.replace("redis://", "redis://bob:hunter2@"))
    with closing(connect(Settings.load(broker_url=redis.url))) as client:
        client.flushall()
        client.execute_command("ACL", "SETUSER", "bob", "reset", "on", ">hunter2", *rules)
        before = sorted(client.scan_iter())
        found = as_bob("doctor", "-o", "json")
        failure = checks(found, "failed")["Redis: permissions"]
        assert f"user bob may not {says}" in failure["found"]
        assert "hunter2" not in found.out + found.err
        assert sorted(client.scan_iter()) == before
        client.execute_command(*redis_words(failure["fix"]))
    assert checks(as_bob("doctor", "-o", "json"))["Redis: permissions"]["state"] == "ok"


def test_a_missing_namespace_is_named(sexton: Sexton) -> None:
    found = checks(sexton.having(POD_NAMESPACE="nowhere")("doctor", "-o", "json"), "failed")
    assert found["Upstream: namespace nowhere"]["fix"].endswith(" create namespace nowhere")
    assert "there is no Lease nowhere/sexton-watcher" in found["Upstream: leader"]["found"]


def test_a_mistyped_variable_is_worth_a_look(sexton: Sexton) -> None:
    typo = sexton.having(SEXTON_INFER_REQUIERD="true", SEXTON_REDIS_SERVICE_HOST="10.0.0.1")
    found = checks(typo("doctor", "-o", "json"))["This command: variables"]
    assert found["state"] == "warning"
    assert "did you mean SEXTON_INFER_REQUIRED?" in found["found"]


def test_clocks_that_differ_are_named(sexton: Sexton, server: Server, tmp_path: Path) -> None:
    with Proxy(load_connection(str(server.kubeconfig))) as proxy:
        headers = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
        proxy.rule(request(path="^/version"), Answer(200, {"gitVersion": "v1.99.0"}, headers))
        found = sexton.having(SEXTON_KUBECONFIG=str(proxy.kubeconfig(tmp_path / "kubeconfig")))("doctor", "-o", "json")
    assert checks(found)["Upstream: API server"]["found"].startswith("v1.99.0 at ")
    assert "ahead of the server's" in checks(found, "failed")["Upstream: clock"]["found"]


def test_one_part_that_fails_in_the_middle_keeps_no_other_from_being_looked_at(
    sexton: Sexton, server: Server, tmp_path: Path
) -> None:
    with Proxy(load_connection(str(server.kubeconfig))) as proxy:
        for path in ("customresourcedefinitions", "/namespaces/apps$", "/leases/", "selfsubjectaccessreviews"):
            proxy.rule(request(path=path), Answer(500, status(500, "InternalError", "etcd is away")))
        found = sexton.having(SEXTON_KUBECONFIG=str(proxy.kubeconfig(tmp_path / "kubeconfig")))("doctor", "-o", "json")
    assert (found.code, "Traceback" in found.err) == (1, False)
    failures = checks(found, "failed")
    assert {name.partition(": ")[0] for name in failures} == {"Upstream", "Downstream"}
    assert len([name for name in failures if name.startswith("Upstream")]) >= 5
    assert checks(found)["Redis: server"]["state"] == "ok"


# The table of permissions, held against real processes


def test_whatever_the_processes_of_the_demo_ask_is_in_the_table() -> None:
    """Their whole life: recovered, recorded, cleaned up, deleted."""
    settings = Settings.load(pod_namespace="demo")
    with Stage() as stage:
        with Path("/dev/null").open("w") as nowhere:
            perform(stage, tell(None, None), Narrator(terminal(nowhere)), time.monotonic() + 180)
        entries = {side: read_entries(stage.directory / f"{side}.audit") for side in Side}
    for side, process in ((side, process) for side in Side for process in Process):
        granted = {
            (verb, each.plural, each.namespace(settings))
            for each in needed([process], side, recovery=True)
            for verb in each.verbs
        }
        asked = {
            (each.verb, f"{each.resource}/{each.subresource}" if each.subresource else each.resource, each.namespace)
            for each in entries[side]
            if each.userAgent.startswith(f"sexton-{process}/")
        }
        assert asked, (side, process)
        assert asked - granted == set(), (side, process)


# A real kube-apiserver


@pytest.fixture(scope="module")
def real(apiserver: ApiServer) -> Iterator[ApiServer]:
    """A kube-apiserver of its own: definitions of Eno's kinds are changed here."""
    with running_apiserver(apiserver.assets) as running:
        yield running


@pytest.fixture(scope="module")
def admin(real: ApiServer) -> Iterator[HttpCluster]:
    """Who may do everything on it, where Eno and a leader are."""
    with closing(HttpCluster(load_connection(str(real.kubeconfig)), user_agent="test")) as cluster:
        for definition in load(development_directory()):
            cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        cluster.create(NAMESPACES, None, {"metadata": {"name": "apps"}})
        lease(cluster, "apps")
        until(lambda: established(cluster), "Eno's kinds are established")
        yield cluster


def established(cluster: HttpCluster) -> bool:
    body = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, None, COMPOSITIONS.qualified)
    return any(each["type"] == "Established" and each["status"] == "True" for each in body["status"]["conditions"])


def kubectl(real: ApiServer, line: str) -> str:
    """Run a kubectl line as the admin, `&&` and all."""
    command = line.replace("kubectl ", f"{real.assets / 'kubectl'} --kubeconfig {real.kubeconfig} ")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def as_account(real: ApiServer, sexton: Sexton, name: str, directory: Path) -> Sexton:
    """The command with the identity of a new ServiceAccount, which may do nothing yet."""
    kubectl(real, f"kubectl create serviceaccount -n apps {name}")
    path = real.kubeconfig_for(real.service_account_token("apps", name), directory / name)
    return sexton.having(SEXTON_KUBECONFIG=str(path))


def test_on_a_real_server_all_is_well_for_an_admin(real: ApiServer, admin: HttpCluster, sexton: Sexton) -> None:
    found = sexton.having(SEXTON_KUBECONFIG=str(real.kubeconfig))("doctor", "-o", "json")
    assert (found.code, checks(found, "failed")) == (0, {})
    assert checks(found)["Upstream: API server"]["found"].startswith(f"{real.version} at ")
    assert admin.server == real.url


@pytest.mark.parametrize("process", Process)
def test_each_missing_verb_is_named_and_granted_by_its_line(
    real: ApiServer, admin: HttpCluster, sexton: Sexton, process: Process, tmp_path: Path
) -> None:
    account = as_account(real, sexton, f"sexton-{process}", tmp_path)
    before = account("doctor", "--process", process, "-o", "json")
    needs = [each for side in Side for each in needed([process], side, recovery=True)]
    failures = [each for each in before.json["checks"] if each["state"] == "failed"]
    assert before.code == 1
    for each, need in zip(failures, needs, strict=True):
        where = f"system:serviceaccount:apps:sexton-{process} may not {', '.join(need.verbs)} in "
        assert where in each["found"]
        # Somebody else may have been given the same.
        kubectl(real, each["fix"].replace("apps:sexton-", "apps:other-"))
        kubectl(real, each["fix"])

    # What is granted takes a moment to be known everywhere.
    until(lambda: account("doctor", "--process", process).code == 0, "all is well")

    assert admin.server == real.url


def test_the_shipped_roles_are_all_that_the_processes_need(
    real: ApiServer, admin: HttpCluster, sexton: Sexton, tmp_path: Path
) -> None:
    """Their Lease is narrowed to its name."""
    rendered = Kustomize(str(real.assets / "kubectl"), tmp_path).overlay("trial")
    kinds = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    kubectl(real, "kubectl create namespace eno")
    (tmp_path / "roles.yaml").write_text(yaml.safe_dump_all(rendered.kind(*kinds)))
    kubectl(real, f"kubectl apply -f {tmp_path / 'roles.yaml'}")
    lease(admin, "eno")
    for process in Process:
        path = real.kubeconfig_for(real.service_account_token("eno", f"sexton-{process}"), tmp_path / process)
        doctor = sexton.having(SEXTON_KUBECONFIG=str(path), POD_NAMESPACE="eno")

        def well(doctor: Sexton = doctor, process: Process = process) -> bool:
            return doctor("doctor", "--process", process).code == 0

        until(well, f"all is well for the {process}")


# User names as single sign-on and certificates make them.
PEOPLE = ["oidc:auth0|5f7c9d", "CN=Alice Smith,O=x", "x;id"]


def test_whatever_an_identity_is_called_it_is_the_one_that_is_granted_to(real: ApiServer, admin: HttpCluster) -> None:
    need = next(each for each in PERMISSIONS if each.only)
    may = {who: f"kubectl auth can-i get leases/only-this -n apps --as={shlex.quote(who)} || true" for who in PEOPLE}
    lines = [
        grant(need, need.verbs, "apps", who, only="only-this", kubectl=f"kubectl --server={real.url}") for who in PEOPLE
    ]
    for line in [*lines, *lines]:
        kubectl(real, line)

    for who in PEOPLE:
        until(lambda who=who: kubectl(real, may[who]).strip() == "yes", f"{who} is granted it")
    assert kubectl(real, may["x;id"].replace("only-this", "another")).strip() == "no"
    assert kubectl(real, may["x;id"].replace("'x;id'", "x")).strip() == "no"
    bindings = admin.list_page(Query(ROLE_BINDINGS, "apps"), limit=50).items
    subjects = [each["subjects"] for each in bindings if "only-this" in each["metadata"]["name"]]
    assert sorted(subject["name"] for (subject,) in subjects) == sorted(PEOPLE)


def test_lines_for_another_cluster_than_the_current_one_go_there(
    real: ApiServer, admin: HttpCluster, sexton: Sexton, tmp_path: Path
) -> None:
    account = as_account(real, sexton, "remote", tmp_path)
    downstream = sexton.having(SEXTON_DOWNSTREAM_KUBECONFIG=account.environment["SEXTON_KUBECONFIG"])
    failures = checks(downstream("doctor", "-o", "json"), "failed")
    assert failures
    for name, each in failures.items():
        assert name.startswith("Downstream: ")
        assert each["fix"].startswith(f"kubectl --server={real.url} create ")
    assert admin.server == real.url


def test_an_identity_that_may_not_read_definitions_is_told_how_to_look(
    real: ApiServer, admin: HttpCluster, sexton: Sexton, tmp_path: Path
) -> None:
    found = checks(as_account(real, sexton, "curious", tmp_path)("doctor", "-o", "json"), "warning")
    definition = found["Upstream: compositions.eno.azure.io"]
    assert "this identity may not read its schema" in definition["found"]
    assert "tombstoneRecoveryStatus" in kubectl(real, definition["fix"])
    assert "Upstream: namespace apps" in found
    assert admin.server == real.url


def test_a_definition_that_drops_a_decision_is_named_field_by_field_and_mended_by_the_line(
    real: ApiServer, admin: HttpCluster, sexton: Sexton
) -> None:
    body = admin.get(CUSTOM_RESOURCE_DEFINITIONS, None, COMPOSITIONS.qualified)
    (version,) = body["spec"]["versions"]
    current = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["currentSynthesis"]
    del current["properties"]["tombstoneRecoveryRequired"]
    del current["properties"]["tombstoneRecoveryStatus"]["properties"]["synthesisUUID"]
    admin.update(CUSTOM_RESOURCE_DEFINITIONS, None, COMPOSITIONS.qualified, body)
    as_admin = sexton.having(SEXTON_KUBECONFIG=str(real.kubeconfig))

    found = [each for each in as_admin("doctor", "-o", "json").json["checks"] if each["state"] == "failed"]

    assert [each["found"] for each in found] == [
        "status.currentSynthesis.tombstoneRecoveryRequired is dropped by its schema",
        "status.currentSynthesis.tombstoneRecoveryStatus.synthesisUUID is dropped by its schema",
    ]
    # Here the development definitions are the newer ones.
    kubectl(real, found[0]["fix"].partition("#")[0].replace("CRDS", "deploy/crds"))
    assert as_admin("doctor").code == 0


def test_without_eno_each_kind_is_named(real: ApiServer, admin: HttpCluster, sexton: Sexton) -> None:
    bare = sexton.having(SEXTON_KUBECONFIG=str(real.kubeconfig))
    admin.delete(CUSTOM_RESOURCE_DEFINITIONS, None, "resourceslices.eno.azure.io")

    def gone() -> bool:
        return "Upstream: resourceslices.eno.azure.io" in checks(bare("doctor", "-o", "json"), "failed")

    until(gone, "the definition is gone")
    found = checks(bare("doctor", "-o", "json"), "failed")
    assert list(found) == ["Upstream: resourceslices.eno.azure.io"]
    assert "Eno is not installed" in found["Upstream: resourceslices.eno.azure.io"]["found"]


def test_no_secret_is_ever_read(server: Server, sexton: Sexton) -> None:
    before = len(read_entries(server.audit_log))
    sexton("doctor")
    entries = read_entries(server.audit_log)[before:]
    assert json.dumps([each.resource for each in entries]).count(SECRETS.plural) == 0
    assert {each.verb for each in entries} <= {"get", "create"}
