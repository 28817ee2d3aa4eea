"""Guards of recover: what is buried, what is not, and when a decision is final."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "recovery is for those who lack history",
        "workers.recovery:prepare",
        "if not recovery_required(composition, infer=context.settings.infer_required):",
        "if False:",
        "first/undisturbed/",
    ),
)
