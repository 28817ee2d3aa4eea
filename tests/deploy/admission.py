"""A server with Sexton's manifests applied, and requests to it in somebody's name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import urllib3

from eno.inventory.entries import build
from eno.inventory.secrets import Source, snapshot
from kube.cluster import Json
from tests.deploy.rendering import DEPLOY, Kustomize, Rendered, run
from tests.support.apiserver import ApiServer
from tests.support.factories import NOW
from tests.support.waiting import until

NAMESPACE = "eno"
"""The one that deploy/components/namespace sets."""

SECRETS = "/api/v1/namespaces/kube-system/secrets"
COMPOSITIONS = f"/apis/eno.azure.io/v1/namespaces/{NAMESPACE}/compositions"
SLICES = f"/apis/eno.azure.io/v1/namespaces/{NAMESPACE}/resourceslices"

JSON, MERGE = "application/json", "application/merge-patch+json"

_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)'")
_EFFECTIVE_SECONDS = 150.0


@dataclass(frozen=True)
class Actor:
    """Somebody whom RBAC lets do everything, so that only admission is in the way."""

    user: str
    groups: Sequence[str] = ()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Impersonation."""
        return [("Impersonate-User", self.user), *(("Impersonate-Group", each) for each in self.groups)]


def _account(namespace: str, name: str) -> Actor:
    groups = ("system:masters", "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Actor(f"system:serviceaccount:{namespace}:{name}", groups)


ACTORS: Mapping[str, Actor] = {
    "the worker": _account(NAMESPACE, "sexton-worker"),
    "the watcher": _account(NAMESPACE, "sexton-watcher"),
    "an administrator": Actor("alice", ("system:masters",)),
    "break-glass": Actor("alice", ("system:masters", "sexton:break-glass")),
    "somebody in a group without a name": Actor("alice", ("system:masters", "")),
    "a user with the name of the break-glass group": Actor("sexton:break-glass", ("system:masters",)),
    "somebody in a group with the worker's name": Actor(
        "alice", ("system:masters", f"system:serviceaccount:{NAMESPACE}:sexton-worker")
    ),
    "Eno": _account("eno-system", "eno-reconciler"),
    "the garbage collector": _account("kube-system", "generic-garbage-collector"),
    "the namespace controller": _account("kube-system", "namespace-controller"),
    "the controller manager": Actor("system:kube-controller-manager", ("system:masters",)),
    "a worker of another namespace": _account("elsewhere", "sexton-worker"),
}


@dataclass(frozen=True)
class Answer:
    """What the server said: the policy that refused, or empty."""

    status: int
    message: str
    object: Json = field(default_factory=dict)

    @property
    def refused_by(self) -> str:
        """The name of the policy. Raises AssertionError when the request failed for any other reason."""
        if self.status < 300:
            return ""
        found = _POLICY.search(self.message)
        assert found, f"{self.status}: {self.message}"
        return found[1]


class Installed:
    """The server. Without `keep`, a request is a dry run: admission happens, and nothing changes."""

    def __init__(self, server: ApiServer, kubectl: str, rendered: Rendered) -> None:
        self.server = server
        self.kubectl = kubectl
        self.rendered = rendered
        ca = server.directory / "ca.pem"
        ca.write_text(server.ca_pem, encoding="ascii")
        self._pool = urllib3.PoolManager(ca_certs=str(ca))

    def ask(
        self,
        who: str,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        keep: bool = False,
        **query: str,
    ) -> Answer:
        """Send a request in the name of one of ACTORS."""
        headers = urllib3.HTTPHeaderDict(
            [("Authorization", f"Bearer {self.server.admin_token}"), ("Content-Type", content_type)]
        )
        for name, value in ACTORS[who].headers:
            headers.add(name, value)
        parameters = query if keep or method == "GET" else {**query, "dryRun": "All"}
        reply = self._pool.request(
            method,
            f"{self.server.url}{path}?{urlencode(parameters)}",
            body=None if body is None else json.dumps(body),
            headers=headers,
            timeout=30,
            retries=False,
        )
        answer = reply.json()
        return Answer(reply.status, str(answer.get("message", "")), answer)

    def put(self, path: str, body: Json, *, status: Json | None = None) -> Json:
        """Create an object past every policy."""
        made = self.ask("break-glass", "POST", path, body, keep=True)
        assert made.status == 201, made.message
        if status is None:
            return made.object
        place = f"{path}/{body['metadata']['name']}/status"
        answer = self.ask("break-glass", "PATCH", place, {"status": status}, content_type=MERGE, keep=True)
        assert answer.status == 200, answer.message
        return answer.object

    def run(self, *arguments: str, text: str = "") -> str:
        """kubectl as the administrator."""
        return run(self.kubectl, "--kubeconfig", str(self.server.kubeconfig), *arguments, text=text)


def inventory(name: str, index: int = 0) -> Json:
    """A Secret as record makes it."""
    source = Source(NAMESPACE, "web", name, f"uuid-{index}", NOW)
    (secret,) = snapshot(source, build([]))
    return secret


def install(server: ApiServer, kustomize: Kustomize) -> Installed:
    """Apply CRDs and the trial overlay, and wait until every policy is in force."""
    installed = Installed(server, kustomize.kubectl, kustomize.overlay("trial"))
    installed.run("apply", "-f", str(DEPLOY / "crds"))
    installed.run("create", "namespace", NAMESPACE)
    installed.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    installed.run("apply", "--server-side", "--validate=strict", "-f", "-", text=installed.rendered.text)
    until(lambda: _in_force(installed), "the policies are in force", seconds=_EFFECTIVE_SECONDS)
    return installed


def _in_force(installed: Installed) -> bool:
    """Whether each policy refuses what it is there to refuse."""
    secret, named = inventory("probe"), inventory("probe", 1)
    del named["metadata"]["labels"]
    slice_ = {
        "apiVersion": "eno.azure.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "probe", "labels": {"eno.azure.io/tombstone-recovery": "true"}},
    }
    probes = [
        installed.ask("an administrator", "POST", SECRETS, secret),
        installed.ask("an administrator", "POST", SECRETS, named),
        installed.ask("the watcher", "POST", SECRETS, {**secret, "metadata": {"name": "other"}}),
        installed.ask("an administrator", "POST", SLICES, slice_),
    ]
    return all(_POLICY.search(each.message) for each in probes) and _readiness_in_force(installed)


def _readiness_in_force(installed: Installed) -> bool:
    metadata = {"name": "probe", "annotations": {"eno.azure.io/recovery-enabled": "true"}}
    body = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": metadata, "spec": {}}
    installed.ask("break-glass", "POST", COMPOSITIONS, body, keep=True)
    status = {"status": {"currentSynthesis": {"uuid": "one", "ready": "2026-01-01T00:00:00Z"}}}
    answer = installed.ask("an administrator", "PATCH", f"{COMPOSITIONS}/probe/status", status, content_type=MERGE)
    return _POLICY.search(answer.message) is not None
