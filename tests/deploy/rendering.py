"""What `kubectl kustomize` makes of the overlays, each rendered once per run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from kube.cluster import Json
from tests.support.assets import find_assets

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = ("trial", "managed-redis", "per-queue", "two-clusters", "two-clusters/downstream")

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")

TIMEOUT = 60.0
"""Seconds that one call of kubectl may take on a busy machine."""


def find_kubectl() -> str | None:
    """The one beside the kube-apiserver, else the one on PATH."""
    assets = find_assets(os.environ)
    return str(assets / "kubectl") if assets else shutil.which("kubectl")


def run(*command: str | Path, text: str = "", **environment: str) -> str:
    """What a command prints. Raises AssertionError with what it says when it fails."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Rendered:
    """The manifests of one kustomization."""

    text: str

    @cached_property
    def objects(self) -> list[Json]:
        """In the order they are applied."""
        return [each for each in yaml.safe_load_all(self.text) if each]

    def kind(self, *kinds: str) -> list[Json]:
        """The objects of these kinds."""
        return [each for each in self.objects if each["kind"] in kinds]

    def named(self, kind: str, name: str) -> Json:
        """The one object of that kind and name."""
        (found,) = (each for each in self.kind(kind) if each["metadata"]["name"] == name)
        return found

    def pods(self) -> Iterator[tuple[str, Json]]:
        """Name and pod template of everything that runs."""
        for each in self.kind(*WORKLOADS):
            yield each["metadata"]["name"], each["spec"]["template"]

    def containers(self) -> Iterator[tuple[str, Json]]:
        """Name of the workload and container, of everything that runs."""
        for name, template in self.pods():
            for container in (*template["spec"].get("initContainers", []), *template["spec"]["containers"]):
                yield name, container


class Kustomize:
    """Renders through kubectl and remembers what it rendered."""

    def __init__(self, kubectl: str, scratch: Path) -> None:
        self.kubectl = kubectl
        self._scratch = scratch
        self._known: dict[Path, Rendered] = {}

    def overlay(self, name: str) -> Rendered:
        """An overlay of deploy/overlays."""
        return self.render(DEPLOY / "overlays" / name)

    def extended(self, overlay: str, components: Sequence[str]) -> Rendered:
        """An overlay with more components (paths in deploy/), as docs/install.md tells people to make their own."""
        directory = self._scratch / "-".join([overlay, *components]).replace("/", "-")
        directory.mkdir(exist_ok=True)
        here = os.path.relpath(DEPLOY, directory)
        body = {
            "resources": [f"{here}/overlays/{overlay}"],
            "components": [f"{here}/{name}" for name in (*components, "components/namespace")],
        }
        (directory / "kustomization.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
        return self.render(directory)

    def copied(self, namespace: str, overlay: str, components: Sequence[str]) -> Rendered:
        """The same in another namespace: a copy of deploy/ in which the one place that sets it was changed."""
        directory = self._scratch / f"copy-{namespace}"
        shutil.copytree(DEPLOY, directory / "deploy")
        place = directory / "deploy" / "components" / "namespace" / "transform" / "namespace.yaml"
        place.write_text(place.read_text().replace("namespace: eno", f"namespace: {namespace}"), encoding="utf-8")
        body = {
            "resources": [f"deploy/overlays/{overlay}"],
            "components": [f"deploy/{name}" for name in (*components, "components/namespace")],
        }
        (directory / "kustomization.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
        return self.render(directory)

    def render(self, directory: Path) -> Rendered:
        """Whatever is in a directory, as it was at first."""
        if directory not in self._known:
            self._known[directory] = Rendered(run(self.kubectl, "kustomize", directory))
        return self._known[directory]


def environment(container: Json, objects: Iterable[Json]) -> dict[str, str | None]:
    """The variables that a container sees; None for those that come from a Secret or from the pod itself."""
    maps = {each["metadata"]["name"]: each.get("data", {}) for each in objects if each["kind"] == "ConfigMap"}
    found: dict[str, str | None] = {}
    for source in container.get("envFrom", []):
        found |= maps[source["configMapRef"]["name"]]
    for each in container.get("env", []):
        found[each["name"]] = each.get("value")
    return found
