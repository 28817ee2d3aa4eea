"""Read-only views of the API objects, in the shape the rules think in.

A view holds what the rules need and is never written back: Sexton patches its own paths only, so fields that
these models do not know stay untouched on the server. Field names and keys: specification 01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from eno.errors import MalformedObject
from eno.times import bounded

GROUP = "eno.azure.io"

OPT_IN_ANNOTATION = f"{GROUP}/recovery-enabled"
FORCE_RESYNTHESIS_ANNOTATION = f"{GROUP}/force-resynthesis"
IGNORE_SIDE_EFFECTS_ANNOTATION = f"{GROUP}/ignore-side-effects"
DELETION_STRATEGY_ANNOTATION = f"{GROUP}/deletion-strategy"
ACKNOWLEDGE_ANNOTATION = f"{GROUP}/acknowledge-recovery"
SYMPHONY_DELETING_LABEL = f"{GROUP}/symphony-deleting"
OVERFLOW_LABEL = f"{GROUP}/tombstone-recovery"
SYNTHESIS_UUID_LABEL = f"{GROUP}/synthesis-uuid"
CLEANUP_FINALIZER = f"{GROUP}/cleanup"


def _absent_if_null(value: Any) -> Any:
    return {} if value is None else value


def _empty_if_null(value: Any) -> Any:
    return [] if value is None else value


StringMap = Annotated[dict[str, str], BeforeValidator(_absent_if_null)]
"""Labels or annotations; null counts as none."""


Time = Annotated[AwareDatetime, AfterValidator(bounded)]
"""An instant in UTC, within the bounds of `eno.times`."""


class View(BaseModel):
    """Base of all views: frozen, camelCase on the wire, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class SliceReference(View):
    """An entry of `resourceSlices`; may be nameless."""

    name: str | None = None


class Recovery(View):
    """`tombstoneRecoveryStatus`: the decision as published, and the synthesis it was made for."""

    status: StrictBool = False
    reason: str = ""
    message: str = ""
    synthesis_uuid: str = Field("", alias="synthesisUUID")


class Synthesis(View):
    """One synthesis of a composition. Every field may be absent."""

    uuid: str = ""
    initialized: Time | None = None
    synthesized: Time | None = None
    reconciled: Time | None = None
    ready: Time | None = None
    canceled: Time | None = None
    resource_slices: Annotated[tuple[SliceReference | None, ...], BeforeValidator(_empty_if_null)] = ()
    recovery_required: StrictBool | None = Field(None, alias="tombstoneRecoveryRequired")
    recovery: Recovery | None = Field(None, alias="tombstoneRecoveryStatus")

    @property
    def slice_names(self) -> tuple[str | None, ...]:
        """The referenced names in order; None stands for a null or nameless reference."""
        return tuple((reference.name or None) if reference else None for reference in self.resource_slices)


class Simplified(View):
    """`status.simplified`: the summary that people read."""

    status: str = ""
    error: str = ""


class OwnerReference(View):
    """An entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: StrictBool = False

    @property
    def group(self) -> str:
        """The API group of the owner."""
        return self.api_version.rpartition("/")[0]


class Metadata(View):
    """`metadata` of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: StringMap = Field(default_factory=dict)
    annotations: StringMap = Field(default_factory=dict)
    finalizers: Annotated[tuple[str, ...], BeforeValidator(_empty_if_null)] = ()
    owner_references: Annotated[tuple[OwnerReference, ...], BeforeValidator(_empty_if_null)] = ()


class ObjectView(View):
    """What all viewed objects share."""

    metadata: Metadata

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """The view of a JSON object. Raises MalformedObject, naming the object and the first bad field."""
        try:
            return cls.model_validate(obj)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise MalformedObject(f"{path}: {first['msg'].removeprefix('Value error, ')}", where=_title(obj)) from error

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version

    @property
    def created(self) -> Time | None:
        return self.metadata.creation_timestamp

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations

    @property
    def title(self) -> str:
        """`namespace/name`, as people write it."""
        return f"{self.namespace}/{self.name}"


class _CompositionStatus(View):
    in_flight_synthesis: Synthesis | None = None
    current_synthesis: Synthesis | None = None
    previous_synthesis: Synthesis | None = None
    simplified: Simplified | None = None


class Composition(ObjectView):
    """A Composition: who synthesizes it, and its three syntheses."""

    synthesizer: str = Field("", validation_alias=AliasPath("spec", "synthesizer", "name"))
    status: Annotated[_CompositionStatus, BeforeValidator(_absent_if_null)] = _CompositionStatus()

    @property
    def in_flight(self) -> Synthesis | None:
        return self.status.in_flight_synthesis

    @property
    def current(self) -> Synthesis | None:
        return self.status.current_synthesis

    @property
    def previous(self) -> Synthesis | None:
        return self.status.previous_synthesis

    @property
    def simplified(self) -> Simplified | None:
        return self.status.simplified

    @property
    def opted_in(self) -> bool:
        """Exactly `true` as an annotation; a label, `True` or ` true ` are not an opt-in."""
        return self.annotations.get(OPT_IN_ANNOTATION) == "true"

    @property
    def latest_uuid(self) -> str:
        """The UUID that a resynthesis request names: in-flight, else current, else empty."""
        for synthesis in (self.in_flight, self.current):
            if synthesis is not None:
                return synthesis.uuid
        return ""


class SliceEntry(View):
    """One manifest of a slice, as the string that Eno stores. `deleted` makes it a tombstone."""

    manifest: str = ""
    deleted: StrictBool = False


class ResourceState(View):
    """The state of the manifest at the same index."""

    reconciled: StrictBool = False
    ready: Time | None = None
    deleted: StrictBool = False
    reconciliation_error: str | None = None


class _SliceSpec(View):
    synthesis_uuid: str = Field("", alias="synthesisUUID")
    resources: Annotated[tuple[SliceEntry, ...], BeforeValidator(_empty_if_null)] = ()


class _SliceStatus(View):
    resources: Annotated[tuple[ResourceState, ...], BeforeValidator(_empty_if_null)] = ()


class ResourceSlice(ObjectView):
    """A ResourceSlice: manifests, and their states index by index (possibly fewer)."""

    spec: Annotated[_SliceSpec, BeforeValidator(_absent_if_null)] = _SliceSpec()
    status: Annotated[_SliceStatus, BeforeValidator(_absent_if_null)] = _SliceStatus()

    @property
    def synthesis_uuid(self) -> str:
        """The stamp. Eno stamps the synthesis that was current, not the one it is making: never trust it alone."""
        return self.spec.synthesis_uuid

    @property
    def resources(self) -> tuple[SliceEntry, ...]:
        return self.spec.resources

    @property
    def states(self) -> tuple[ResourceState, ...]:
        return self.status.resources

    @property
    def owner(self) -> OwnerReference | None:
        """The controlling Composition, or None."""
        for owner in self.metadata.owner_references:
            if owner.controller and owner.kind == "Composition" and owner.group == GROUP:
                return owner
        return None


def _title(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    return f"{obj.get('kind', 'object')} {name}".strip()
