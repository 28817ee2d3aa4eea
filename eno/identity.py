"""Which resource a manifest is about, read from its head alone.

A slice holds up to half a MiB of manifests and every one of them is looked at on every recovery, so the head is
cut out with msgspec and the rest of the document is skipped, not built. Rules: specification 01, *Identity* and
*Comparing*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from eno.errors import MalformedManifest, UsageError
from eno.objects import GROUP

DISABLE_RECONCILIATION_ANNOTATION = f"{GROUP}/disable-reconciliation"
OVERRIDES_ANNOTATION = f"{GROUP}/overrides"

_ALIASES = {
    ("extensions", "Ingress"): "networking.k8s.io",
    ("extensions", "NetworkPolicy"): "networking.k8s.io",
    ("extensions", "Deployment"): "apps",
    ("extensions", "DaemonSet"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("extensions", "PodSecurityPolicy"): "policy",
    ("", "Event"): "events.k8s.io",
}
"""One object served under two groups: the older group and kind, and where it lives today."""

# Asked first, of tens of thousands of identities: most kinds are in neither table, which their name alone tells.
_ALIASED_KINDS = frozenset(kind for _, kind in _ALIASES)

_CLUSTER_SCOPED = frozenset(
    {
        ("", "ComponentStatus"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("internal.apiserver.k8s.io", "StorageVersion"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodSecurityPolicy"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "DeviceTaintRule"),
        ("resource.k8s.io", "ResourceSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
        ("storagemigration.k8s.io", "StorageVersionMigration"),
    }
)

_CLUSTER_SCOPED_KINDS = frozenset(kind for _, kind in _CLUSTER_SCOPED)


class ResourceId(NamedTuple):
    """The identity of a resource. Version, labels and content do not count; `namespace` may be empty."""

    group: str
    kind: str
    namespace: str
    name: str

    def encode(self) -> str:
        """`group/kind/namespace/name` with `/` and `%` escaped: lossless for any strings."""
        return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in self)

    @classmethod
    def decode(cls, text: str) -> ResourceId:
        """The inverse of `encode`. Raises UsageError on anything that `encode` does not produce."""
        parts = text.split("/")
        if len(parts) == 4:
            identity = cls(*(part.replace("%2F", "/").replace("%25", "%") for part in parts))
            if identity.encode() == text:
                return identity
        raise UsageError(f"{text!r} is not a resource identity", hint="write group/kind/namespace/name")

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"

    @property
    def cluster_scoped(self) -> bool:
        """Whether the kind is one of the built-in ones that live outside namespaces."""
        return self.kind in _CLUSTER_SCOPED_KINDS and (self.canonical_group, self.kind) in _CLUSTER_SCOPED

    @property
    def canonical_group(self) -> str:
        """The group under which the same object is served today."""
        return _ALIASES.get((self.group, self.kind), self.group) if self.kind in _ALIASED_KINDS else self.group


class Head(msgspec.Struct, frozen=True, gc=False):
    """What a manifest says of itself. For a Patch, `id` and `version` are those of its target."""

    id: ResourceId
    version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    is_patch: bool = False

    @property
    def managed(self) -> bool:
        """False when Eno was told not to reconcile the resource, now or by an override."""
        if self.annotations.get(DISABLE_RECONCILIATION_ANNOTATION) == "true":
            return False
        overrides = self.annotations.get(OVERRIDES_ANNOTATION, "")
        return DISABLE_RECONCILIATION_ANNOTATION not in overrides + _unescaped(overrides)


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Target(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _Document(msgspec.Struct, rename="camel"):
    api_version: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Annotated[str, msgspec.Meta(min_length=1)]
    metadata: _Metadata
    # Read apart: other kinds have a `patch` of their own, in any shape.
    patch: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(_Document)
_target_decoder = msgspec.json.Decoder(_Target)


def parse_head(manifest: str) -> Head:
    """The head of a JSON manifest.

    Raises MalformedManifest (without a place: the caller knows slice and index) when it is not JSON, lacks
    version, kind or name, or has labels or annotations that are not strings.
    """
    try:
        document = _decoder.decode(manifest)
        is_patch = document.kind == "Patch" and _split(document.api_version)[0] == GROUP
        target = _target_decoder.decode(document.patch) if is_patch else document
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MalformedManifest(f"malformed manifest: {_reason(error)}") from error
    group, version = _split(target.api_version)
    metadata = document.metadata
    if not (version and target.kind and metadata.name):
        raise MalformedManifest("malformed manifest: version, kind or name is missing")
    identity = ResourceId(group, target.kind, metadata.namespace or "", metadata.name)
    return Head(identity, version, metadata.labels or {}, metadata.annotations or {}, is_patch)


class Wanted:
    """A set of identities that errs on the side of "wanted" when asked (specification 01, *Comparing*).

    The same object under an older group matches, and so does a namespace that either side leaves open.
    """

    def __init__(self, identities: Iterable[ResourceId] = ()) -> None:
        # Nearly every name is in one namespace, so a set is only made for the second.
        self._namespaces: dict[tuple[str, str, str], str | set[str]] = {}
        for identity in identities:
            key, namespace = _key(identity), identity[2]
            found = self._namespaces.setdefault(key, namespace)
            if isinstance(found, set):
                found.add(namespace)
            elif found != namespace:
                self._namespaces[key] = {found, namespace}

    def __contains__(self, identity: ResourceId) -> bool:
        found = self._namespaces.get(_key(identity))
        if found is None:
            return False
        _, kind, namespace, _ = identity
        if not namespace or (kind in _CLUSTER_SCOPED_KINDS and identity.cluster_scoped):
            return True
        if isinstance(found, set):
            return namespace in found or "" in found
        return found in (namespace, "")


def _key(identity: ResourceId) -> tuple[str, str, str]:
    group, kind, _, name = identity
    return (identity.canonical_group, kind, name) if kind in _ALIASED_KINDS else (group, kind, name)


def _split(api_version: str) -> tuple[str, str]:
    group, slash, version = api_version.rpartition("/")
    if slash and (not group or "/" in group):
        raise MalformedManifest(f"malformed manifest: apiVersion {api_version!r}")
    return group, version


def _unescaped(overrides: str) -> str:
    """The overrides with JSON escapes resolved, or nothing when they are not JSON."""
    try:
        return json.dumps(json.loads(overrides), ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
