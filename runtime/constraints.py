"""What a value has to be, in words: from the constraints of its model, so that they and the words cannot differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A namespace, and whatever has to fit into names like one (RFC 1123)."""

_NAME = "up to 63 lower-case letters, digits, and dashes within"
_SHOWN = 40
_BOUNDS = ("ge", "gt", "le")


def wanted(field: FieldInfo) -> str:
    """What the field takes, to go on after `write`; empty where that is any text."""
    kind, metadata = _unwrapped(field)
    bounds = {name: bound for each in metadata for name in _BOUNDS if (bound := getattr(each, name, None)) is not None}
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of(each.value for each in kind)
    if any(getattr(each, "pattern", None) == NAME_PATTERN for each in metadata):
        return _NAME
    if kind is timedelta:
        return f"seconds, or a duration such as 7d or PT12H, up to {bounds['le'].days}d"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return number(whole=kind is int, **bounds)
    return ""


def number(*, whole: bool, ge: float | None = None, gt: float | None = None, le: float | None = None) -> str:
    """`a whole number from 1 to 1000`, `a number above 0, up to 600`, `a number from 0`."""
    noun = "a whole number" if whole else "a number"
    if gt is not None:
        return f"{noun} above {gt:g}" + ("" if le is None else f", up to {le:.0f}")
    lower = "" if ge is None else f" from {ge:g}"
    return f"{noun}{lower}" + ("" if le is None else f" to {le:.0f}" if lower else f" up to {le:.0f}")


def complaint(name: str, value: object, remedy: str, *, secret: bool = False) -> str:
    """`SEXTON_BURST='abc': write a whole number from 1 to 100000`. A secret is not shown, nor is what may hold one."""
    shown = str(value)
    if secret or "://" in shown:
        return f"{name}: write {remedy}"
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return f"{name}={shown!r}: write {remedy}"


def _one_of(values: Iterable[object]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def _unwrapped(field: FieldInfo) -> tuple[Any, list[Any]]:
    """The type of what is given where anything is, and everything that is said of it."""
    kind: Any = field.annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is not Annotated:
        return kind, field.metadata
    kind, *more = get_args(kind)
    return kind, [*field.metadata, *_metadata(more)]


def _metadata(annotations: Iterable[Any]) -> Iterator[Any]:
    for each in annotations:
        yield from each.metadata if isinstance(each, FieldInfo) else [each]
