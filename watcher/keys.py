"""The names of what the watcher looks at, and what a record needs to have one."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from eno.errors import MalformedObject
from eno.objects import ObjectView


class Kind(StrEnum):
    """The kinds of objects that the watcher follows, and what else is looked at."""

    COMPOSITION = "Composition"
    SLICE = "ResourceSlice"
    INVENTORY = "Secret"
    LINEAGE = "inventory lineage"
    """No object: what the inventories of a lineage, or of one name in it, are looked at by."""


class Key(NamedTuple):
    """Names an object to look at."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def lineage_key(lineage_id: str, name: str = "") -> Key:
    """What the inventories of a lineage, or of one name in it, are looked at by."""
    return Key(Kind.LINEAGE, lineage_id, name)


def require_identity(view: ObjectView) -> None:
    """Without these three there is nothing that a message could name."""
    for field in ("namespace", "name", "uid"):
        if not getattr(view, field):
            raise MalformedObject(f"metadata.{field} is missing", where=view.title)


def utc(instant: datetime | None) -> datetime | None:
    """The same instant without a time zone object of its own, which would cost as much again."""
    return instant.astimezone(UTC) if instant else None
