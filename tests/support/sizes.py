"""What an object costs in memory, the same in every run: allocators and shared tables are left out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass


def size(obj: object, seen: set[int]) -> int:
    """Bytes of an object and of whatever it alone refers to."""
    if id(obj) in seen:
        return 0
    seen.add(id(obj))
    parts: Iterable[object] = ()
    if isinstance(obj, tuple):
        parts = obj
    elif is_dataclass(obj):
        parts = (getattr(obj, each.name) for each in fields(obj))
    return sys.getsizeof(obj) + sum(size(part, seen) for part in parts)
