"""kubectl, what it renders, and a kube-apiserver that everything was applied to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.admission import Installed, install
from tests.deploy.rendering import Kustomize, find_kubectl
from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.assets import HINT, find_assets


@pytest.fixture(scope="session")
def kustomize(tmp_path_factory: pytest.TempPathFactory) -> Kustomize:
    """Renders the overlays; skips where there is no kubectl."""
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip(f"no kubectl: {HINT}")
    return Kustomize(kubectl, tmp_path_factory.mktemp("kustomize"))


@pytest.fixture(scope="session")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the API server of these tests writes down who asked what of it."""
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, audit_log: Path) -> Iterator[ApiServer]:
    """An API server of its own: admission policies would stand in the way of all other tests."""
    assets = find_assets(os.environ)
    if assets is None:
        pytest.skip(HINT)
    policy = tmp_path_factory.mktemp("policy") / "audit.yaml"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
    )
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    with running_apiserver(assets, extra_flags=flags) as running:
        yield running


@pytest.fixture(scope="session")
def installed(server: ApiServer, kustomize: Kustomize) -> Installed:
    """The trial overlay, applied as docs/install.md says, once its policies are in force."""
    return install(server, kustomize)
