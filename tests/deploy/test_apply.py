"""A real API server takes everything that is rendered, and finds the Pods restricted."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from kube.cluster import Json
from tests.deploy.admission import Installed
from tests.deploy.rendering import OVERLAYS, TIMEOUT, Kustomize
from tests.deploy.test_manifests import CUSTOM, OPTIONAL, fitting

RESTRICTED = "restricted"


def test_what_was_applied_is_what_the_server_holds(installed: Installed) -> None:
    """A second apply would change nothing: what the server fills in is not set back by the manifests."""
    command = [installed.kubectl, "--kubeconfig", str(installed.server.kubeconfig), "diff", "--server-side", "-f", "-"]
    done = subprocess.run(
        command, input=installed.rendered.text, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("overlay", [each for each in OVERLAYS if each != "trial"])
def test_every_overlay_is_taken_to_the_letter(installed: Installed, kustomize: Kustomize, overlay: str) -> None:
    installed.run(*DRY_RUN, text=kustomize.overlay(overlay).text)


@pytest.mark.parametrize("component", OPTIONAL)
def test_every_component_is_taken_to_the_letter(installed: Installed, kustomize: Kustomize, component: str) -> None:
    rendered = kustomize.extended(fitting(component), [component])
    served = [each for each in rendered.objects if each["kind"] not in CUSTOM]
    installed.run(*DRY_RUN, text=yaml.safe_dump_all(served))


DRY_RUN = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")


@pytest.fixture(scope="module")
def restricted(installed: Installed) -> str:
    """Path of the Pods in a namespace that takes restricted ones only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed.put("/api/v1/namespaces", {"metadata": {"name": RESTRICTED, "labels": labels}})
    return f"/api/v1/namespaces/{RESTRICTED}/pods"


def pod(name: str, template: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name},
        "spec": template["spec"],
    }


def test_every_pod_is_restricted(installed: Installed, kustomize: Kustomize, restricted: str) -> None:
    renderings = [kustomize.overlay(name) for name in OVERLAYS]
    renderings += [kustomize.extended(fitting(name), [name]) for name in OPTIONAL]
    pods = [pod(name, template) for each in renderings for name, template in each.pods()]
    assert pods
    for body in pods:
        answer = installed.ask("an administrator", "POST", restricted, body, fieldValidation="Strict")
        assert answer.status == 201, answer.message


WITHOUT = [
    ("runAsNonRoot", "securityContext"),
    ("seccompProfile", "securityContext"),
]


@pytest.mark.parametrize(("field", "place"), WITHOUT)
def test_a_pod_that_is_less_than_restricted_is_refused(
    installed: Installed, kustomize: Kustomize, restricted: str, field: str, place: str
) -> None:
    template = dict(kustomize.overlay("trial").pods())["sexton-worker"]
    spec = {**template["spec"], place: {key: value for key, value in template["spec"][place].items() if key != field}}
    answer = installed.ask("an administrator", "POST", restricted, pod("any", {**template, "spec": spec}))
    assert answer.status == 403
    assert field in answer.message
