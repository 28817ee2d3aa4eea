"""RBAC, as a ServiceAccount meets it. A kube-apiserver alone: the store lets everybody do everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from eno import errors
from kube.cluster import Json
from kube.resources import SECRETS
from tests.contract.kinds import PROBES, probe
from tests.contract.plain import Ask
from tests.contract.refusals import FORBIDDEN
from tests.contract.servers import as_bearer, reached
from tests.contract.space import Space

pytestmark = pytest.mark.servers("kube-apiserver")

RULES: list[Json] = [
    {"apiGroups": [PROBES.group], "resources": ["probes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [PROBES.group], "resources": ["probes/status"], "verbs": ["patch"]},
]


def post(space: Space, target: str, body: Json) -> Json:
    reply = space.server.exchange(Ask("POST", target, json.dumps(body).encode()))
    assert reply.code == 201, reply.body
    answer: Json = reply.json
    return answer


@pytest.fixture
def account(space: Space) -> Iterator[Space]:
    """The namespace as a ServiceAccount sees it that may read Probes and patch their status."""
    core = f"/api/v1/namespaces/{space.namespace}/serviceaccounts"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space.namespace}"
    post(space, core, {"metadata": {"name": "reader"}})
    post(space, f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": space.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    post(space, f"{rbac}/rolebindings", {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role})
    token = post(space, f"{core}/reader/token", {"spec": {"expirationSeconds": 600}})["status"]["token"]
    assert space.server.connection is not None
    with ExitStack() as stack:
        cluster, exchange = stack.enter_context(reached(as_bearer(space.server.connection, token)))
        yield Space(cluster, space.namespace, replace(space.server, cluster=cluster, exchange=exchange))


def test_what_is_granted_works(space: Space, account: Space) -> None:
    space.probe(text="x")
    assert account.get(PROBES) == space.get(PROBES)
    assert account.names(PROBES) == ["a"]
    assert account.merge_patch(PROBES, {"status": {"uuid": "u"}}, subresource="status")["status"] == {"uuid": "u"}


def test_what_is_not_granted_is_forbidden_and_says_who_may_not_do_what(space: Space, account: Space) -> None:
    space.probe(text="x")
    before = space.state()
    with pytest.raises(errors.Forbidden) as raised:
        account.merge_patch(PROBES, {"spec": {"text": "y"}})
    assert (raised.value.status, raised.value.reason) == FORBIDDEN[1:]
    assert raised.value.detail == (
        f'{PROBES.qualified} "a" is forbidden: User "system:serviceaccount:{space.namespace}:reader" cannot patch '
        f'resource "probes" in API group "{PROBES.group}" in the namespace "{space.namespace}"'
    )
    assert space.state() == before


def test_nothing_else_is_granted(space: Space, account: Space) -> None:
    space.create(SECRETS, {"metadata": {"name": "a"}})
    space.probe()
    with pytest.raises(errors.Forbidden):
        account.get(SECRETS)
    with pytest.raises(errors.Forbidden):
        account.page(SECRETS, metadata_only=True)
    with pytest.raises(errors.Forbidden):
        account.probe("b")
    with pytest.raises(errors.Forbidden):
        account.delete(PROBES)
    with pytest.raises(errors.Forbidden):
        account.update(PROBES, space.get(PROBES), subresource="status")


def test_another_namespace_is_forbidden_whether_it_exists_or_not(account: Space) -> None:
    for name in ("default", f"{account.namespace}-absent"):
        with pytest.raises(errors.Forbidden):
            Space(account.cluster, name, account.server).names(PROBES)


def test_a_forbidden_create_does_not_tell_whether_the_object_is_valid(account: Space) -> None:
    with pytest.raises(errors.Forbidden):
        account.create(PROBES, probe(count=99))


def test_a_watch_that_is_forbidden_is_refused_before_it_begins(account: Space) -> None:
    with pytest.raises(errors.Forbidden):
        list(account.watch(SECRETS, "0", seconds=1))


def test_a_token_that_nobody_knows_is_unauthorized(space: Space) -> None:
    assert space.server.connection is not None
    with reached(as_bearer(space.server.connection, "nobody")) as (cluster, _), pytest.raises(errors.Unauthorized):
        Space(cluster, space.namespace, space.server).names(PROBES)
