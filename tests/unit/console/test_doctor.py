"""What the doctor finds, check by check, and the line that mends it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.exceptions import NoPermissionError

from console import render
from console.doctor import page
from console.doctor.access import grant
from console.doctor.checks import Check, Examination, State, broken, failed, ok
from console.doctor.commands import Probe, asked, missing_rule, probes
from console.doctor.definitions import FIELDS, defects_of, missing_fields
from console.doctor.environment import check_environment, unknown_variables
from console.doctor.examination import examine
from console.doctor.leader import check_leader
from console.permissions import PERMISSIONS, Process
from devcluster.definitions import development_directory
from eno.errors import BrokerUnavailable, Forbidden, Terminal, Unreachable
from kube.cluster import Json
from kube.resources import COMPOSITIONS, LEASES, RESOURCE_SLICES, Resource
from runtime.settings import Settings, variable
from tests.support.factories import NAMESPACE, NOW
from tests.support.tap import fail
from tests.support.world import World

# Variables


@pytest.mark.parametrize(
    ("name", "close"),
    [
        pytest.param("SEXTON_ENABLE_TOMBSTONE_RECOVRY", "SEXTON_ENABLE_TOMBSTONE_RECOVERY", id="a slip"),
        pytest.param("SEXTON_BROKER", "SEXTON_BROKER_URL", id="a part"),
        pytest.param("SEXTON_POD_NAMESPACE", "", id="nothing close"),
        pytest.param("SEXTON_METRICS_PORTS", "", id="almost a service link"),
    ],
)
def test_a_variable_that_is_no_setting_is_named_with_the_closest_one(name: str, close: str) -> None:
    ((found, suggested),) = unknown_variables([name, "PATH", "POD_NAMESPACE"])
    assert found == name
    assert not close or suggested == close


@pytest.mark.parametrize(
    "name",
    [
        "SEXTON_REDIS_SERVICE_HOST",
        "SEXTON_REDIS_SERVICE_PORT",
        "SEXTON_REDIS_SERVICE_PORT_REDIS",
        "SEXTON_REDIS_PORT",
        "SEXTON_REDIS_PORT_6379_TCP",
        "SEXTON_REDIS_PORT_6379_TCP_PROTO",
        "SEXTON_REDIS_PORT_6379_TCP_PORT",
        "SEXTON_REDIS_PORT_6379_TCP_ADDR",
        "SEXTON_PORT_53_UDP_ADDR",
        "SEXTON_SERVICE_HOST",
    ],
)
def test_what_kubernetes_sets_for_a_service_is_nobodys_mistake(name: str) -> None:
    assert list(unknown_variables([name])) == []


def test_no_setting_is_unknown() -> None:
    assert list(unknown_variables(variable(name) for name in Settings.model_fields)) == []


def test_an_unknown_variable_is_worth_a_look_and_no_failure() -> None:
    checks = list(check_environment({"SEXTON_BROKER": "x"}))
    assert [check.state for check in checks] == [State.OK, State.WARNING]
    assert checks[1].fix == 'export SEXTON_BROKER_URL="$SEXTON_BROKER"; unset SEXTON_BROKER'
    assert [check.state for check in check_environment({})] == [State.OK, State.OK]


# Definitions


def definition(resource: Resource = COMPOSITIONS) -> Json:
    path = development_directory() / f"{resource.plural}.yaml"
    body: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    body["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    # Its schemas share parts, by YAML aliases.
    copied: Json = json.loads(json.dumps(body))
    return copied


def properties(body: Json, *path: str) -> Json:
    node: Json = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path:
        node = node["properties"][part]
    found: Json = node["properties"]
    return found


@pytest.mark.parametrize("resource", [COMPOSITIONS, RESOURCE_SLICES], ids=lambda resource: resource.plural)
def test_the_development_definitions_keep_every_field(resource: Resource) -> None:
    assert list(defects_of(definition(resource), resource)) == []


@pytest.mark.parametrize("path", FIELDS[COMPOSITIONS])
def test_each_field_that_a_schema_drops_is_named(path: str) -> None:
    body, parts = definition(), path.split(".")
    del properties(body, *parts[:-1])[parts[-1]]
    assert list(defects_of(body, COMPOSITIONS)) == [f"{path} is dropped by its schema"]


def test_of_a_part_that_is_missing_only_the_part_is_named() -> None:
    body = definition()
    del properties(body, "status")["currentSynthesis"]
    assert list(defects_of(body, COMPOSITIONS)) == ["status.currentSynthesis is dropped by its schema"]


def test_a_field_of_slices_is_named_with_its_array() -> None:
    body = definition(RESOURCE_SLICES)
    del properties(body, "spec")["resources"]["items"]["properties"]["deleted"]
    assert list(defects_of(body, RESOURCE_SLICES)) == ["spec.resources[].deleted is dropped by its schema"]


def test_a_field_of_another_type_is_named_with_it() -> None:
    body = definition()
    decision = properties(body, "status", "currentSynthesis", "tombstoneRecoveryStatus")
    decision["status"]["type"] = "string"
    assert list(defects_of(body, COMPOSITIONS)) == [
        "status.currentSynthesis.tombstoneRecoveryStatus.status is string in its schema and not boolean"
    ]


def test_what_a_schema_preserves_without_knowing_it_is_kept() -> None:
    free = {
        "type": "object",
        "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    assert list(missing_fields(free, FIELDS[COMPOSITIONS])) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"served": False}, "v1 is not served (only nothing is)", id="not served"),
        pytest.param({"name": "v2"}, "v1 is not served (only v2 is)", id="another version"),
        pytest.param({"subresources": {}}, "it has no status subresource", id="no subresource"),
    ],
)
def test_what_is_wrong_with_the_version_is_said(change: Json, says: str) -> None:
    body = definition()
    body["spec"]["versions"][0] |= change
    assert list(defects_of(body, COMPOSITIONS)) == [says]


def test_a_definition_that_is_not_established_says_why() -> None:
    body = definition()
    body["status"]["conditions"] = [{"type": "Established", "status": "False", "message": "the name is taken"}]
    assert list(defects_of(body, COMPOSITIONS)) == ["it is not established: the name is taken"]


# The leader


def lease(world: World, **spec: Any) -> None:
    body = {"metadata": {"name": "sexton-watcher"}, "spec": {"leaseDurationSeconds": 15, **spec}}
    world.up.create(LEASES, NAMESPACE, body)


def held(seconds: float, **spec: Any) -> Callable[[World], None]:
    renewed = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return lambda world: lease(world, **{"holderIdentity": "pod-1", "renewTime": renewed, **spec})


def forbidden(world: World) -> None:
    world.upstream.before = fail(Forbidden("get leases", status=403), on="get leases")


def away(world: World) -> None:
    world.upstream.before = fail(Unreachable("get leases"), on="get leases")


@pytest.mark.parametrize(
    ("arrange", "state", "says"),
    [
        pytest.param(held(3), State.OK, "pod-1, 3 s ago", id="renewed lately"),
        pytest.param(held(-2), State.OK, "pod-1, 0 s ago", id="renewed by a clock that is a little ahead"),
        pytest.param(held(16), State.FAILED, "pod-1 renewed the Lease 16 s ago", id="expired"),
        pytest.param(held(16, leaseDurationSeconds=60), State.OK, "16 s ago", id="promised for longer"),
        pytest.param(held(3, holderIdentity=""), State.FAILED, "nobody leads", id="released"),
        pytest.param(held(3, renewTime=None), State.FAILED, "has not said when", id="without a time"),
        pytest.param(lambda _: None, State.FAILED, "there is no Lease apps/sexton-watcher", id="absent"),
        pytest.param(forbidden, State.WARNING, "may not read Lease apps/sexton-watcher", id="forbidden"),
        pytest.param(away, State.FAILED, "get leases", id="away"),
    ],
)
def test_who_leads_is_said(arrange: Callable[[World], None], state: State, says: str) -> None:
    world = World()
    arrange(world)
    found = check_leader("Upstream", world.upstream, world.loaded, NOW)
    assert (found.state, says in found.found) == (state, True), found
    assert bool(found.fix) is (state is not State.OK) or "get leases" in says


def test_each_instance_has_a_lease_of_its_own() -> None:
    world = World(settings={"instance": "blue"})
    assert "apps/blue-watcher" in check_leader("Upstream", world.upstream, world.loaded, NOW).found


# Permissions


def permission(process: Process, plural: str) -> Any:
    return next(each for each in PERMISSIONS if each.process is process and each.plural == plural)


APPLY = "--dry-run=client -o yaml | kubectl apply -f -"


def test_a_missing_verb_is_granted_by_one_line_to_the_account_that_lacks_it() -> None:
    line = grant(
        permission(Process.WORKER, "compositions/status"), ["patch"], "apps", "system:serviceaccount:ops:sexton"
    )
    role = "sexton-worker-patch-compositions-status"
    assert line == (
        f"kubectl create role {role} -n apps --verb=patch --resource=compositions.eno.azure.io/status {APPLY} && "
        f"kubectl create rolebinding {role}-system:serviceaccount:ops:sexton -n apps --role={role} "
        f"--serviceaccount=ops:sexton {APPLY}"
    )


def test_in_all_namespaces_it_takes_a_cluster_role() -> None:
    line = grant(permission(Process.WATCHER, "compositions"), ["list", "watch"], "", "jane")
    role = "sexton-watcher-list-watch-compositions"
    assert line == (
        f"kubectl create clusterrole {role} --verb=list,watch --resource=compositions.eno.azure.io {APPLY} && "
        f"kubectl create clusterrolebinding {role}-jane --clusterrole={role} --user=jane {APPLY}"
    )


def test_what_is_needed_on_one_object_is_granted_on_that_one() -> None:
    line = grant(permission(Process.WATCHER, "leases"), ["get"], "apps", "jane", only="blue-watcher")
    assert "--resource=leases.coordination.k8s.io --resource-name=blue-watcher " in line
    assert "create role sexton-watcher-get-leases-blue-watcher " in line


IDENTITIES = [
    "jane",
    "",
    "oidc:auth0|5f7c9d",
    "oidc:auth0-5f7c9d",
    "CN=Alice Smith",
    "x;id",
    "it's $HOME",
    "https://sso.example/#alice",
    "system:serviceaccount:a-b:c",
    "system:serviceaccount:a:b-c",
    "a-b:c",
    "x" * 300,
    "x" * 301,
]


def words_of(who: str) -> list[str]:
    return shlex.split(grant(permission(Process.WATCHER, "compositions"), ["list"], "apps", who))


@pytest.mark.parametrize("who", IDENTITIES)
def test_an_identity_stays_one_word(who: str) -> None:
    words = words_of(who)
    assert len(words) == len(words_of("jane"))
    account = f"--serviceaccount={who.removeprefix('system:serviceaccount:')}"
    assert (account if who.startswith("system:serviceaccount:") else f"--user={who or 'USER'}") in words


def test_no_two_identities_share_a_binding_which_one_would_take_from_the_other() -> None:
    names = [words[words.index("rolebinding") + 1] for words in map(words_of, IDENTITIES)]
    assert len({*names}) == len(names)
    assert not [name for name in names if set(name) & set("/%") or len(name) > 200]


def test_lines_go_to_the_server_that_was_asked() -> None:
    line = grant(permission(Process.WATCHER, "leases"), ["get"], "apps", "jane", kubectl="kubectl --server=https://x")
    assert line.count("kubectl") == line.count("kubectl --server=https://x ") == 4


# Redis


def test_probes_begin_with_what_changes_nothing() -> None:
    first, *_ = probes(Settings.load())
    assert first.words == ("PING",)


def test_probes_name_no_other_instance() -> None:
    for probe in probes(Settings.load(instance="blue")):
        assert not [word for word in probe.words if "sexton" in word]


class Scripted:
    """A connection whose answers are given; anything else is `QUEUED`."""

    def __init__(self, **answers: str) -> None:
        self.answers = {"MULTI": "OK", "EXEC": "[]", "DISCARD": "OK", **answers}
        self.sent: list[str] = []

    def send_command(self, *args: str, check_health: bool) -> None:
        assert not check_health, "a PING of its own would take the place of an answer"
        self.sent.append(args[0])

    def read_response(self) -> object:
        answer = self.answers.get(self.sent[-1], "QUEUED")
        if answer.startswith("User"):
            raise NoPermissionError(answer)
        return answer


EMPTY = ["WATCH", "UNWATCH", "MULTI", "EXEC", "MULTI", "DISCARD", "MULTI"]
"""What comes before anything is queued."""


def test_where_everything_is_queued_nothing_is_refused() -> None:
    connection = Scripted()
    assert list(asked(connection, Settings.load())) == []
    assert connection.sent == [*EMPTY, *(probe.words[0] for probe in probes(Settings.load()))]


def test_without_transactions_only_what_changes_nothing_is_asked() -> None:
    refused = "User x has no permissions to run the '{}' command"
    connection = Scripted(MULTI=refused.format("multi"), INFO=refused.format("info"))
    assert [each.rule for each in asked(connection, Settings.load())] == ["+multi", "+info"]
    assert connection.sent == ["WATCH", "UNWATCH", "MULTI", "PING", "INFO", "TIME"]


@pytest.mark.parametrize(
    ("answers", "sent"),
    [
        pytest.param({"MULTI": "what?"}, EMPTY[:3], id="no transaction"),
        pytest.param({"EXEC": "what?"}, EMPTY[:4], id="no end of one"),
        pytest.param({"DISCARD": "what?"}, EMPTY[:6], id="no other end"),
        pytest.param({"PING": "PONG"}, [*EMPTY, "PING"], id="a transaction in name only"),
    ],
)
def test_what_would_be_carried_out_is_not_asked(answers: dict[str, str], sent: list[str]) -> None:
    connection = Scripted(**answers)
    with pytest.raises(BrokerUnavailable, match="it takes no transactions"):
        list(asked(connection, Settings.load()))
    assert connection.sent == sent


@pytest.mark.parametrize(
    ("refusal", "rule"),
    [
        pytest.param("User x has no permissions to run the 'script|load' command", "+script|load", id="a command"),
        pytest.param(
            "this user has no permissions to run the 'client' command or its subcommand", "+client", id="by Redis 6.2"
        ),
        pytest.param("No permissions to access a key", "~mine:*", id="a key"),
        pytest.param(
            "this user has no permissions to access one of the keys used as arguments", "~mine:*", id="a key by 6.2"
        ),
        pytest.param("No permissions to access a channel", "&mine:*", id="a channel"),
        pytest.param("something else", "+get", id="no telling"),
    ],
)
def test_the_missing_rule_is_told_by_the_servers_words(refusal: str, rule: str) -> None:
    assert missing_rule(f"NoPermissionError: {refusal}", Probe(("GET", "x"), "mine:*")) == rule


# All of it

NO_SERVER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


@pytest.fixture
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Json:
    """Flags for a world in which neither API server nor Redis answers."""
    for name in ("POD_NAMESPACE", "KUBECONFIG", *map(variable, Settings.model_fields)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(NO_SERVER))
    return {
        "kubeconfig": str(path),
        "broker_url": "redis://127.0.0.1:1/0",
        "pod_namespace": "apps",
        "enable_tombstone_recovery": "true",
    }


def examined(flags: Json, environment: dict[str, str] | None = None) -> list[Check]:
    return list(examine(environment or {}, flags, list(Process), lambda: NOW).checks)


def states(checks: list[Check]) -> dict[tuple[str, str], State]:
    return {(check.area, check.name): check.state for check in checks}


def test_everything_may_be_away_at_once(nothing_there: Json) -> None:
    found = states(examined(nothing_there))
    assert found["Upstream", "API server"] is State.FAILED
    assert found["Downstream", "API server"] is State.FAILED
    assert found["Redis", "server"] is State.FAILED
    assert found["This command", "settings"] is State.OK
    assert found["Redis", "queues"] is State.SKIPPED


def test_one_bad_kubeconfig_keeps_nothing_else_from_being_looked_at(nothing_there: Json) -> None:
    found = states(examined({**nothing_there, "downstream_kubeconfig": "/no/such"}))
    assert found["Downstream", "kubeconfig"] is State.FAILED
    assert found["Upstream", "API server"] is State.FAILED
    assert found["Redis", "server"] is State.FAILED


def test_settings_that_contradict_each_other_are_a_finding(nothing_there: Json) -> None:
    checks = examined({**nothing_there, "visibility_timeout": "10"})
    assert checks[-1].state is State.FAILED
    assert "SEXTON_VISIBILITY_TIMEOUT must be more than SEXTON_TASK_TIME_LIMIT" in checks[-1].found


def test_without_a_namespace_everything_that_needs_none_is_still_looked_at(nothing_there: Json) -> None:
    del nothing_there["pod_namespace"], nothing_there["enable_tombstone_recovery"]
    found = states(examined(nothing_there))
    assert found["This command", "settings"] is State.FAILED
    assert found["Upstream", "API server"] is State.FAILED
    assert found["Redis", "server"] is State.FAILED


def test_every_failure_has_a_line_that_mends_it(nothing_there: Json) -> None:
    for flags in (nothing_there, {**nothing_there, "kubeconfig": "/no/such"}, {**nothing_there, "burst": "0"}):
        assert [check for check in examined(flags) if check.state is State.FAILED and not check.fix] == []


# The page


def printed(found: Examination) -> str:
    stream = StringIO()
    console = render.terminal(stream)
    console.width = 80
    page.show(found, console)
    return stream.getvalue()


def test_a_line_to_copy_is_never_folded() -> None:
    fix = "kubectl " + "x" * 200
    text = printed(Examination([failed("Upstream", "leader", "gone " * 30, fix), ok("Upstream", "clock", "agrees")]))
    assert fix in text
    assert max(len(line) for line in text.splitlines() if fix not in line) <= 80
    assert "✗" in text
    assert "1 well, 1 to be mended." in text


def test_the_document_says_whether_all_is_well() -> None:
    good = Examination([ok("a", "b", "c")])
    bad = Examination([ok("a", "b", "c"), broken("a", "d", Terminal("x", where="y", hint="do z"))])
    assert (good.to_json()["ok"], bad.to_json()["ok"]) == (True, False)
    assert bad.to_json()["checks"][1] == {
        "area": "a",
        "check": "d",
        "state": "failed",
        "found": "y: x",
        "fix": "do z",
    }
