"""Objects as `Table`: what `kubectl get` asks for and prints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from devcluster.kinds import Column, Kind
from devcluster.objects import Stored, decode
from eno.times import parse_time
from kube.cluster import Json

_STEP = re.compile(r"\.?((?:\\.|[^.\[\\])+)|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*['\"]([^'\"]*)['\"]\)\]")

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

_AGES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
)
"""Ages below the first number of seconds are shown in the unit that follows, and one smaller one if any."""

_NAME = Column("Name", "string", ".metadata.name", description="Name must be unique within a namespace.")


def table(kind: Kind, items: Iterable[Stored], now: datetime, list_metadata: Json, include: str) -> Json:
    """A Table. `include`: how much of each object goes along: None, Metadata (the default) or Object."""
    columns = (_NAME, *kind.columns)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": [_definition(column, kind) for column in columns],
        "rows": [_row(kind, columns, item, now, include) for item in items],
    }


def _definition(column: Column, kind: Kind) -> Json:
    described = f"Custom resource definition column (in JSONPath format): {column.path}"
    return {
        "name": column.name,
        "type": "string" if column.type == "date" and not kind.custom else column.type,
        "format": "name" if column is _NAME else "",
        "description": column.description or described,
        "priority": column.priority,
    }


def _row(kind: Kind, columns: tuple[Column, ...], item: Stored, now: datetime, include: str) -> Json:
    body = item.decoded(kind)
    row: Json = {"cells": [_cell(column, body, now) for column in columns]}
    if include == "Object":
        row["object"] = body
    elif include != "None":
        row["object"] = decode(item.partial())
    return row


def _cell(column: Column, body: Json, now: datetime) -> Any:
    value = find(body, column.path)
    if column.type == "date" and value is not None:
        return _age(value, now)
    if column.type == "integer" and isinstance(value, dict | list):
        return len(value)
    if value is None:
        return 0 if column.path == ".data" else None
    return value if isinstance(value, str | int | float) else str(value)


def find(body: Any, path: str) -> Any:
    """The value at a JSONPath of additionalPrinterColumns, or None. Filters: `[?(@.type=="Ready")]` only."""
    current = body
    for name, index, key, wanted in _STEP.findall(path):
        if index or key:
            elements = current if isinstance(current, list) else []
            if key:
                elements = [item for item in elements if isinstance(item, dict) and item.get(key) == wanted]
            position = int(index or 0)
            current = elements[position] if position < len(elements) else None
        else:
            current = current.get(name.replace("\\", "")) if isinstance(current, dict) else None
    return current


def _age(value: Any, now: datetime) -> str:
    """A duration as kubectl shows it."""
    try:
        seconds = max(0, int((now - parse_time(value)).total_seconds()))
    except (TypeError, ValueError):
        return "<invalid>"
    for limit, size, unit, smaller, small_unit in _AGES:
        if seconds < limit:
            rest = seconds % size // smaller if smaller else 0
            return f"{seconds // size}{unit}" + (f"{rest}{small_unit}" if rest else "")
    return f"{seconds // _DAY}d"
