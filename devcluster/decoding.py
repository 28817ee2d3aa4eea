"""What a Go struct does not decode, in Go's words.

Built-in kinds and `metadata` are Go structs: a wrong type in them is refused by the decoder, before any schema.
"""

from __future__ import annotations

from typing import Any

from devcluster.schema import Node, is_date_time, type_of, wanted_types

_NAMES = {"integer": "int64", "boolean": "bool", "object": "map[string]interface {}", "array": "[]interface {}"}


def mismatch(value: Any, node: Node, path: str) -> str | None:
    """Go's words for the first value that does not decode into its type, or None."""
    if value is None:
        return None
    if node.go_type == "time":
        if isinstance(value, str) and not is_date_time(value):
            return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        wanted: tuple[str, ...] = ("string",)
    else:
        wanted = wanted_types(node)
    found = type_of(value)
    if wanted and found not in wanted:
        word = {"integer": "number", "boolean": "bool"}.get(found, found)
        field_of = f"Go struct field {path}" if "." in path else "Go value"
        return f"json: cannot unmarshal {word} into {field_of} of type {_go_type(node)}"
    if isinstance(value, dict):
        for key, item in value.items():
            child = node.properties.get(key)
            fault = mismatch(item, child, f"{path}.{key}") if child else None
            if fault is None and node.additional is not None and child is None:
                fault = mismatch(item, node.additional, path)
            if fault is not None:
                return fault
    elif isinstance(value, list) and node.items is not None:
        faults = (mismatch(item, node.items, path) for item in value)
        return next((fault for fault in faults if fault is not None), None)
    return None


def _go_type(node: Node) -> str:
    return node.go_type or _NAMES.get(node.type, node.type)
