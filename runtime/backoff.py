"""How long a key waits after a retryable failure."""

from __future__ import annotations

from random import Random

BASE_SECONDS = 1.0
"""The longest first pause."""

LONGEST_SECONDS = 120.0
"""No pause that nobody asked for is longer (specification 06)."""

LONGEST_ASKED_SECONDS = 3600.0
"""No server can silence a key for longer, whatever its Retry-After says."""


def pause(failures: int, *, rng: Random, retry_after: float | None = None) -> float:
    """Seconds until the next attempt after `failures` (at least 1) failures in a row.

    Doubles from BASE_SECONDS up to LONGEST_SECONDS. The upper half of it is random, so that keys that failed
    together do not come back together, and yet every pause is longer than half of the one it could have been.
    `retry_after` (seconds) is never undercut, up to LONGEST_ASKED_SECONDS.
    """
    longest = min(LONGEST_SECONDS, BASE_SECONDS * 2.0 ** min(failures - 1, 32))
    chosen = longest / 2 + rng.random() * longest / 2
    if retry_after is None:
        return chosen
    return max(chosen, min(retry_after, LONGEST_ASKED_SECONDS))
