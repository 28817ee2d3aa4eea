"""One check of the doctor as a value, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from eno.errors import ApiError, SextonError
from kube.cluster import Json


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Worth a look, though nothing fails of it, or nobody may tell whether it does."""

    FAILED = "failed"
    SKIPPED = "skipped"
    """What it needs is away, which is another check's failure."""


@dataclass(frozen=True, slots=True)
class Check:
    """`area` is where, `name` what was looked at, `found` what is so. `fix`: the line that mends it."""

    area: str
    name: str
    state: State
    found: str
    fix: str = ""

    def to_json(self) -> Json:
        """For machines."""
        return {
            "area": self.area,
            "check": self.name,
            "state": str(self.state),
            "found": self.found,
            "fix": self.fix or None,
        }


@dataclass(frozen=True, slots=True)
class Examination:
    """Every check, in order."""

    checks: Sequence[Check]

    @property
    def failed(self) -> Sequence[Check]:
        """What has to be mended."""
        return [each for each in self.checks if each.state is State.FAILED]

    def to_json(self) -> Json:
        """For machines."""
        return {"ok": not self.failed, "checks": [each.to_json() for each in self.checks]}


def ok(area: str, name: str, found: str) -> Check:
    """All is well."""
    return Check(area, name, State.OK, found)


def warning(area: str, name: str, found: str, fix: str = "") -> Check:
    """Worth a look."""
    return Check(area, name, State.WARNING, found, fix)


def failed(area: str, name: str, found: str, fix: str) -> Check:
    """To be mended."""
    return Check(area, name, State.FAILED, found, fix)


def skipped(area: str, name: str, why: str) -> Check:
    """Not looked at."""
    return Check(area, name, State.SKIPPED, why)


def broken(area: str, name: str, error: SextonError, fix: str = "") -> Check:
    """The check itself ended in an error, which says what to do unless `fix` does."""
    # The summary of a refusal is its status alone; the server's words say who may not do what.
    detail = (
        f" ({error.detail})" if error.detail and not (isinstance(error, ApiError) and len(error.detail) > 300) else ""
    )
    return Check(area, name, State.FAILED, f"{error.summary}{detail}", fix or error.hint)
