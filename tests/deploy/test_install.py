"""docs/install.md is run from top to bottom on a real API server, as somebody would type it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.rendering import DEPLOY, ROOT, find_kubectl, run
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.assets import HINT, find_assets

GUIDE = ROOT / "docs" / "install.md"


def script(text: str) -> str:
    """The commands of every `console` block, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return "".join(re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks)


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


def test_the_guide_installs_upgrades_and_uninstalls(fresh: ApiServer, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    shutil.copytree(ROOT / "tests" / "support" / "tls", tmp_path / "tests" / "support" / "tls")
    kubectl = find_kubectl()
    assert kubectl is not None
    environment = {
        "KUBECONFIG": str(kubeconfig(fresh, tmp_path / "kubeconfig")),
        "PATH": f"{Path(kubectl).parent}{os.pathsep}{os.environ['PATH']}",
    }
    run(kubectl, "apply", "-f", DEPLOY / "crds", **environment)
    commands = script(GUIDE.read_text(encoding="utf-8"))
    assert commands.count("kubectl") > 20

    run("bash", "-euxo", "pipefail", "-c", f"cd {tmp_path}\n{commands}", **environment)

    left = run(
        kubectl, "get", "all,role,rolebinding,configmap,networkpolicy", "-A", "-l", PART, "-o", "name", **environment
    )
    assert left == ""
    policies = "validatingadmissionpolicy,validatingadmissionpolicybinding,clusterrole,clusterrolebinding"
    assert run(kubectl, "get", policies, "-l", PART, "-o", "name", **environment) == ""


PART = "app.kubernetes.io/part-of=sexton"


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
