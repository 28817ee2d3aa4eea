"""docs/install.md is run from top to bottom on a real API server, as somebody would type it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from runtime.settings import variable
from tests.deploy.rendering import DEPLOY, ROOT, Kustomize, find_kubectl, run
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.assets import HINT, find_assets

GUIDE = ROOT / "docs" / "install.md"


def script(text: str) -> str:
    """The commands of every `console` block, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return "".join(re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks)


def parts(text: str) -> tuple[str, str, str, str]:
    """The commands until Sexton is upgraded, those that turn recovery off, those that undo it, those that remove it."""
    until_then, uninstall = text.split("\n## Uninstall\n")
    off, undo, *rest = re.findall(r"^```console\n.*?^```$", uninstall, re.DOTALL | re.MULTILINE)
    return script(until_then), script(off), script(undo), script("\n".join(rest))


@pytest.fixture
def fresh() -> Iterator[ApiServer]:
    """An API server that nothing was applied to."""
    assets = find_assets(os.environ)
    if assets is None:
        pytest.skip(HINT)
    with running_apiserver(assets) as server:
        yield server


def kubeconfig(server: ApiServer, path: Path) -> Path:
    """The administrator's, with the contexts of the guide: one server plays both clusters."""
    body = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
    (context,) = body["contexts"]
    body["contexts"] += [{**context, "name": name} for name in ("upstream", "downstream")]
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Reader:
    """Somebody who types commands in a clone, as an administrator."""

    clone: Path
    kubectl: str
    environment: Mapping[str, str]

    def types(self, commands: str) -> None:
        """Raises AssertionError when one of them fails."""
        run("bash", "-euxo", "pipefail", "-c", f"cd {self.clone}\n{commands}", **self.environment)

    def sees(self, *arguments: str) -> str:
        """What kubectl prints."""
        return run(self.kubectl, *arguments, **self.environment)

    def setting(self, name: str) -> str:
        """Of the ConfigMap that the workers have now."""
        worker = json.loads(self.sees("get", "deployment", "-n", "eno", "sexton-worker", "-o", "json"))
        (container,) = worker["spec"]["template"]["spec"]["containers"]
        assert name not in {each["name"] for each in container["env"]}, "this would win"
        (source,) = container["envFrom"]
        found = self.sees("get", "configmap", "-n", "eno", source["configMapRef"]["name"], "-o", "json")
        return str(json.loads(found)["data"][name])


@pytest.fixture
def reader(fresh: ApiServer, tmp_path: Path) -> Reader:
    """Has a cluster with Eno, and has read nothing else."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    shutil.copytree(ROOT / "tests" / "support" / "tls", tmp_path / "tests" / "support" / "tls")
    kubectl = find_kubectl()
    assert kubectl is not None
    environment = {
        "KUBECONFIG": str(kubeconfig(fresh, tmp_path / "kubeconfig")),
        "PATH": f"{Path(kubectl).parent}{os.pathsep}{os.environ['PATH']}",
    }
    run(kubectl, "apply", "-f", DEPLOY / "crds", **environment)
    return Reader(tmp_path, kubectl, environment)


def test_the_guide_installs_upgrades_and_uninstalls(reader: Reader) -> None:
    install, off, undo, remove = parts(GUIDE.read_text(encoding="utf-8"))
    assert install.count("kubectl") > 20
    assert install.count("apply --server-side -k my-overlay") == 2, "the second time is an upgrade"

    reader.types(install)
    own = yaml.safe_load((reader.clone / "my-overlay" / "kustomization.yaml").read_text(encoding="utf-8"))
    shipped = yaml.safe_load((DEPLOY / "policies" / "parameters" / "parameters.yaml").read_text(encoding="utf-8"))
    (change,) = yaml.safe_load(own["patches"][0]["patch"])
    parameters = json.loads(reader.sees("get", "configmap", "-n", "kube-system", "sexton-admission", "-o", "json"))
    assert parameters["data"]["eno"] == change["value"] != shipped["data"]["eno"]
    (image,) = own["images"]
    running = reader.sees("get", "deployments", "-n", "eno", "-o", "jsonpath={..image}").split()
    assert set(running) - {f"{image['newName']}:{image['newTag']}"} == {"valkey/valkey:8.1"}
    (setting,) = own["configMapGenerator"][0]["literals"]
    assert reader.setting(setting.split("=")[0]) == setting.split("=")[1]

    recovery = variable("enable_tombstone_recovery")
    reader.types(off)
    assert reader.setting(recovery) == "false"
    reader.types(undo)
    assert reader.setting(recovery) == "true"

    reader.types(remove)
    left = "all,role,rolebinding,configmap,networkpolicy"
    assert reader.sees("get", left, "-A", "-l", PART, "-o", "name") == ""
    policies = "validatingadmissionpolicy,validatingadmissionpolicybinding,clusterrole,clusterrolebinding"
    assert reader.sees("get", policies, "-l", PART, "-o", "name") == ""
    assert reader.sees("get", "secret", "-n", "eno", "-o", "name") == ""


PART = "app.kubernetes.io/part-of=sexton"


def test_nothing_that_an_apply_sets_is_changed_by_hand() -> None:
    """Whatever has another field manager makes the next server-side apply stop, or outlives it unseen."""
    by_hand = re.compile(r"kubectl\b.* (edit|patch|set env|scale|rollout undo) ")
    assert [line for line in script(GUIDE.read_text(encoding="utf-8")).splitlines() if by_hand.search(line)] == []


def test_every_secret_is_made_before_what_needs_it() -> None:
    commands = script(GUIDE.read_text(encoding="utf-8"))
    first = commands.index("kubectl apply --server-side -k my-overlay")
    for name in ("sexton-redis", "sexton-flower"):
        assert commands.index(f"kubectl create secret generic {name} ") < first
    second = commands.index("kubectl --context=upstream apply --server-side -k my-upstream")
    for name in ("sexton-redis-tls", "sexton-$who-downstream"):
        assert commands.index(f"create secret generic {name} ") < second


def test_every_network_policy_is_in_the_guide(kustomize: Kustomize) -> None:
    rows = set(re.findall(r"^\| `(sexton-[a-z-]+)` \| [^|]+ \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    assert rows == {each["metadata"]["name"] for each in kustomize.overlay("trial").kind("NetworkPolicy")}


def test_every_overlay_and_optional_component_is_named_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in ("trial", "managed-redis", "per-queue", "two-clusters", "redis-tls", "hpa", "keda", "all-namespaces"):
        assert f"`{name}`" in text or f"`components/{name}`" in text, name
    assert "`flower-prefix`" in text


def test_every_admission_policy_is_in_the_guide_with_what_happens_when_it_fails() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(sexton-[a-z-]+)` \| [^|]+ \| `(Fail|Ignore)`", text, re.MULTILINE))
    found = {}
    for path in (DEPLOY / "policies").rglob("*.yaml"):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if body["kind"] == "ValidatingAdmissionPolicy":
                found[body["metadata"]["name"]] = body["spec"]["failurePolicy"]
    assert rows == found


def test_every_kubectl_of_a_runbook_says_which_namespace() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    commands = re.findall(r"`(kubectl [^`]+)`", text)
    assert len(commands) >= 5
    assert [each for each in commands if not re.search(r" -n \S| -A\b", each)] == []
