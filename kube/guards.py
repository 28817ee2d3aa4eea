"""JSON Patches whose first operations are `test`s, so that a write can only hit the state that was read.

Every builder is pure and takes the object as it was read. The uid names the very object (not one recreated
under its name), the resourceVersion the very state; what is tested beyond that is for the reader of a failed
patch, and for servers that apply a patch anew to a newer state after a conflict. Nothing here knows Eno:
which fields are tested or set are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from eno.errors import MalformedObject
from kube.cluster import Json, JsonPatch

Path: TypeAlias = tuple[str | int, ...]
"""Unescaped keys and indexes from the root of an object, e.g. `("metadata", "annotations", "a/b")`."""


def pointer(path: Path) -> str:
    """The RFC 6901 JSON pointer for `path`: `~` and `/` inside a key become `~0` and `~1`."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in path)


def test(path: Path, value: Any) -> Json:
    """The whole patch fails unless `path` exists and equals `value`."""
    return {"op": "test", "path": pointer(path), "value": value}


def add(path: Path, value: Any) -> Json:
    """Insert into an array, or set a key whether or not it exists. The parent must exist."""
    return {"op": "add", "path": pointer(path), "value": value}


def replace(path: Path, value: Any) -> Json:
    """Set what exists already; the patch fails when it does not."""
    return {"op": "replace", "path": pointer(path), "value": value}


def remove(path: Path) -> Json:
    """Take away what exists; the patch fails when it does not."""
    return {"op": "remove", "path": pointer(path)}


def guarded(obj: Json, then: JsonPatch) -> JsonPatch:
    """`then`, bound to the uid and resourceVersion of `obj`.

    Raises MalformedObject when `obj` has no uid or no resourceVersion: without them nothing would be guarded.
    """
    metadata = _mapping(obj.get("metadata"))
    tests = []
    for field in ("uid", "resourceVersion"):
        value = metadata.get(field)
        if not isinstance(value, str) or not value:
            raise MalformedObject(f"metadata.{field} is missing", where=str(obj.get("kind") or "object"))
        tests.append(test(("metadata", field), value))
    return [*tests, *then]


def set_annotation(obj: Json, key: str, value: str) -> JsonPatch:
    """Set one annotation and leave the others alone."""
    return guarded(obj, _put(obj, ("metadata", "annotations", key), value))


def remove_finalizer(obj: Json, finalizer: str) -> JsonPatch | None:
    """Take `finalizer` away and no other one; None when it is not there.

    The value at the index is tested as well, since an index into a list that somebody else edits is a guess.
    """
    finalizers = _mapping(obj.get("metadata")).get("finalizers")
    if not isinstance(finalizers, list) or finalizer not in finalizers:
        return None
    path: Path = ("metadata", "finalizers", finalizers.index(finalizer))
    return guarded(obj, [test(path, finalizer), remove(path)])


def append_resources(obj: Json, entries: Sequence[Json], *, path: Path = ("spec", "resources")) -> JsonPatch:
    """Append `entries` to the array at `path`, made when absent. Existing entries keep their index."""
    present = isinstance(_lookup(obj, path), list)
    appends = [add((*path, "-"), entry) for entry in entries] if present else _put(obj, path, list(entries))
    return guarded(obj, appends)


def status_patch(
    obj: Json,
    *,
    put: Mapping[Path, Any],
    clear: Iterable[Path] = (),
    expect: Mapping[Path, Any] | None = None,
) -> JsonPatch | None:
    """Set and clear fields together, while `expect` still holds; None when `obj` is that way already.

    Missing parents are made, but never an array or an entry of one.
    """
    changes: list[Json] = []
    made: set[Path] = set()
    for path, value in put.items():
        if not _has(obj, path) or _lookup(obj, path) != value:
            changes.extend(_put(obj, path, value, made))
    changes.extend(remove(path) for path in clear if _has(obj, path))
    expected = [test(path, value) for path, value in (expect or {}).items()]
    return guarded(obj, [*expected, *changes]) if changes else None


def _put(obj: Json, path: Path, value: Any, made: set[Path] | None = None) -> list[Json]:
    """One `add` per missing (absent or null) parent, outermost first, then the value itself.

    `made` remembers the parents that an earlier operation of the same patch makes: a second `add` of one
    would empty it again.
    """
    made = set() if made is None else made
    operations: list[Json] = []
    for parent in (path[:length] for length in range(1, len(path))):
        if isinstance(parent[-1], str) and parent not in made and _lookup(obj, parent) is None:
            made.add(parent)
            operations.append(add(parent, {}))
    return [*operations, add(path, value)]


def _has(obj: Json, path: Path) -> bool:
    parent, key = _lookup(obj, path[:-1]), path[-1]
    if isinstance(parent, list):
        return isinstance(key, int) and 0 <= key < len(parent)
    return isinstance(parent, dict) and key in parent


def _lookup(obj: Any, path: Path) -> Any:
    for token in path:
        if isinstance(obj, dict):
            obj = obj.get(token)
        elif isinstance(obj, list) and isinstance(token, int) and 0 <= token < len(obj):
            obj = obj[token]
        else:
            return None
    return obj


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
