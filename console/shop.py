"""The small shop that the demo plays with when nobody gives it manifests."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "shop"
DISCONTINUED = "newsletter"
"""The component that the recreated composition no longer has."""

COMPONENTS = ("storefront", "catalog", "cart", "checkout", "payments", DISCONTINUED)

NAME_LABEL = "app.kubernetes.io/name"

WITHOUT = f"{NAME_LABEL}={DISCONTINUED}"


def manifests() -> list[str]:
    """One JSON document per resource: the namespace, then what each component runs on."""
    bodies = [_body("v1", "Namespace", NAMESPACE, namespaced=False)]
    for component in COMPONENTS:
        bodies += _component(component)
    return [json.dumps(body, separators=(",", ":")) for body in bodies]


def _component(name: str) -> list[dict[str, Any]]:
    selector = {NAME_LABEL: name}
    container = {
        "name": name,
        "image": f"shop.example/{name}:1.4.2",
        "ports": [{"containerPort": 8080}],
        "envFrom": [{"configMapRef": {"name": name}}, {"secretRef": {"name": f"{name}-credentials"}}],
    }
    template = {
        "metadata": {"labels": selector},
        "spec": {"serviceAccountName": name, "containers": [container]},
    }
    ingress = [{"from": [{"podSelector": {}}], "ports": [{"port": 8080}]}]
    return [
        _body("v1", "ServiceAccount", name, automountServiceAccountToken=False),
        _body("v1", "ConfigMap", name, data={"LOG_LEVEL": "info", "CURRENCY": "EUR"}),
        _body("v1", "Secret", f"{name}-credentials", name, stringData={"TOKEN": "not-a-secret"}),
        _body("apps/v1", "Deployment", name, spec=_deployment(selector, template)),
        _body("v1", "Service", name, spec={"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]}),
        _body(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            spec={"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": ingress},
        ),
        _body(
            "policy/v1",
            "PodDisruptionBudget",
            name,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": selector}},
        ),
        _body(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            f"{NAMESPACE}:{name}",
            name,
            namespaced=False,
            rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        ),
    ]


def _deployment(selector: dict[str, str], template: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": 2, "selector": {"matchLabels": selector}, "template": template}


def _body(
    api_version: str, kind: str, name: str, component: str = "", *, namespaced: bool = True, **rest: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {NAME_LABEL: component or name}}
    if namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
