"""promtool, which checks rules and runs their cases; skipped, with the reason, where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HINT = "no promtool on this machine: tests/monitoring/get-promtool.sh fetches Debian's, or install Prometheus"


def find_promtool() -> str | None:
    """The one on PATH, else the one that `get-promtool.sh` has put into the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sexton" / "promtool" / "promtool"
    return shutil.which("promtool") or (str(cache) if os.access(cache, os.X_OK) else None)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What it says. Skips the test where there is none."""
    program = find_promtool()
    if program is None:
        pytest.skip(HINT)
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
