"""What the identity of this command may do, of what Sexton's processes need: asked, never tried.

A SelfSubjectAccessReview answers for whoever asks. So the doctor tells of a process' permissions where it has that
process' identity: inside its pod, or with its kubeconfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def check_access(area: str, cluster: Cluster, permissions: Iterable[Permission], settings: Settings) -> Iterator[Check]:
    """One check per permission, which names the verbs that are missing."""
    who = identity(cluster)
    for each in permissions:
        namespace = each.namespace(settings)
        name = f"{each.process}: {each.plural}"
        where = f"in {namespace}" if namespace else "in all namespaces"
        try:
            missing = [verb for verb in each.verbs if not allowed(cluster, each, verb, namespace)]
        except ApiError as error:
            yield broken(area, name, error)
            return
        if missing:
            found = f"{who or 'this identity'} may not {', '.join(missing)} {where} ({each.why})"
            yield failed(area, name, found, grant(each, missing, namespace, who))
        else:
            yield ok(area, name, f"{', '.join(each.verbs)} {where}")


def allowed(cluster: Cluster, permission: Permission, verb: str, namespace: str) -> bool:
    """Whether the API server would let us. `namespace` empty: in all of them. Raises ApiError."""
    attributes = {
        "verb": verb,
        "group": permission.resource.group,
        "resource": permission.resource.plural,
        "subresource": permission.subresource,
        "namespace": namespace,
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


def grant(permission: Permission, verbs: Iterable[str], namespace: str, who: str) -> str:
    """The kubectl line that grants the verbs. Roles are named after what they grant, so lines do not clash."""
    kind, place = ("role", f" -n {namespace}") if namespace else ("clusterrole", "")
    words = (permission.process, *verbs, *permission.plural.split("/"))
    name = f"sexton-{'-'.join(words)}"
    return (
        f"kubectl create {kind} {name}{place} --verb={','.join(verbs)} --resource={permission.qualified} && "
        f"kubectl create {kind}binding {name}{place} --{kind}={name} {_subject(who)}"
    )


def _subject(who: str) -> str:
    if who.startswith(_ACCOUNT):
        return f"--serviceaccount={who.removeprefix(_ACCOUNT)}"
    return f"--user={who or 'USER'}"
