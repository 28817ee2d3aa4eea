"""How a process of the workers refuses to go on: one line on stderr, the error's exit code, no traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from eno.errors import SextonError


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the program with what is raised within the block, where it is a SextonError. Raises SystemExit."""
    try:
        yield
    except SextonError as error:
        sys.stderr.write(f"sexton: {error}\n")
        raise SystemExit(error.exit_code) from None
