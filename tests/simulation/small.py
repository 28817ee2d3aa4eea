"""Limits so small that two resources fill a slice and one an inventory chunk: few objects, and every path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from devcluster import eno_synthesis
from eno.inventory.secrets import snapshot
from eno.packing import pack
from workers import recovery
from workers.handlers import record

SLICE = 200
"""Bytes of manifests in a slice: two of these scenarios' manifests."""

CHUNK = 150
"""Bytes in a chunk: one entry."""


@contextmanager
def small() -> Iterator[None]:
    """While the block runs, slices and chunks are small."""
    patches: list[tuple[Any, str, Any]] = [
        (recovery, "pack", partial(pack, limit=SLICE)),
        (record, "snapshot", partial(snapshot, limit=CHUNK)),
        (eno_synthesis, "SLICE_BYTES", SLICE),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in patches]
    for module, name, value in patches:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
