"""How often a foreign readiness was cleared lately, counted across all workers.

The count decides how long the gate pauses before it corrects the same composition again. It is a hint like
everything else in Redis: whenever it is lost, the next correction counts as the first.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Self

import redis

from eno.errors import BrokerUnavailable
from eno.readiness import TOLERATED_CORRECTIONS
from runtime.broker import Keys, connect, translated
from runtime.settings import Settings

log = logging.getLogger(__name__)

WINDOW = timedelta(minutes=1)
"""Counted from the first correction on: fewer than the tolerated ones within it are no fight."""

MEMORY = timedelta(minutes=5)
"""For which a fight is remembered after its last correction: longer than any pause, or each would end it."""


class CorrectionCounter:
    """Counts corrections per key; see `workers.context.Corrections`."""

    def __init__(self, settings: Settings, client: redis.Redis) -> None:
        self._client = client
        self._keys = Keys(settings.instance)
        self._host = settings.broker_host

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """With a connection of its own, made at the first use."""
        return cls(settings, connect(settings))

    def close(self) -> None:
        """Drop the connection."""
        self._client.close()

    def note(self, key: str) -> int:
        """Count one more for the key. Returns how many there were in a row, with this one; 1 without Redis."""
        name = self._keys.corrections(key)
        try:
            with translated(self._host):
                with self._client.pipeline() as pipe:
                    pipe.set(name, 0, nx=True, px=WINDOW)
                    pipe.incr(name)
                    times = int(pipe.execute()[1])
                if times > TOLERATED_CORRECTIONS:
                    self._client.pexpire(name, MEMORY)
        except BrokerUnavailable as error:
            log.warning("%s", error, extra={"action": "correction-not-counted", "key": key})
            return 1
        return times
