"""JSON Patch (RFC 6902) and merge patch (RFC 7386) as kube-apiserver applies them.

kube-apiserver uses evanphx/json-patch v4, which departs from both RFCs and from every Python library: values
are compared as compact JSON *text*, a missing member tests equal to null, `replace` adds a missing member,
negative indexes count from the end. These departures are what a client meets, so they are rebuilt here.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

import msgspec

from devcluster.statuses import bad_request, rejected_patch, too_large
from kube.cluster import Json

MAX_OPERATIONS = 10_000
"""Operations in one JSON Patch; kube-apiserver's limit."""

_Container: TypeAlias = dict[str, Any] | list[Any]

_INDEX = re.compile(r"[+-]?[0-9]+")
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_NULL = b"null"


class Operation(msgspec.Struct, frozen=True):
    """One operation. `value` stays the text the client sent: it is compared as text."""

    op: str | None = None
    path: str | None = None
    source: str | None = msgspec.field(name="from", default=None)
    value: msgspec.Raw = msgspec.Raw(_NULL)


class _DoesNotApply(Exception):
    """Raised when an operation meets a document it does not fit."""


_operations = msgspec.json.Decoder(list[Operation] | None)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


def decode_json_patch(body: bytes) -> list[Operation]:
    """The operations of a request body. Raises Refusal (400, 413) when it is none."""
    try:
        operations = _operations.decode(body) or []
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    return operations


def decode_merge_patch(body: bytes) -> Json:
    """The patch of a request body. Raises Refusal (400) when it is not a JSON object."""
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    return patch


def apply_json_patch(document: Json, operations: list[Operation]) -> Any:
    """The patched document; `document` itself is used up.

    Raises Refusal (422) when an operation does not apply, whichever and for whatever reason.
    """
    current: Any = document
    try:
        for operation in operations:
            current = _apply(current, operation)
    except _DoesNotApply as error:
        raise rejected_patch() from error
    return current


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """The patched document; `document` and `patch` are used up."""
    for key, value in patch.items():
        present = document.get(key)
        if value is None:
            document.pop(key, None)
        elif not isinstance(present, dict):
            document[key] = _without_nulls(value)
        elif isinstance(value, dict):
            apply_merge_patch(present, value)
        else:
            document[key] = value
    return document


def apply_strategic_patch(document: Json, patch: Json) -> Json:
    """A strategic merge patch without directives, which for maps of strings is a merge patch.

    Raises Refusal (400) for `$patch` and its like: they need the merge keys of every built-in type.
    """
    _refuse_directives(patch)
    return apply_merge_patch(document, patch)


def _refuse_directives(patch: Any) -> None:
    if isinstance(patch, dict):
        for key, value in patch.items():
            if key.startswith("$"):
                raise bad_request(f"the strategic merge directive {key!r} is not supported here")
            _refuse_directives(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _apply(document: Any, operation: Operation) -> Any:
    if operation.path is None:
        raise _DoesNotApply("no path")
    match operation.op:
        case "test":
            _test(document, operation.path, bytes(operation.value))
        case "add":
            _add(document, operation.path, _value(operation))
        case "remove":
            container, key = _find(document, operation.path)
            _remove(container, key)
        case "replace":
            return _replace(document, operation.path, _value(operation))
        case "move":
            container, key = _find(document, operation.source)
            value = _get(container, key)
            _remove(container, key)
            _add(document, operation.path, value)
        case "copy":
            value = _get(*_find(document, operation.source))
            _add(document, operation.path, msgspec.json.decode(msgspec.json.encode(value)))
        case _:
            raise _DoesNotApply(f"unexpected operation {operation.op}")
    return document


def _value(operation: Operation) -> Any:
    return msgspec.json.decode(operation.value)


def _find(document: Any, path: str | None) -> tuple[_Container, str]:
    """The container that holds the last segment of `path`, and that segment."""
    if path is None or "/" not in path:
        raise _DoesNotApply(f"no such path {path}")
    *parents, key = [_unescaped(part) for part in path.split("/")[1:]]
    current = document
    for parent in parents:
        if not isinstance(current, dict | list):
            raise _DoesNotApply(f"no such path {path}")
        current = _get(current, parent)
    if not isinstance(current, dict | list):
        raise _DoesNotApply(f"no such path {path}")
    return current, key


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _get(container: _Container, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _index(key: str, length: int) -> int:
    """An index of an existing element; a negative one counts from the end."""
    if not _INDEX.fullmatch(key):
        raise _DoesNotApply(f"not an index: {key}")
    index = int(key)
    if not -length <= index < length:
        raise _DoesNotApply(f"index out of range: {key}")
    return index


def _add(document: Any, path: str, value: Any) -> None:
    container, key = _find(document, path)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        index = _index(key, len(container) + 1)
        container.insert(index if index >= 0 else index + len(container) + 1, value)


def _remove(container: _Container, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _DoesNotApply(f"no such member {key}")


def _replace(document: Any, path: str, value: Any) -> Any:
    if path == "":
        if not isinstance(value, dict | list):
            raise _DoesNotApply("a document is an object or an array")
        return value
    container, key = _find(document, path)
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container))] = value
    return document


def _test(document: Any, path: str, expected: bytes) -> None:
    found = document if path == "" else _get(*_find(document, path))
    if not _equal(found, expected):
        raise _DoesNotApply(f"testing {path} failed")


def _equal(value: Any, text: bytes) -> bool:
    """Whether the stored value, written by the server, has the text that the client sent."""
    text = text.strip()
    if isinstance(value, dict):
        if not text.startswith(b"{"):
            return False
        members = _members.decode(text)
        return value.keys() == members.keys() and all(_equal(item, bytes(members[key])) for key, item in value.items())
    if isinstance(value, list):
        if not text.startswith(b"["):
            return False
        elements = _elements.decode(text)
        return len(value) == len(elements) and all(
            _equal(item, bytes(element)) for item, element in zip(value, elements, strict=True)
        )
    return _server_text(value) == text


def _server_text(value: Any) -> bytes:
    """A scalar as kube-apiserver writes it: `<`, `>` and `&` escaped, so a client's `"a<b"` is not equal."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).translate(_HTML).encode()
    return msgspec.json.encode(value)
