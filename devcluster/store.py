"""The store: every object, every version, and the rules of writing them.

Deterministic and synchronous: the clock and the seed are given, there is no thread and no I/O. Whoever shares
a store between threads locks around it. Every refusal is a `devcluster.statuses.Refusal`, and a refused write
changes nothing. The order of checks is kube-apiserver's, since a request can be wrong in two ways at once.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from devcluster import definitions, writing
from devcluster.builtin import BUILTIN
from devcluster.kinds import Decoded, FieldValidation, Kind, decode_body, decode_patched
from devcluster.objects import Change, History, Stored, Table, stored
from devcluster.statuses import already_exists, forbidden, internal, namespace_terminating, not_found
from eno.times import format_time
from kube.cluster import Json
from kube.resources import NAMESPACES

HISTORY = 10_000
"""Changes that a watch or a continue token can reach back."""

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

_PERMANENT_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query of a write. A dry run does everything but the writing."""

    validation: FieldValidation = "Warn"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions and propagation of a delete; None: not given."""

    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a write left behind. `removed`: the object is gone and this was its last state."""

    kind: Kind
    stored: Stored
    created: bool = False
    removed: bool = False
    warnings: tuple[str, ...] = ()


_PLAIN_WRITE = WriteOptions()
_PLAIN_DELETE = DeleteOptions()


def _now() -> datetime:
    return datetime.now(UTC)


class Store:
    """All objects of one API server.

    `clock` gives aware instants, `seed` decides uids and name suffixes, `history` how many changes a watch can
    reach back. Two stores with the same seed and clock that are sent the same requests are equal to the byte.
    """

    def __init__(self, *, clock: Callable[[], datetime] = _now, seed: str | int = 0, history: int = HISTORY) -> None:
        self.clock = clock
        self.seed = seed
        self.history = History(history)
        self.version = 0
        self._drawn = 0
        self._kinds: dict[tuple[str, str], Kind] = {kind.key: kind for kind in (*BUILTIN, definitions.KIND)}
        self._tables: dict[tuple[str, str], Table] = {key: Table() for key in self._kinds}
        namespaces = self._kinds[NAMESPACES.group, NAMESPACES.plural]
        for name in SYSTEM_NAMESPACES:
            self.create(namespaces, None, {"metadata": {"name": name}})

    def copy(self, *, clock: Callable[[], datetime] | None = None) -> Store:
        """An independent store with the same objects, history and future uids; costs no object copies."""
        twin = object.__new__(Store)
        twin.clock = clock or self.clock
        twin.seed = self.seed
        twin.history = self.history.copy()
        twin.version = self.version
        twin._drawn = self._drawn
        twin._kinds = dict(self._kinds)
        twin._tables = {key: table.copy() for key, table in self._tables.items()}
        return twin

    def kinds(self) -> Iterable[Kind]:
        """Every served kind."""
        return self._kinds.values()

    def kind(self, group: str, plural: str, version: str | None = None) -> Kind | None:
        """The served kind, or None."""
        kind = self._kinds.get((group, plural))
        return None if kind is None or (version and kind.resource.version != version) else kind

    def table(self, kind: Kind) -> Table:
        """The objects of a kind as they are now."""
        return self._tables.get(kind.key) or Table()

    def changes_since(self, version: int) -> Sequence[Change]:
        """Every change after `version`, of all kinds, oldest first; those still known."""
        return self.history.since(version)

    def find(self, kind: Kind, namespace: str | None, name: str) -> Stored:
        """The object as it is now. Raises Refusal (404)."""
        found = self.table(kind).get(_key(namespace, name))
        if found is None:
            raise not_found(kind.resource, name)
        return found

    def create(self, kind: Kind, namespace: str | None, body: Any, options: WriteOptions = _PLAIN_WRITE) -> Result:
        """Create an object. `body` is used up. Raises Refusal (400, 403, 404, 409, 422)."""
        return self._insert(kind, namespace, decode_body(kind, body, options.validation), options)

    def update(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Any,
        subresource: str = "",
        options: WriteOptions = _PLAIN_WRITE,
    ) -> Result:
        """Replace an object or its subresource. `body` is used up. Raises Refusal (400, 404, 409, 422)."""
        decoded = decode_body(kind, body, options.validation)
        writing.match_name(decoded.body["metadata"], name)
        writing.match_namespace(kind, decoded.body["metadata"], namespace)
        existing = self.table(kind).get(_key(namespace, name))
        if existing is None and kind.create_on_update and not subresource:
            return self._insert(kind, namespace, decoded, options)
        existing = self.find(kind, namespace, name)
        writing.match_uid(kind, decoded.body["metadata"], existing)
        return self._replace(kind, existing, decoded, subresource, options)

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        apply: Callable[[Json], Any],
        subresource: str = "",
        options: WriteOptions = _PLAIN_WRITE,
    ) -> Result:
        """Write what `apply` makes of the current object. Raises Refusal (400, 404, 409, 413, 422)."""
        existing = self.find(kind, namespace, name)
        decoded = decode_patched(kind, apply(existing.decoded(kind)), options.validation)
        writing.match_name(decoded.body["metadata"], name)
        writing.match_namespace(kind, decoded.body["metadata"], namespace)
        return self._replace(kind, existing, decoded, subresource, options)

    def delete(self, kind: Kind, namespace: str | None, name: str, options: DeleteOptions = _PLAIN_DELETE) -> Result:
        """Delete an object, or mark it as being deleted while it has finalizers. Raises Refusal (404, 409)."""
        if kind.resource == NAMESPACES and name in _PERMANENT_NAMESPACES:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
        existing = self.find(kind, namespace, name)
        writing.match_preconditions(kind, existing, options.uid, options.resource_version)
        old = existing.decoded(kind)
        body = writing.marked_deleted(kind, old, options.propagation, format_time(self.clock()))
        if not writing.held(kind, body):
            self._commit(kind, existing, None, options.dry_run)
            return Result(kind, existing, removed=True)
        if body == old:
            return Result(kind, existing)
        return Result(kind, self._commit(kind, existing, body, options.dry_run))

    def _insert(self, kind: Kind, namespace: str | None, decoded: Decoded, options: WriteOptions) -> Result:
        body = decoded.body
        meta = body["metadata"]
        writing.match_namespace(kind, meta, namespace)
        if meta.get("generateName") and not meta.get("name"):
            meta["name"] = self._generated_name(kind, namespace, meta["generateName"])
        name = meta.get("name", "")
        self._admit(kind, namespace, name)
        version = meta.get("resourceVersion", "")
        body["metadata"] = writing.created_metadata(meta, namespace)
        body["metadata"]["creationTimestamp"] = format_time(self.clock())
        writing.prepare_create(kind, body)
        found = writing.created_causes(kind, decoded)
        if found:
            raise kind.invalid(name, found, decoded.warnings)
        if version not in ("", "0"):
            raise internal("resourceVersion should not be set on objects to be created")
        taken = self.table(kind).get(_key(namespace, name))
        if taken is not None:
            deleting = "deletionTimestamp" in taken.decoded(kind)["metadata"]
            raise already_exists(kind.resource, name, deleting=deleting)
        body["metadata"]["uid"] = self._uid()
        fresh = self._commit(kind, None, body, options.dry_run)
        return Result(kind, fresh, created=True, warnings=decoded.warnings)

    def _replace(
        self, kind: Kind, existing: Stored, decoded: Decoded, subresource: str, options: WriteOptions
    ) -> Result:
        writing.match_version(kind, decoded.body["metadata"], existing)
        old = existing.decoded(kind)
        body = writing.prepared_update(kind, decoded.body, old, subresource)
        found = writing.updated_causes(kind, body, old, conforms=decoded.conforms)
        if found:
            raise kind.invalid(existing.name, found, decoded.warnings)
        if "deletionTimestamp" in old["metadata"] and not writing.held(kind, body):
            last = stored(kind, body, existing.version)
            self._commit(kind, existing, None, options.dry_run)
            return Result(kind, last, removed=True, warnings=decoded.warnings)
        if body == old and stored(kind, body, existing.version).rest == existing.rest:
            return Result(kind, existing, warnings=decoded.warnings)
        fresh = self._commit(kind, existing, body, options.dry_run)
        return Result(kind, fresh, warnings=decoded.warnings)

    def _commit(self, kind: Kind, before: Stored | None, body: Json | None, dry_run: bool) -> Stored:
        """Write one version: `body`, or with None the removal of `before`."""
        version = self.version + 1
        after = stored(kind, body, version) if body is not None else None
        last = after or before
        if last is None:
            raise ValueError("a change has a before or an after")
        writing.check_size(kind, last)
        if dry_run:
            return last
        key = _key(last.namespace, last.name)
        table = self._tables[kind.key]
        if after is None:
            table.remove(key)
        else:
            table.put(key, after)
        self.version = version
        self.history.append(Change(version, kind.key, key, before, after))
        if kind.key == definitions.KIND.key:
            self._serve(before, after)
        return last

    def _serve(self, before: Stored | None, after: Stored | None) -> None:
        """Follow a CustomResourceDefinition: its kind appears, changes, or goes with all its objects."""
        if after is not None:
            kind = definitions.kind_of(after.decoded(definitions.KIND))
            self._kinds[kind.key] = kind
            self._tables.setdefault(kind.key, Table())
        elif before is not None:
            kind = definitions.kind_of(before.decoded(definitions.KIND))
            for _, item in self.table(kind).select(""):
                self._commit(kind, item, None, dry_run=False)
            self._kinds.pop(kind.key, None)
            self._tables.pop(kind.key, None)

    def _admit(self, kind: Kind, namespace: str | None, name: str) -> None:
        """Nothing is created in a namespace that is not there or on its way out."""
        if not kind.resource.namespaced or namespace is None:
            return
        home = self._tables[NAMESPACES.group, NAMESPACES.plural].get(namespace)
        if home is None:
            raise not_found(NAMESPACES, namespace)
        if home.fields["status.phase"] == "Terminating":
            raise namespace_terminating(kind.resource, namespace, name)

    def _generated_name(self, kind: Kind, namespace: str | None, base: str) -> str:
        while True:
            digest = self._draw()
            letters = (_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in digest[:_SUFFIX_LENGTH])
            name = base[: writing.GENERATED_BASE_LIMIT] + "".join(letters)
            if self.table(kind).get(_key(namespace, name)) is None:
                return name

    def _uid(self) -> str:
        return str(uuid.UUID(bytes=self._draw()[:16], version=4))

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(f"{self.seed}/{self._drawn}".encode()).digest()


def _key(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
