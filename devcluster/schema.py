"""Structural schemas: what a CustomResourceDefinition keeps, fills in and refuses.

Nearly every write already has the shape its schema asks for. `conforms` finds that out in one walk without
building a path; only when it says no do `prune`, `fill` and `causes` walk again, slowly and with words.
CEL rules, `not` and the `*Of` operators are not evaluated; nor are string formats other than `date-time`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import msgspec

from devcluster.statuses import (
    UNCHECKED_RULES,
    Cause,
    invalid_value,
    required,
    too_long,
    unsupported,
    wrong_type,
)
from kube.cluster import Json

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")

_BLOCKING = {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"} | {
    "FieldValueTypeInvalid"
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The value validations of one node; None where there is none."""

    enum: tuple[Any, ...] = ()
    date_time: bool = False
    pattern: re.Pattern[str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    unique: bool = False
    keys: tuple[str, ...] = ()


_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Node:
    """One compiled schema. `type` is empty where anything goes; `default` is JSON text or None.

    `go_string`: a value of a Go map of strings, where null becomes the empty string.
    """

    type: str = ""
    properties: Mapping[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    items: Node | None = None
    preserve: bool = False
    nullable: bool = False
    int_or_string: bool = False
    default: bytes | None = None
    required: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    limits: Limits = _NO_LIMITS
    rules: bool = False
    go_type: str = ""
    go_string: bool = False


ANY = Node(preserve=True)
"""Accepts and keeps everything."""

NOTHING = Node()
"""Keeps no member of an object: what lies in an array where the schema expects none."""


def compile_schema(schema: Json) -> Node:
    """The node of an OpenAPI v3 structural schema. `x-go-type` names a Go type for decoding errors."""
    properties = {name: compile_schema(child) for name, child in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    items = schema.get("items")
    needed = tuple(schema.get("required") or ())
    defaulted = tuple(name for name, child in properties.items() if child.default is not None)
    return Node(
        type=schema.get("type", ""),
        properties=properties,
        additional=compile_schema(additional) if isinstance(additional, dict) else ANY if additional else None,
        items=compile_schema(items) if isinstance(items, dict) else None,
        preserve=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        nullable=bool(schema.get("nullable")),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        default=msgspec.json.encode(schema["default"]) if "default" in schema else None,
        required=needed,
        expected=(*needed, *defaulted),
        limits=_compile_limits(schema),
        rules="x-kubernetes-validations" in schema or any(child.rules for child in properties.values()),
        go_type=schema.get("x-go-type", ""),
        go_string=bool(schema.get("x-go-string")),
    )


def _compile_limits(schema: Json) -> Limits:
    pattern = schema.get("pattern")
    list_type = schema.get("x-kubernetes-list-type")
    limits = Limits(
        enum=tuple(schema.get("enum") or ()),
        date_time=schema.get("format") == "date-time",
        pattern=re.compile(pattern) if pattern else None,
        minimum=schema.get("minimum"),
        maximum=schema.get("maximum"),
        exclusive_minimum=bool(schema.get("exclusiveMinimum")),
        exclusive_maximum=bool(schema.get("exclusiveMaximum")),
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        min_items=schema.get("minItems"),
        max_items=schema.get("maxItems"),
        min_properties=schema.get("minProperties"),
        max_properties=schema.get("maxProperties"),
        unique=list_type == "set",
        keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else (),
    )
    return limits if limits != _NO_LIMITS else _NO_LIMITS


def conforms(value: Any, node: Node) -> bool:
    """Whether there is nothing to prune, to fill in or to refuse."""
    kind = node.type
    if kind == "string":
        good = type(value) is str
    elif kind == "object":
        good = type(value) is dict and _members_conform(value, node)
    elif kind == "array":
        item = node.items
        good = type(value) is list and (item is None or all(conforms(element, item) for element in value))
    elif kind == "boolean":
        good = type(value) is bool
    elif kind == "integer":
        good = type(value) is int and _INT64_MIN <= value <= _INT64_MAX
    elif kind == "number":
        good = type(value) in (int, float)
    else:
        good = not node.int_or_string or type(value) in (int, str)
    return good and (node.limits is _NO_LIMITS or not _limit_causes(value, node.limits, ""))


def _members_conform(value: Json, node: Node) -> bool:
    properties, additional, keep = node.properties, node.additional, node.preserve
    for key, item in value.items():
        child = properties.get(key, additional)
        if child is None:
            if not keep:
                return False
        elif not conforms(item, child):
            return False
    return all(name in value for name in node.expected)


def prune(value: Any, node: Node, path: str, unknown: list[str]) -> Any:
    """`value` without what the schema does not know; the paths of that are appended to `unknown`.

    A null where null is not allowed counts as absent, as in kube-apiserver. Numbers become integers where
    they are whole, since Go writes them so. Changes `value` in place where it can.
    """
    if isinstance(value, dict):
        for key in list(value):
            child = node.properties.get(key, node.additional)
            where = f"{path}.{key}" if path else key
            if child is None:
                if not node.preserve:
                    del value[key]
                    unknown.append(where)
            elif value[key] is None and child.go_string:
                value[key] = ""
            elif value[key] is None and not child.nullable and child is not ANY:
                del value[key]
            else:
                value[key] = prune(value[key], child, where, unknown)
    elif isinstance(value, list) and (node.items is not None or not node.preserve):
        child = node.items or NOTHING
        value[:] = [prune(item, child, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    elif isinstance(value, float) and value.is_integer() and _INT64_MIN <= value <= _INT64_MAX:
        return int(value)
    return value


def fill(value: Any, node: Node) -> None:
    """Set every absent member that has a default, in place."""
    if isinstance(value, dict):
        for name, child in node.properties.items():
            if child.default is not None and name not in value:
                value[name] = msgspec.json.decode(child.default)
        for name, item in value.items():
            known = node.properties.get(name, node.additional)
            if known is not None:
                fill(item, known)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            fill(item, node.items)


def causes(value: Any, node: Node, path: str = "") -> list[Cause]:
    """Why `value` is invalid, depth first, members in order of their names."""
    if (value is None and node.nullable) or _passes_for_a_time(value, node):
        return []
    wanted = wanted_types(node)
    found = type_of(value)
    if wanted and found not in wanted and (found, *wanted) != ("integer", "number"):
        where = f"{path} in body must be of type {','.join(wanted)}"
        fault = wrong_type(path, f'"{found}"', f'{where}: "{found}"')
        return [fault, *_limit_causes(value, node.limits, path)]
    result = _limit_causes(value, node.limits, path)
    if isinstance(value, dict):
        result += [required(_join(path, name)) for name in node.required if name not in value]
        for key in sorted(value):
            child = node.properties.get(key, node.additional)
            if child is not None:
                result += causes(value[key], child, _join(path, key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            result += causes(item, node.items, f"{path}[{index}]")
    return result


def _passes_for_a_time(value: Any, node: Node) -> bool:
    """kube-apiserver takes any array where a string with a format is asked for, and stores it."""
    return isinstance(value, list) and node.type == "string" and node.limits.date_time


def unchecked_rules(found: Sequence[Cause], node: Node) -> list[Cause]:
    """The cause that kube-apiserver adds when faults kept it from evaluating CEL rules."""
    if node.rules and any(cause.reason in _BLOCKING for cause in found):
        return [Cause("<nil>", "FieldValueInvalid", UNCHECKED_RULES)]
    return []


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def wanted_types(node: Node) -> tuple[str, ...]:
    """The JSON types that a node takes; empty for all."""
    if node.int_or_string:
        return ("integer", "string")
    return (node.type,) if node.type else ()


def type_of(value: Any) -> str:
    """The JSON type of a value, in the words of OpenAPI."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if _INT64_MIN <= value <= _INT64_MAX else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _limit_causes(value: Any, limits: Limits, path: str) -> list[Cause]:
    if limits is _NO_LIMITS or value is None:
        return []
    found: list[Cause] = []
    if limits.enum and value not in limits.enum:
        found.append(unsupported(path, _shown(value), [str(item) for item in limits.enum]))
    if isinstance(value, str):
        found += _string_causes(value, limits, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += _number_causes(value, limits, path)
    elif isinstance(value, list | dict):
        found += _size_causes(value, limits, path)
    return found


def _string_causes(value: str, limits: Limits, path: str) -> list[Cause]:
    found: list[Cause] = []
    if limits.date_time and not is_date_time(value):
        found.append(wrong_type(path, f'"{value}"', f'{path} in body must be of type date-time: "{value}"'))
    if limits.max_length is not None and len(value) > limits.max_length:
        found.append(too_long(path, limits.max_length))
    elif limits.min_length is not None and len(value) < limits.min_length:
        why = f"{path} in body should be at least {limits.min_length} chars long"
        found.append(invalid_value(path, f'"{value}"', why))
    elif limits.pattern is not None and not limits.pattern.search(value):
        why = f"{path} in body should match '{limits.pattern.pattern}'"
        found.append(invalid_value(path, f'"{value}"', why))
    return found


def _number_causes(value: float, limits: Limits, path: str) -> list[Cause]:
    found: list[Cause] = []
    low, high = limits.minimum, limits.maximum
    if low is not None and (value < low or (limits.exclusive_minimum and value == low)):
        word = "greater than" if limits.exclusive_minimum else "greater than or equal to"
        found.append(invalid_value(path, str(value), f"{path} in body should be {word} {low}"))
    if high is not None and (value > high or (limits.exclusive_maximum and value == high)):
        word = "less than" if limits.exclusive_maximum else "less than or equal to"
        found.append(invalid_value(path, str(value), f"{path} in body should be {word} {high}"))
    return found


def _size_causes(value: list[Any] | Json, limits: Limits, path: str) -> list[Cause]:
    many = isinstance(value, list)
    word = "items" if many else "properties"
    low = limits.min_items if many else limits.min_properties
    high = limits.max_items if many else limits.max_properties
    size = len(value)
    found: list[Cause] = []
    if high is not None and size > high:
        why = f"Too many: {size}: must have at most {high} {word}"
        found.append(Cause(path, "FieldValueTooMany", why))
    if low is not None and size < low:
        found.append(invalid_value(path, str(size), f"{path} in body should have at least {low} {word}"))
    if isinstance(value, list) and (limits.unique or limits.keys):
        found += _duplicate_causes(value, limits.keys, path)
    return found


def _duplicate_causes(value: list[Any], keys: Sequence[str], path: str) -> list[Cause]:
    seen: set[bytes] = set()
    found: list[Cause] = []
    for index, item in enumerate(value):
        if keys and not isinstance(item, dict):
            why = "must be an object for an array of list-type map"
            return [*found, invalid_value(f"{path}[{index}]", _shown(item), why)]
        identity = {key: item.get(key) for key in keys} if keys else item
        text = msgspec.json.encode(identity, order="deterministic")
        if text in seen:
            found.append(Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {text.decode()}"))
        seen.add(text)
    return found


def is_date_time(value: str) -> bool:
    """RFC 3339 with a zone; `t` and `z` may be lower case."""
    day, separator, time = value.lower().partition("t")
    match = _TIME.fullmatch(time)
    if not separator or match is None or len(day) != 10:
        return False
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else msgspec.json.encode(value).decode()
