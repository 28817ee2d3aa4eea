"""Who holds the lock of a key: a delivery of its message, in a process, on a host.

A message comes back when the process that worked on it has died, but also when the worker only lost its connection
to Redis, or ends: then the first execution still goes on. The two can be told apart where the process ran on the
same host. Where it did not, the lock expires.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Self


def _host() -> str:
    return socket.gethostname()


@dataclass(frozen=True, slots=True)
class Holder:
    """This process, unless another is named. A pod's host name is its own, and so are its process ids."""

    delivery: str
    host: str = field(default_factory=_host)
    pid: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        return f"{self.delivery}@{self.host}:{self.pid}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From a lock. None when it holds something else."""
        rest, _, pid = text.rpartition(":")
        delivery, _, host = rest.rpartition("@")
        return cls(delivery, host, int(pid)) if pid.isdecimal() and host else None

    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        return False
