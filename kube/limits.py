"""How fast a process may talk to an API server: a token bucket for every call, a lower one for slice writes.

Slices weigh up to a megabyte each, and bursts of them are what endangers etcd, not the number of calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from eno.errors import UsageError


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits per process and API server.

    `requests_per_second` holds on average for all calls together, of which `burst` may come at once;
    `slice_writes_per_second` for ResourceSlice writes, one at a time. Raises UsageError unless all are above 0.
    """

    requests_per_second: float = 50.0
    burst: int = 100
    slice_writes_per_second: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise UsageError("must be above 0", where=f"rate limit {field.name}", hint="give a higher limit")


class TokenBucket:
    """Lets `burst` calls pass at once and `rate` per second on average; the others sleep.

    Callers are served in the order in which they came: each takes its token at once, into debt if need be,
    and sleeps until the debt is paid. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._at = clock()

    def acquire(self) -> None:
        """Return when the call may be made."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate) - 1
            self._at = now
            wait = -self._tokens / self._rate
        if wait > 0:
            self._sleep(wait)
