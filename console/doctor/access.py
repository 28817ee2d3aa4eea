"""What the identity of this command may do, of what Sexton's processes need: asked, never tried.

A SelfSubjectAccessReview answers for whoever asks. So the doctor tells of a process' permissions where it has that
process' identity: inside its pod, or with its kubeconfig.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from console.doctor.checks import Check, broken, failed, ok
from console.permissions import Permission
from eno.errors import ApiError
from kube.cluster import Cluster, Json
from kube.resources import Resource
from runtime.settings import Settings

ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)

_ACCOUNT = "system:serviceaccount:"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.:@_-]+")
_LONGEST_WHO = 100


def check_access(
    area: str, cluster: Cluster, permissions: Iterable[Permission], settings: Settings, kubectl: str = "kubectl"
) -> Iterator[Check]:
    """One check per permission, which names the verbs that are missing. `kubectl`: the command that gets there."""
    who = identity(cluster)
    for each in permissions:
        namespace, only = each.namespace(settings), each.name(settings)
        name = f"{each.process}: {each.plural} {only}".rstrip()
        where = f"in {namespace}" if namespace else "in all namespaces"
        try:
            missing = [verb for verb in each.verbs if not allowed(cluster, each, verb, namespace, only)]
        except ApiError as error:
            yield broken(area, name, error)
            return
        if missing:
            found = f"{who or 'this identity'} may not {', '.join(missing)} {where} ({each.why})"
            yield failed(area, name, found, grant(each, missing, namespace, who, only=only, kubectl=kubectl))
        else:
            yield ok(area, name, f"{', '.join(each.verbs)} {where}")


def allowed(cluster: Cluster, permission: Permission, verb: str, namespace: str, only: str = "") -> bool:
    """Whether the API server would let us. `namespace` empty: in all of them; `only`: this object. Raises ApiError."""
    attributes = {
        "verb": verb,
        "group": permission.resource.group,
        "resource": permission.resource.plural,
        "subresource": permission.subresource,
        "namespace": namespace,
        "name": only,
    }
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    review = cluster.create(ACCESS_REVIEWS, None, body)
    return bool((review.get("status") or {}).get("allowed"))


def identity(cluster: Cluster) -> str:
    """Who the API server takes us for; empty where it does not say (before Kubernetes 1.28)."""
    body: Json = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
    try:
        review = cluster.create(SELF_REVIEWS, None, body)
    except ApiError:
        return ""
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


def grant(
    permission: Permission,
    verbs: Sequence[str],
    namespace: str,
    who: str,
    *,
    only: str = "",
    kubectl: str = "kubectl",
) -> str:
    """The line that grants the verbs, to be pasted as often as one likes.

    Roles are named after what they grant, and bindings also after whom they grant it to, so lines do not clash.
    """
    kind, place = ("role", ["-n", namespace]) if namespace else ("clusterrole", [])
    words = (permission.process, *verbs, *permission.plural.split("/"), *([only] if only else []))
    role = f"sexton-{'-'.join(words)}"
    rules = [f"--verb={','.join(verbs)}", f"--resource={permission.qualified}"]
    rules += [f"--resource-name={only}"] if only else []
    binding = [f"{role}-{_label(who)}", *place, f"--{kind}={role}", _subject(who)]
    return " && ".join(
        f"{kubectl} create {made} {' '.join(map(quote, details))} --dry-run=client -o yaml | {kubectl} apply -f -"
        for made, details in ((kind, [role, *place, *rules]), (f"{kind}binding", binding))
    )


def _label(who: str) -> str:
    """A part of a name for an identity, and for no other one. Names of RBAC may have colons in them."""
    plain = _NOT_IN_NAMES.sub("-", who or "USER")[:_LONGEST_WHO]
    return plain if who in (plain, "") else f"{plain}-{hashlib.sha256(who.encode()).hexdigest()[:8]}"


def _subject(who: str) -> str:
    if who.startswith(_ACCOUNT):
        return f"--serviceaccount={who.removeprefix(_ACCOUNT)}"
    return f"--user={who or 'USER'}"
