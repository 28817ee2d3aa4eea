"""From the processes of the pool to their parent: what they count crosses the fork through a pipe.

The parent is asked for metrics, and its children do the work. A pipe takes lines of up to PIPE_BUF bytes whole or
not at all, from any number of writers, so a child that is killed leaves no half of a line behind, and what it
counted before stays counted. Nothing is written to a file system, which is read-only in a deployment.

A child never waits: where the parent reads too slowly to keep up, or is stopped, counts are lost.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress

from runtime.metrics import Family, Metrics


class Pipe:
    """Made before the fork. Children `record`; the parent takes it over into its `metrics` until `close`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._read, name="metering", daemon=True)
        self._thread.start()

    def record(self, family: Family, value: float = 1.0, *labels: str) -> None:
        """See `runtime.metrics.Meter`."""
        line = json.dumps([family.name, value, labels]).encode() + b"\n"
        with suppress(OSError):  # full, or closed at the end of the process
            os.write(self._writer, line)

    def disown(self) -> None:
        """In a child: leave reading to the parent."""
        os.close(self._reader)

    def close(self) -> None:
        """In the parent, after its children: take over what is left."""
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _read(self) -> None:
        with os.fdopen(self._reader, "rb", closefd=False) as lines:
            for line in lines:
                name, value, labels = json.loads(line)
                self._metrics.record_named(name, value, labels)
