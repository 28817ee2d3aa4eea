"""Label and field selectors: parsed and matched as kube-apiserver does, with its words for what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from devcluster.kinds import Kind
from devcluster.metadata import label_value_faults, qualified_name_faults
from devcluster.objects import Stored
from devcluster.statuses import Refusal, bad_request

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_OPERATORS = {"in", "notin", "=", "==", "!=", ">", "<"}
_EXPECTED_OPERATOR = "in, notin, =, ==, !=, gt, lt"
_FIELD_TERM = re.compile(r"(?P<label>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label: `operator` is `in`, `notin`, `exists`, `absent`, `>` or `<`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        (bound,) = self.values
        if value is None or not _is_integer(value):
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class Selector:
    """Which objects of a kind are meant. `fields` are (field, equal, value)."""

    requirements: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()

    @property
    def selects_all(self) -> bool:
        return not self.requirements and not self.fields

    def matches(self, stored: Stored) -> bool:
        return all(requirement.matches(stored.labels) for requirement in self.requirements) and all(
            (_field(stored, name) == value) is equal for name, equal, value in self.fields
        )


EVERYTHING = Selector()


def parse_selector(kind: Kind, labels: str, fields: str) -> Selector:
    """The selector of a request. Raises Refusal (400)."""
    if not labels and not fields:
        return EVERYTHING
    return Selector(parse_labels(labels), parse_fields(kind, fields))


@lru_cache(maxsize=256)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector. Raises Refusal (400)."""
    return tuple(_Parser(text).requirements())


def parse_fields(kind: Kind, text: str) -> tuple[tuple[str, bool, str], ...]:
    """The terms of a field selector. Raises Refusal (400) for fields that the kind does not offer."""
    found: list[tuple[str, bool, str]] = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        match = _FIELD_TERM.fullmatch(term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        label = match["label"]
        offered = label == "metadata.name" or (label == "metadata.namespace" and kind.resource.namespaced)
        if not offered and label not in kind.field_labels:
            raise bad_request(_unknown_field(kind, label))
        value = re.sub(r"\\(.)", r"\1", match["value"])
        found.append((label, match["operator"] != "!=", value))
    return tuple(found)


def _unknown_field(kind: Kind, label: str) -> str:
    if kind.custom or kind.field_labels:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field(stored: Stored, name: str) -> str:
    if name == "metadata.name":
        return stored.name
    return stored.namespace if name == "metadata.namespace" else stored.fields.get(name, "")


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+", text) is not None


class _Parser:
    """Recursive descent over the tokens of one label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            if self._peek() != "!" and not self._is_identifier(self._peek()):
                raise bad_request(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            separator = self._take()
            if separator == ",":
                if self._peek() != "!" and not self._is_identifier(self._peek()):
                    raise bad_request(f"found '{self._peek()}', expected: identifier after ','")
            elif separator:
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        return found

    def _requirement(self) -> Requirement:
        first = self._take()
        absent = first == "!"
        key = self._take() if absent else first
        if not self._is_identifier(key):
            raise _unparsable(f"found '{key}', expected: identifier")
        self._check(f'<nil>: Invalid value: "{key}"', qualified_name_faults, key)
        if absent:
            return Requirement(key, "absent")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._take()
        if operator not in _OPERATORS:
            raise _unparsable(f"found '{operator}', expected: {_EXPECTED_OPERATOR}")
        values = self._list() if operator in ("in", "notin") else [self._exact()]
        for index, value in enumerate(values):
            self._check(f'values[{index}][{key}]: Invalid value: "{value}"', label_value_faults, value)
        if operator in ("<", ">") and not _is_integer(values[0]):
            raise _unparsable("for 'Gt', 'Lt' operators, the value must be an integer")
        names = {"=": "in", "==": "in", "!=": "notin"}
        return Requirement(key, names.get(operator, operator), frozenset(values))

    def _exact(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._take()
        if not self._is_identifier(value):
            raise _unparsable(f"found '{value}', expected: identifier")
        return value

    def _list(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise _unparsable(f"found '{opening}' expected: '('")
        values = [""]
        while (part := self._take()) != ")":
            if part == ",":
                values.append("")
            elif self._is_identifier(part) and not values[-1]:
                values[-1] = part
            else:
                raise _unparsable(f"found '{part}', expected: ',' or ')'")
        return values

    @staticmethod
    def _check(what: str, faults_of: Callable[[str], Iterator[str]], text: str) -> None:
        for fault in faults_of(text):
            raise _unparsable(f"{what}: {fault}")

    @staticmethod
    def _is_identifier(text: str) -> bool:
        return bool(text) and text[0] not in "=!(),<>"

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _unparsable(why: str) -> Refusal:
    return bad_request(f"unable to parse requirement: {why}")
