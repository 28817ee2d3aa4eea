"""Everything a handler may touch: two API servers, a clock, settings, a counter, a meter. No Celery, no Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from kube.cluster import Cluster
from runtime.metrics import Meter, Unmetered
from runtime.settings import Settings


class Corrections(Protocol):
    """Counts how often a foreign readiness was cleared lately. A hint: forgetting it costs a few more writes."""

    def note(self, key: str) -> int:
        """Count one more for the key. Returns how many there were within a minute or in a fight, with this one."""
        ...


class Uncounted:
    """For contexts that correct nothing: every correction would count as the first."""

    def note(self, key: str) -> int:  # noqa: ARG002
        """See Corrections."""
        return 1


@dataclass(frozen=True, slots=True)
class Context:
    """`clock` returns an aware instant. `upstream` holds compositions, `downstream` inventories."""

    upstream: Cluster
    downstream: Cluster
    clock: Callable[[], datetime]
    settings: Settings
    corrections: Corrections = field(default_factory=Uncounted)
    meter: Meter = field(default_factory=Unmetered)
