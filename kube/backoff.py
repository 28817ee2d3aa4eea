"""How long to wait before talking to an API server again. Pure: the random draw is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from eno.errors import ApiError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter: `first`, twice that, and so on up to `limit` seconds."""

    first: float = 1.0
    limit: float = 60.0

    def delay(self, failures: int, error: ApiError | None, draw: float) -> float:
        """Seconds to wait after the `failures`th failure in a row (0: there was none, nothing to wait for).

        `draw`, in [0, 1), spreads the clients of a server that failed for all of them at once: over the
        upper half of the step, and above the pause that the server asked for (`retry_after`), never below.
        """
        if failures <= 0:
            return 0.0
        step = min(self.limit, self.first * 2.0 ** min(failures - 1, 32))
        spread = step * (1 + draw) / 2
        asked = error.retry_after if error else None
        return spread if asked is None else max(spread, asked + draw * self.first)
