"""The entry point of the `sexton` command: what stands between the interpreter and the imports of everything else.

They take about half a second, in which somebody may press Ctrl-C; so nothing but `sys` is imported outside of the try.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        from console.main import main as command

        return command()
    except KeyboardInterrupt:
        sys.stderr.write("sexton: interrupted\n")
        return 130
