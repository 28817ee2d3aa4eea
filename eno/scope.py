"""Which compositions are ours to act on.

Source of the rules: the scopes of the watcher (specification 06). The *watch scope* is a namespace (or all) and
a label selector; the *recovery scope* is the part of it that lies in the recovery namespace, and is empty while
recovery is disabled. Both the watcher and the workers ask here, so that a message can never make a worker do
more than the watcher could have asked for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from eno.objects import Composition
from eno.selectors import LabelSelector


class Aggregation(StrEnum):
    """For which compositions Sexton takes the place of Eno's slice status controller."""

    OPTED_IN = "opted-in"
    ALL = "all"
    OFF = "off"


class Scope(BaseModel):
    """What a process looks after. An empty `composition_namespace` means all namespaces."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    composition_namespace: str = ""
    label_selector: str = ""
    recovery_namespace: str = ""
    recovery_enabled: bool = False
    # JSON knows no enumerations.
    aggregation: Annotated[Aggregation, Strict(False)] = Aggregation.OPTED_IN
    retirement_grace: Annotated[float, Field(ge=0)] = 7 * 86400.0
    """Seconds that an unclaimed inventory is kept; 0: for ever."""

    def outside_watch(self, composition: Composition) -> str | None:
        """Why the composition is outside the watch scope, or None.

        Raises UsageError when the label selector cannot be parsed.
        """
        if self.composition_namespace and composition.namespace != self.composition_namespace:
            return f"namespace {composition.namespace} is outside {self.composition_namespace}"
        if not LabelSelector.parse(self.label_selector).matches(composition.labels):
            return f"labels do not match {self.label_selector}"
        return None

    def aggregates(self, *, opted_in: bool) -> bool:
        """Whether readiness is derived here, and not by somebody else."""
        return self.aggregation is Aggregation.ALL or (self.aggregation is Aggregation.OPTED_IN and opted_in)

    def recovers_in(self, namespace: str) -> bool:
        """Whether the compositions of a namespace are recovered here, those that the selector leaves out aside."""
        watched = self.composition_namespace in ("", namespace)
        return self.recovery_enabled and watched and namespace == self.recovery_namespace

    def outside_recovery(self, composition: Composition) -> str | None:
        """Why the composition is outside the recovery scope, or None."""
        if not self.recovery_enabled:
            return "tombstone recovery is disabled"
        if composition.namespace != self.recovery_namespace:
            return f"namespace {composition.namespace} is outside the recovery namespace {self.recovery_namespace}"
        return self.outside_watch(composition)
