"""What the figures were taken on, since absolute ones mean nothing elsewhere."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Machine:
    """`load` is the average over one minute when the run began: above zero, others were at work as well."""

    cpus: int
    cpu: str
    python: str
    system: str
    load: float
    started: str
    quick: bool

    @classmethod
    def look(cls, *, quick: bool) -> Machine:
        """This one, now."""
        return cls(
            cpus=len(os.sched_getaffinity(0)),
            cpu=_cpu(),
            python=platform.python_version(),
            system=platform.system(),
            load=round(os.getloadavg()[0], 2),
            started=datetime.now(UTC).strftime("%Y-%m-%d"),
            quick=quick,
        )

    def sentence(self) -> str:
        """For people."""
        how = "`python -m bench --quick`" if self.quick else "`make bench`"
        return (
            f"{how} on {self.started}: {self.cpus} CPUs ({self.cpu}), {self.system}, "
            f"Python {self.python}, load average {self.load} at the start."
        )

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def _cpu() -> str:
    """The processor's name as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
