"""Everything a handler may touch: two API servers, a clock and settings. No Celery, no Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kube.cluster import Cluster
from runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """`clock` returns an aware instant. `upstream` holds compositions, `downstream` inventories."""

    upstream: Cluster
    downstream: Cluster
    clock: Callable[[], datetime]
    settings: Settings
