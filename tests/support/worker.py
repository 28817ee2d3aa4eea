"""A real worker process for integration tests, started the way a deployment starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.settings import Settings, variable
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0


@dataclass
class Worker:
    """A running worker. Its log is JSON, one record per line."""

    process: subprocess.Popen[bytes]
    log: Path

    def lines(self, action: str) -> list[dict[str, Any]]:
        """The log's records with this action."""
        text = self.log.read_text(encoding="utf-8")
        records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [record for record in records if record["action"] == action]

    @property
    def ready(self) -> bool:
        """Whether it consumes."""
        return any(line["message"].endswith(" ready.") for line in self.lines("log"))

    def children(self) -> list[int]:
        """Process ids of its pool."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in text.split()]

    def stop(self, *, seconds: float = 20.0) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@contextmanager
def running_worker(directory: Path, settings: Settings, *, concurrency: int = 1) -> Iterator[Worker]:
    """`celery -A workers worker` with these settings, ready to consume; killed at the end if it still runs."""
    given = {name: value for name, value in settings if value != Settings.model_fields[name].default}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SEXTON_", "POD_"))}
    environment |= {variable(name): str(value) for name, value in given.items() if value is not None}
    command = [sys.executable, "-m", "celery", "-A", "workers", "--quiet", "worker", "-c", str(concurrency)]
    log = directory / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    worker = Worker(process, log)
    try:
        until(lambda: worker.ready or process.poll() is not None, "worker ready", seconds=START_SECONDS)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield worker
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
