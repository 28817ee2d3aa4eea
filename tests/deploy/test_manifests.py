"""What the overlays render to: valid, hardened, and in step with the settings, the tasks and each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from flower.options import options

from kube.cluster import Json
from runtime.backlog import BacklogCollector, BacklogReader
from runtime.messages import TaskName
from runtime.settings import Settings, variable
from tests.deploy.rendering import DEPLOY, OVERLAYS, Kustomize, Rendered, environment
from tests.support.redis import running_redis

VERSIONS = ("1.30", "1.37")
"""Of Kubernetes: the first with admission policies that need no feature gate, and the newest there are schemas of."""

BY_ITSELF = {"rules.yaml"}
"""Files that are there to be taken without kustomize."""

CUSTOM = {"ScaledObject", "PodMonitor", "PrometheusRule"}
"""Kinds that Kubernetes has no schema for: they are somebody else's."""

OPTIONAL = (
    "components/hpa",
    "components/keda",
    "components/hpa/per-queue",
    "components/keda/per-queue",
    "components/all-namespaces",
    "components/flower-prefix",
    "components/redis-tls",
    "monitoring",
)
"""Components that no overlay uses, but docs/install.md names."""

PROCESSES = ("sexton-watcher", "sexton-worker", "sexton-flower")


def fitting(component: str) -> str:
    """An overlay that an optional component may be added to."""
    return "per-queue" if component.endswith("per-queue") else "trial"


@pytest.fixture(params=[*OVERLAYS, *(f"{fitting(name)} + {name}" for name in OPTIONAL)])
def rendered(request: pytest.FixtureRequest, kustomize: Kustomize) -> Rendered:
    """Every overlay, and a fitting one with each component that none of them has."""
    overlay, _, component = str(request.param).partition(" + ")
    return kustomize.extended(overlay, [component]) if component else kustomize.overlay(overlay)


def strings(value: object) -> Iterator[str]:
    """Every string in a document."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield from (*strings(key), *strings(each))
        case list():
            for each in value:
                yield from strings(each)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_fits_the_schema_of_kubernetes_to_the_letter(rendered: Rendered, version: str) -> None:
    assert rendered.objects
    for each in rendered.objects:
        if each["kind"] not in CUSTOM:
            validate(yaml.safe_dump(each), version)


@cache
def validate(text: str, version: str) -> None:
    """Once for what several overlays have in common, since it takes a while. Raises ValidationError."""
    kubernetes_validate.validate(yaml.safe_load(text), version, strict=True)


def test_a_field_that_does_not_exist_is_found(kustomize: Kustomize) -> None:
    worker = kustomize.overlay("trial").named("Deployment", "sexton-worker")
    broken = {**worker, "spec": {**worker["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_every_object_says_which_namespace_it_is_in(rendered: Rendered) -> None:
    cluster_wide = {
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    for each in rendered.objects:
        namespace = each["metadata"].get("namespace")
        assert (namespace is None) is (each["kind"] in cluster_wide), each["metadata"]["name"]
        assert namespace in (None, "eno", "kube-system")
    for binding in rendered.kind("RoleBinding", "ClusterRoleBinding"):
        assert {subject["namespace"] for subject in binding["subjects"]} == {"eno"}


def test_the_namespace_is_set_in_one_place(kustomize: Kustomize) -> None:
    """Every manifest that names it follows; deploy/components/namespace/transform is where it is changed."""
    naming = [path for path in DEPLOY.rglob("*.yaml") if re.search(r"\beno\b(?!\.azure)", _code(path.read_text()))]
    allowed = {
        "transform/namespace.yaml",
        "parameters/parameters.yaml",
        "keda/scaled-object.yaml",
        "per-queue/scaled-objects.yaml",
    }
    assert {f"{path.parent.name}/{path.name}" for path in naming if "crds" not in path.parts} == allowed

    parameters = kustomize.overlay("trial").named("ConfigMap", "sexton-admission")["data"]
    policies = [str(each["spec"]) for each in kustomize.overlay("trial").kind("ValidatingAdmissionPolicy")]
    for name in parameters:
        assert any(f"data.?{name}" in policy for policy in policies), f"no policy reads {name}"


def _code(text: str) -> str:
    return re.sub(r"^\s*#.*$|\beno: |data\.\?eno", "", text, flags=re.MULTILINE)


def test_another_namespace_reaches_everything_that_follows_from_it(kustomize: Kustomize) -> None:
    elsewhere = kustomize.copied("shop", "managed-redis", ["components/keda"])
    assert {each["metadata"].get("namespace") for each in elsewhere.objects} == {None, "shop", "kube-system"}
    data = elsewhere.named("ConfigMap", "sexton-admission")["data"]
    assert data["namespace"] == "shop"
    assert data["worker"] == "system:serviceaccount:shop:sexton-worker"
    assert data["watcher"] == "system:serviceaccount:shop:sexton-watcher"
    (trigger,) = elsewhere.named("ScaledObject", "sexton-worker")["spec"]["triggers"]
    assert trigger["metadata"]["query"] == 'sum(max by (task, state) (sexton_queue_messages{namespace="shop"}))'


def test_another_namespace_reaches_the_query_of_every_pool(kustomize: Kustomize) -> None:
    elsewhere = kustomize.copied("market", "per-queue", ["components/keda/per-queue"])
    queries = [each["spec"]["triggers"][0]["metadata"]["query"] for each in elsewhere.kind("ScaledObject")]
    assert len(queries) == len(TaskName)
    assert all('{namespace="market", task="' in query for query in queries)


def test_images_have_a_version_and_name_no_registry(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        repository, _, tag = container["image"].partition(":")
        assert repository == ("valkey/valkey" if name == "sexton-redis" else "sexton")
        assert re.fullmatch(r"\d+(\.\d+)+", tag), container["image"]
    assert not [
        text for text in strings(rendered.objects) if re.search(r"\b(ghcr|quay|docker|gcr|azurecr)\.io\b", text)
    ]


def test_nothing_secret_is_in_the_manifests(rendered: Rendered) -> None:
    """Tokens of ServiceAccounts, which Kubernetes fills in, are all the Secrets there are."""
    for secret in rendered.kind("Secret"):
        assert secret["type"] == "kubernetes.io/service-account-token"
        assert "data" not in secret
        assert "stringData" not in secret


def test_containers_cannot_gain_anything(rendered: Rendered) -> None:
    for name, template in rendered.pods():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for name, container in rendered.containers():
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name
        assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_what_a_container_writes_goes_to_a_volume_of_limited_size(rendered: Rendered) -> None:
    for name, template in rendered.pods():
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        for container in template["spec"]["containers"]:
            mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
            assert "sizeLimit" in mounted["/tmp"]["emptyDir"], name
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()


def test_containers_are_bounded_and_probed(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        assert {"cpu", "memory"} == container["resources"]["requests"].keys(), name
        assert "memory" in container["resources"]["limits"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            (handler,) = (container[probe].get(kind) for kind in ("httpGet", "tcpSocket") if kind in container[probe])
            assert handler["port"] in ports


def test_only_what_speaks_to_an_api_server_gets_a_token(rendered: Rendered) -> None:
    for name, template in rendered.pods():
        speaks = template["metadata"]["labels"].get("app.kubernetes.io/component") in ("watcher", "worker")
        assert template["spec"]["automountServiceAccountToken"] is speaks, name
    for account in rendered.kind("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_a_worker_is_given_longer_than_its_longest_task(rendered: Rendered) -> None:
    for name, template in rendered.pods():
        if template["metadata"]["labels"].get("app.kubernetes.io/component") == "worker":
            (container,) = template["spec"]["containers"]
            settings = settings_of(container, rendered)
            assert template["spec"]["terminationGracePeriodSeconds"] > settings.task_time_limit, name


def settings_of(container: Json, rendered: Rendered) -> Settings:
    """What a process makes of its environment, with an example of what comes from elsewhere."""
    fill = {variable("pod_namespace"): "eno", variable("broker_url"): "rediss://sexton:secret@redis.example:6380/0"}
    seen = {name: fill.get(name, value) for name, value in environment(container, rendered.objects).items()}
    by_variable = {variable(name): name for name in Settings.model_fields}
    return Settings.load(**{by_variable[name]: value for name, value in seen.items() if name in by_variable})


def test_every_setting_is_one_and_all_processes_see_the_same(rendered: Rendered) -> None:
    known = {variable(name) for name in Settings.model_fields}
    seen: list[Any] = []
    for name, container in rendered.containers():
        if name.startswith(PROCESSES):
            variables = environment(container, rendered.objects)
            assert {each for each in variables if not each.startswith("FLOWER_")} <= known
            seen.append(settings_of(container, rendered).model_copy(update={"downstream_kubeconfig": None}))
    assert all(each == seen[0] for each in seen)
    if seen:
        assert seen[0].enable_tombstone_recovery
        assert seen[0].health_host == "0.0.0.0"  # noqa: S104
        assert {port["containerPort"] for port in _ports(rendered, "http")} == {seen[0].health_port}


def _ports(rendered: Rendered, name: str) -> Iterator[Json]:
    for _, container in rendered.containers():
        yield from (port for port in container["ports"] if port["name"] == name)


def test_flower_asks_for_a_password_and_knows_its_options(kustomize: Kustomize) -> None:
    (container,) = dict(kustomize.overlay("trial").pods())["sexton-flower"]["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["FLOWER_BASIC_AUTH"]["valueFrom"]["secretKeyRef"] == {"name": "sexton-flower", "key": "basic-auth"}
    assert variables["FLOWER_ADDRESS"]["value"] == "0.0.0.0"  # noqa: S104
    for name in variables:
        if name.startswith("FLOWER_"):
            assert name.removeprefix("FLOWER_").lower() in options
    assert "SEXTON_FLOWER_WRITABLE" not in environment(container, kustomize.overlay("trial").objects)


def test_flower_is_not_reachable_from_outside(rendered: Rendered) -> None:
    assert {service["spec"]["type"] for service in rendered.kind("Service")} <= {"ClusterIP"}
    assert rendered.kind("Ingress") == []


def test_below_a_prefix_flowers_probes_follow(kustomize: Kustomize) -> None:
    (container,) = dict(kustomize.extended("trial", ["components/flower-prefix"]).pods())["sexton-flower"]["spec"][
        "containers"
    ]
    prefix = environment(container, kustomize.overlay("trial").objects)["FLOWER_URL_PREFIX"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == f"/{prefix}/healthcheck"


def test_workers_do_not_talk_to_each_other(rendered: Rendered) -> None:
    for name, container in rendered.containers():
        if name.startswith("sexton-worker"):
            assert container["command"] == ["celery", "-A", "workers", "worker"]
            assert {"--without-gossip", "--without-mingle"} <= set(container["args"])


def test_two_watchers_stand_for_the_lease_and_flower_is_alone(rendered: Rendered) -> None:
    replicas = {each["metadata"]["name"]: each["spec"].get("replicas") for each in rendered.kind("Deployment")}
    if replicas:
        assert replicas["sexton-watcher"] == 2
        assert replicas["sexton-flower"] == 1


def test_every_pool_has_a_budget_and_is_spread_by_its_own_labels(rendered: Rendered) -> None:
    budgets = [each["spec"] for each in rendered.kind("PodDisruptionBudget")]
    assert all(budget["maxUnavailable"] == 1 for budget in budgets)
    chosen = [budget["selector"]["matchLabels"] for budget in budgets]
    for deployment in rendered.kind("Deployment"):
        labels = deployment["spec"]["selector"]["matchLabels"]
        assert deployment["spec"]["template"]["metadata"]["labels"].items() >= labels.items()
        if labels.get("app.kubernetes.io/component") in ("watcher", "worker"):
            assert chosen.count(labels) == 1
            (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
            assert spread["labelSelector"]["matchLabels"] == labels


def test_each_queue_has_a_pool_of_its_own_and_no_other_is_left(kustomize: Kustomize) -> None:
    rendered = kustomize.overlay("per-queue")
    queues = {}
    for name, container in rendered.containers():
        if name.startswith("sexton-worker"):
            instance = environment(container, rendered.objects)["SEXTON_INSTANCE"] or ""
            (option,) = (each for each in container["args"] if each.startswith("--queues="))
            queues[name] = option.removeprefix("--queues=").replace("$(SEXTON_INSTANCE)", instance)
    assert queues == {f"sexton-worker-{task.short}": task.queue("sexton") for task in TaskName}
    selectors = [tuple(each["spec"]["selector"]["matchLabels"].items()) for each in rendered.kind("Deployment")]
    assert len(set(selectors)) == len(selectors)


def test_the_lease_that_may_be_renewed_is_that_of_the_instance(kustomize: Kustomize) -> None:
    rendered = kustomize.overlay("trial")
    (settings,) = (each["data"] for each in rendered.kind("ConfigMap") if "SEXTON_INSTANCE" in each["data"])
    rules = rendered.named("Role", "sexton-watcher-lease")["rules"]
    assert [rule.get("resourceNames") for rule in rules] == [None, [f"{settings['SEXTON_INSTANCE']}-watcher"]]


def test_a_managed_redis_is_reached_by_tls_and_its_certificate_is_checked(kustomize: Kustomize) -> None:
    for overlay in ("managed-redis", "per-queue", "two-clusters"):
        rendered = kustomize.overlay(overlay)
        for _, container in rendered.containers():
            (mount,) = (each for each in container["volumeMounts"] if each["name"] == "redis-ca")
            assert mount["mountPath"] == "/etc/sexton/redis"
        assert "sexton-redis" not in {each["metadata"]["name"] for each in rendered.kind("Deployment", "Service")}


def test_each_identity_of_the_other_cluster_has_a_kubeconfig_of_its_own(kustomize: Kustomize) -> None:
    mounted = {}
    for name, template in kustomize.overlay("two-clusters").pods():
        for volume in template["spec"]["volumes"]:
            if volume["name"] == "downstream":
                mounted[name] = volume["secret"]["secretName"]
    assert mounted == {"sexton-watcher": "sexton-watcher-downstream", "sexton-worker": "sexton-worker-downstream"}


# Network


def peers(rendered: Rendered, direction: str) -> list[tuple[str, Any, Any]]:
    """Name, peers and ports of every rule of a direction."""
    return [
        (policy["metadata"]["name"], rule.get("from" if direction == "ingress" else "to"), rule.get("ports"))
        for policy in rendered.kind("NetworkPolicy")
        for rule in policy["spec"].get(direction, [])
    ]


def test_everything_is_denied_but_what_is_named(rendered: Rendered) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in rendered.kind("NetworkPolicy")}
    if not list(rendered.pods()):
        return
    deny = policies["sexton-default-deny"]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & deny.keys()
    for name, template in rendered.pods():
        assert template["metadata"]["labels"].items() >= deny["podSelector"]["matchLabels"].items(), name
    for name, others, ports in (*peers(rendered, "ingress"), *peers(rendered, "egress")):
        assert others, f"{name}: no peers means all of them"
        assert ports, f"{name}: no ports means all of them"
        assert {} not in others


def test_the_network_rules_are_these(kustomize: Kustomize) -> None:
    rendered = kustomize.overlay("trial")
    assert {name for name, _, _ in peers(rendered, "ingress")} == {"sexton-flower", "sexton-metrics", "sexton-redis"}
    assert {name for name, _, _ in peers(rendered, "egress")} == {"sexton-api-server", "sexton-dns", "sexton-to-redis"}
    policies = {each["metadata"]["name"]: each["spec"] for each in rendered.kind("NetworkPolicy")}
    flower, redis = dict(rendered.pods())["sexton-flower"], dict(rendered.pods())["sexton-redis"]
    assert selected(policies["sexton-flower"]["podSelector"], flower)
    assert not selected(policies["sexton-api-server"]["podSelector"], flower)
    assert not selected(policies["sexton-metrics"]["podSelector"], flower)
    assert selected(policies["sexton-redis"]["podSelector"], redis)
    assert not selected(policies["sexton-dns"]["podSelector"], redis)
    for name in ("sexton-watcher", "sexton-worker"):
        template = dict(rendered.pods())[name]
        chosen = {each for each, spec in policies.items() if selected(spec["podSelector"], template)}
        expected = {"sexton-default-deny", "sexton-dns", "sexton-api-server", "sexton-metrics", "sexton-to-redis"}
        assert chosen == expected


def selected(selector: Json, template: Json) -> bool:
    labels = template["metadata"]["labels"]
    equal = labels.items() >= selector.get("matchLabels", {}).items()
    return equal and all(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", []))


# Autoscaling

RESERVED_TOO = re.compile(
    r"sum\(max by \(task, state\) \(sexton_queue_messages\{namespace=\"[a-z]+\"(, task=\"(\w+)\")?\}\)\)"
)

SCALED = [
    ("trial", ""),
    ("managed-redis", ""),
    ("two-clusters", ""),
    ("per-queue", "/per-queue"),
]
"""Overlays, and where their kind of autoscaler is below a component."""


@pytest.mark.parametrize(("overlay", "kind"), SCALED)
def test_autoscalers_count_reserved_messages_and_take_their_time_to_scale_in(
    kustomize: Kustomize, overlay: str, kind: str
) -> None:
    for scaler in kustomize.extended(overlay, [f"components/hpa{kind}"]).kind("HorizontalPodAutoscaler"):
        hpa, name = scaler["spec"], scaler["metadata"]["name"]
        assert hpa["minReplicas"] >= 1
        (metric,) = (each["external"]["metric"] for each in hpa["metrics"])
        assert metric["name"] == "sexton_queue_messages"
        assert metric.get("selector", {}).get("matchLabels", {}).get("task", "") == task_of(name)
        assert hpa["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 300
    for scaler in kustomize.extended(overlay, [f"components/keda{kind}"]).kind("ScaledObject"):
        keda, name = scaler["spec"], scaler["metadata"]["name"]
        assert keda["minReplicaCount"] >= 1
        (query,) = (RESERVED_TOO.fullmatch(each["metadata"]["query"]) for each in keda["triggers"])
        assert query is not None
        assert (query[2] or "") == task_of(name)
        behavior = keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300


def task_of(pool: str) -> str:
    """The task of a pool of workers, empty for the pool of all tasks."""
    return pool.removeprefix("sexton-worker").removeprefix("-")


@pytest.mark.parametrize("scaler", ["hpa", "keda"])
@pytest.mark.parametrize(("overlay", "kind"), SCALED)
def test_every_pool_has_one_autoscaler_and_no_autoscaler_scales_what_is_not_there(
    kustomize: Kustomize, overlay: str, kind: str, scaler: str
) -> None:
    rendered = kustomize.extended(overlay, [f"components/{scaler}{kind}"])
    targets = [each["spec"]["scaleTargetRef"] for each in rendered.kind("HorizontalPodAutoscaler", "ScaledObject")]
    pools = {each["metadata"]["name"]: each["spec"] for each in rendered.kind("Deployment")}
    workers = sorted(name for name in pools if name.startswith("sexton-worker"))
    assert sorted(each["name"] for each in targets) == workers
    assert {each["kind"] for each in targets} == {"Deployment"}
    assert [name for name in workers if "replicas" in pools[name]] == [], "every apply would set them back"


@pytest.mark.parametrize("component", ["hpa", "keda"])
def test_an_autoscaler_of_another_kind_of_pool_is_refused(kustomize: Kustomize, component: str) -> None:
    for overlay, kind in (("per-queue", ""), ("trial", "/per-queue")):
        with pytest.raises(
            AssertionError,
            match=r"selector Deployment[^\n]*sexton-worker|nothing selected by Deployment[^\n]*sexton-worker",
        ):
            kustomize.extended(overlay, [f"components/{component}{kind}"])


def test_the_metric_they_scale_by_tells_waiting_messages_from_reserved_ones(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis:
        reader = BacklogReader.connect(Settings.load(pod_namespace="eno", broker_url=redis.url))
        families = {family.name: family.samples for family in BacklogCollector(reader, lambda: True).collect()}
        reader.close()
    samples = families["sexton_queue_messages"]
    assert {sample.labels["state"] for sample in samples} == {"waiting", "reserved"}
    assert {label for sample in samples for label in sample.labels} == {"task", "state"}


# Redis


def test_the_trial_redis_evicts_nothing_writes_nothing_and_has_no_default_user(kustomize: Kustomize) -> None:
    rendered = kustomize.overlay("trial")
    (text,) = (each["data"]["redis.conf"] for each in rendered.kind("ConfigMap") if "redis.conf" in each["data"])
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    options = dict(line.split(" ", 1) for line in lines)
    assert options["maxmemory-policy"] == "noeviction"
    assert options["save"] == '""'
    assert options["appendonly"] == "no"
    limit = dict(rendered.pods())["sexton-redis"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert int(options["maxmemory"].removesuffix("mb")) < int(limit.removesuffix("Mi")) * 0.8


def test_every_file_of_deploy_is_used() -> None:
    used: set[str] = set()
    for path in DEPLOY.rglob("kustomization.yaml"):
        body = yaml.safe_load(path.read_text())
        used |= {str((path.parent / each).resolve()) for each in body.get("resources", []) + body.get("components", [])}
        used |= {str((path.parent / each).resolve()) for each in body.get("transformers", [])}
    for path in DEPLOY.rglob("*.yaml"):
        if path.name != "kustomization.yaml" and "crds" not in path.parts:
            assert str(path) in used or path.name in BY_ITSELF, path
    optional = {str(DEPLOY / name) for name in OPTIONAL}
    overlays = {str(DEPLOY / "overlays" / name) for name in OVERLAYS}
    directories = {str(path.parent) for path in DEPLOY.rglob("kustomization.yaml")}
    assert directories - used == optional | overlays
