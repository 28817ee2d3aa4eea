"""Starting over after a lost race: read anew, decide anew, and give up to a later task after a few times."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from eno.errors import SextonError, StartOver, Terminal, Throttled, Unauthorized, Unreachable
from workers.outcome import Outcome

T = TypeVar("T")

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often one task decides before it leaves the rest to a later one."""


_AFFECTS_ALL = (Unreachable, Throttled, Unauthorized)
"""Errors of the whole API server: going on would only meet them again."""


def every(steps: Iterable[Callable[[], T]]) -> list[T]:
    """Run all steps, although some are refused, and return their results.

    One object that cannot be changed must not starve those behind it. Raises the first error after the last step,
    a Retryable one before a Terminal one; at once what affects every step.
    """
    results: list[T] = []
    errors: list[SextonError] = []
    for step in steps:
        try:
            results.append(step())
        except _AFFECTS_ALL:
            raise
        except SextonError as error:
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, Terminal))
    return results


def persistently(attempt: Callable[[], Outcome], context: Mapping[str, str]) -> Outcome:
    """The first attempt that is not overtaken. Raises StartOver when ATTEMPTS were; `context` is for the log."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except StartOver as error:
            log.info("starting over: %s", error, extra={"action": "start-over", **context})
    return attempt()
