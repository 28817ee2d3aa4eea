"""Kubernetes label selectors, evaluated here for the live object of a task.

The watcher pushes its selector to the server; a worker that was handed a name must check it again on what it
reads (P8). Grammar: apimachinery `labels.Parse` (`a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x)`, `a`, `!a`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from eno.errors import UsageError

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"({_PREFIX}/)?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_SET = re.compile(r"(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^!=\s]+)\s*(?P<op>==|!=|=)\s*(?P<value>[^!=\s]*)")
_EXISTENCE = re.compile(r"(?P<op>!?)\s*(?P<key>[^!=\s]+)")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


class Operator(StrEnum):
    """How a requirement compares."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    MISSING = "!"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comma-separated part of a selector. `values` is empty for existence."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it. A missing key meets `notin` and `!=`, as in Kubernetes."""
        match self.operator:
            case Operator.EXISTS:
                return self.key in labels
            case Operator.MISSING:
                return self.key not in labels
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must match; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @staticmethod
    @lru_cache(maxsize=64)
    def parse(text: str) -> LabelSelector:
        """Raises UsageError on anything that the API server would refuse."""
        if not text.strip():
            return LabelSelector()
        return LabelSelector(tuple(_requirement(part.strip(), text) for part in _COMMA_OUTSIDE_PARENTHESES.split(text)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def _requirement(part: str, text: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _checked(Requirement(found["key"], Operator(found["op"]), values), text)
    if found := _EQUALITY.fullmatch(part):
        operator = Operator.NOT_IN if found["op"] == "!=" else Operator.IN
        return _checked(Requirement(found["key"], operator, frozenset([found["value"]])), text)
    if found := _EXISTENCE.fullmatch(part):
        return _checked(Requirement(found["key"], Operator.MISSING if found["op"] else Operator.EXISTS), text)
    raise _refused(part, text)


def _checked(requirement: Requirement, text: str) -> Requirement:
    if not _KEY.fullmatch(requirement.key):
        raise _refused(requirement.key, text)
    for value in requirement.values:
        if not _VALUE.fullmatch(value):
            raise _refused(value, text)
    return requirement


def _refused(part: str, text: str) -> UsageError:
    return UsageError(
        f"{part!r} cannot be parsed",
        where=f"label selector {text!r}",
        hint="write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas",
    )
