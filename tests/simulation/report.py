"""What the enumeration came to, as tables of plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulation.mutation import Guard

_SHOWN = 160
"""Characters of the reason for which a mutant was killed."""


@dataclass
class Share:
    """The plans of one scenario and kind. `seconds` of processor time; a violation begins with the line of its plan."""

    scenario: str
    kind: str
    enumerated: int = 0
    run: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The product without a guard, and how that was noticed; None when it was not."""

    guard: Guard
    how: str | None


def by_mutant(mutants: Sequence[Mutant]) -> str:
    """What was taken away, from where, by what it is missed, and how."""
    return "\n".join(line for each in mutants for line in _mutant(each))


def _mutant(mutant: Mutant) -> list[str]:
    guard, how = mutant.guard, mutant.how
    lines = [f"{'killed' if how else 'ALIVE':<8}{guard.name}", f"        from {guard.where}, by {guard.killed_by}"]
    return [*lines, f"        {how[:_SHOWN]}"] if how else lines


def by_scenario(shares: Sequence[Share]) -> str:
    """A row per scenario."""
    return _table("scenario", shares, lambda share: share.scenario)


def by_kind(shares: Sequence[Share]) -> str:
    """A row per kind of plan."""
    return _table("kind", shares, lambda share: share.kind)


def _table(title: str, shares: Sequence[Share], key: Callable[[Share], str]) -> str:
    lines = [f"{title:<14}{'enumerated':>12}{'run':>10}{'violations':>12}"]
    for name in sorted({key(share) for share in shares}):
        mine = [share for share in shares if key(share) == name]
        enumerated, run = sum(share.enumerated for share in mine), sum(share.run for share in mine)
        lines.append(f"{name:<14}{enumerated:>12,}{run:>10,}{sum(len(share.violations) for share in mine):>12}")
    return "\n".join(lines)
