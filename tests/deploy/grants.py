"""Permissions as values: what the shipped roles grant, what the table of the command says, what a server wrote down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from console.permissions import PERMISSIONS, Process, Side, needed
from devcluster.audit import read_entries
from kube.cluster import Json
from runtime.settings import Settings
from tests.deploy.admission import NAMESPACE
from tests.deploy.rendering import Rendered

EVERYWHERE = "*"
"""In place of a namespace."""

AGENTS = {"sexton-watcher": "sexton-watcher/", "sexton-worker": "sexton-worker/"}
"""How the processes of each identity introduce themselves."""


class Grant(NamedTuple):
    """One verb on one resource, and where; `name` where it is narrowed to one object."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


NARROWED = {(each.resource.group, each.plural, verb) for each in PERMISSIONS if each.only for verb in each.verbs}
"""What is narrowed to one object, so that it matters which one was asked for."""


def granted(rendered: Rendered, account: str) -> set[Grant]:
    """What the bindings of these manifests give an account."""
    found: set[Grant] = set()
    for binding in rendered.kind("RoleBinding", "ClusterRoleBinding"):
        if any(subject["name"] == account for subject in binding["subjects"]):
            role = rendered.named(binding["roleRef"]["kind"], binding["roleRef"]["name"])
            found |= set(_of_rules(binding["metadata"].get("namespace", EVERYWHERE), role["rules"]))
    return found


def _of_rules(namespace: str, rules: Iterable[Json]) -> Iterator[Grant]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Grant(namespace, group, resource, verb, name)


def tabled(process: Process) -> set[Grant]:
    """What `sexton doctor` checks for, upstream and downstream."""
    settings = Settings.load(pod_namespace=NAMESPACE)
    return {
        Grant(each.namespace(settings), each.resource.group, each.plural, verb, each.name(settings))
        for side in Side
        for each in needed([process], side, recovery=True)
        for verb in each.verbs
    }


def asked_of_the_devcluster(account: str, *logs: Path) -> set[Grant]:
    """What the processes of an identity asked of the embedded clusters."""
    entries = (entry for log in logs for entry in read_entries(log) if entry.userAgent.startswith(AGENTS[account]))
    return {
        _asked(entry.namespace, entry.group, _full(entry.resource, entry.subresource), entry.verb, entry.name)
        for entry in entries
    }


def asked_of_the_server(account: str, log: Path) -> tuple[set[Grant], list[str]]:
    """What an identity asked of a kube-apiserver, and every refusal, by its audit log."""
    grants, refusals = set(), []
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"].get("username") != user or target is None:
            continue
        resource = _full(target["resource"], target.get("subresource", ""))
        place = target.get("namespace", ""), target.get("apiGroup", "")
        grants.add(_asked(*place, resource, event["verb"], target.get("name", "")))
        status = event.get("responseStatus", {})
        if status.get("code") == 403:
            refusals.append(f"{event['verb']} {resource}: {status.get('message')}")
    return grants, refusals


def _asked(namespace: str, group: str, resource: str, verb: str, name: str) -> Grant:
    return Grant(namespace, group, resource, verb, name if (group, resource, verb) in NARROWED else "")


def _full(resource: str, subresource: str) -> str:
    return f"{resource}/{subresource}" if subresource else resource
