"""Starting over after a lost race: read anew, decide anew, and give up to a later task after a few times."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from eno.errors import StartOver
from workers.outcome import Outcome

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often one task decides before it leaves the rest to a later one."""


def persistently(attempt: Callable[[], Outcome], context: Mapping[str, str]) -> Outcome:
    """The first attempt that is not overtaken. Raises StartOver when ATTEMPTS were; `context` is for the log."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except StartOver as error:
            log.info("starting over: %s", error, extra={"action": "start-over", **context})
    return attempt()
