"""Numbers in sentences, so that no message says `1 Secrets`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 tombstone`, `2 tombstones`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
