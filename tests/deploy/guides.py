"""The commands that README.md and docs/try-it.md have people type."""

from __future__ import annotations

import re
from pathlib import Path

from tests.deploy.rendering import ROOT

README = ROOT / "README.md"
TRY_IT = ROOT / "docs" / "try-it.md"

FILES = ".playground"
"""Where the processes that a reader starts by hand leave their pids, logs and kubeconfig."""


def console_blocks(page: Path) -> list[str]:
    """The commands of each `console` block, in order, without their prompts."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks]


def is_by_hand(block: str) -> bool:
    """Whether a block is for those without Docker only."""
    return FILES in block or "KUBECONFIG=${" in block


def is_with_docker(block: str) -> bool:
    """Whether a block is for those with Docker only."""
    return "docker compose" in block


def watcher_commands() -> tuple[str, str]:
    """How the watcher is stopped and started again by hand, as the table of docs/try-it.md says."""
    found = re.search(r"^\| without \| `([^|]+)` \| `(.+)` \|$", TRY_IT.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1], found[2]
