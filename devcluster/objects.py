"""Objects at rest: immutable bytes, so that reading isolates by itself and copying a store is cheap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from devcluster.kinds import Kind
from kube.cluster import Json

METADATA_GROUP = "meta.k8s.io/v1"

_PARTIAL_PREFIX = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object.

    `rest` is the object as JSON without apiVersion and kind, its opening brace cut off; `metadata` is its
    metadata alone. `labels` and `fields` are what selectors look at.
    """

    version: int
    namespace: str
    name: str
    uid: str
    metadata: bytes
    rest: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]

    def encoded(self, kind: Kind) -> bytes:
        """The whole object as JSON."""
        return kind.prefix + self.rest

    def listed(self, kind: Kind) -> bytes:
        """The object as an item of a list, where built-in kinds leave out apiVersion and kind."""
        return kind.prefix + self.rest if kind.custom else b"{" + self.rest

    def partial(self) -> bytes:
        """The object as PartialObjectMetadata."""
        return _PARTIAL_PREFIX + b'"metadata":' + self.metadata + b"}"

    def decoded(self, kind: Kind) -> Json:
        """A fresh object that belongs to the caller."""
        body: Json = decode(self.encoded(kind))
        return body

    def at(self, version: int) -> Stored:
        """The same object under another resourceVersion: the last state, as a DELETED event shows it."""
        meta = decode(self.metadata)
        meta["resourceVersion"] = str(version)
        body = decode(b"{" + self.rest)
        return _pack(body, meta, version, self.labels, self.fields)


def decode(text: bytes) -> Any:
    """JSON text as Python values."""
    return _decode(text)


def stored(kind: Kind, body: Json, version: int) -> Stored:
    """`body` as it is written at `version`; `body` gets that resourceVersion too."""
    meta = body["metadata"]
    meta["resourceVersion"] = str(version)
    return _pack(body, meta, version, meta.get("labels") or {}, kind.rules.fields(body))


def _pack(body: Json, meta: Json, version: int, labels: Mapping[str, str], fields: Mapping[str, str]) -> Stored:
    encoded_metadata = _encode(meta)
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    rest["metadata"] = msgspec.Raw(encoded_metadata)
    return Stored(
        version=version,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        metadata=encoded_metadata,
        rest=_encode(rest)[1:],
        labels=dict(labels),
        fields=fields,
    )


class Table:
    """The objects of one resource by `namespace/name`, or by name where there are no namespaces."""

    __slots__ = ("_keys", "_objects")

    def __init__(self, objects: Mapping[str, Stored] | None = None, keys: Sequence[str] = ()) -> None:
        self._objects = dict(objects or {})
        self._keys = list(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> Stored | None:
        return self._objects.get(key)

    def put(self, key: str, value: Stored) -> None:
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = value

    def remove(self, key: str) -> None:
        if key in self._objects:
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]

    def select(self, prefix: str, after: str = "", limit: int | None = None) -> list[tuple[str, Stored]]:
        """The objects whose key starts with `prefix` and is greater than `after`, in key order; the first `limit`."""
        start, end = self._range(prefix, after)
        end = end if limit is None else min(end, start + limit)
        return [(key, self._objects[key]) for key in self._keys[start:end]]

    def count(self, prefix: str, after: str = "") -> int:
        """How many `select` finds without a limit."""
        start, end = self._range(prefix, after)
        return max(0, end - start)

    def _range(self, prefix: str, after: str) -> tuple[int, int]:
        start = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        return start, bisect_left(self._keys, prefix + "\U0010ffff") if prefix else len(self._keys)

    def copy(self) -> Table:
        return Table(self._objects, self._keys)


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what an object of a resource was before it and is after it (None: not there)."""

    version: int
    resource: tuple[str, str]
    key: str
    before: Stored | None
    after: Stored | None


class History:
    """The latest changes, in order; versions have no gaps. Older ones are compacted away."""

    __slots__ = ("_changes", "_first", "limit")

    def __init__(self, limit: int, first: int = 1, changes: Sequence[Change] = ()) -> None:
        self.limit = limit
        self._first = first
        self._changes = list(changes)

    @property
    def floor(self) -> int:
        """The oldest version that can be continued from."""
        return self._first - 1 + max(0, len(self._changes) - self.limit)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) >= 2 * self.limit + 16:
            self._drop(len(self._changes) - self.limit)

    def since(self, version: int) -> Sequence[Change]:
        """Every change after `version`, which must not be below the floor."""
        return self._changes[max(0, version + 1 - self._first) :]

    def compact(self) -> None:
        """Forget everything: versions before now can no longer be continued from."""
        self._drop(len(self._changes))

    def copy(self) -> History:
        return History(self.limit, self._first, self._changes)

    def _drop(self, count: int) -> None:
        del self._changes[:count]
        self._first += count
