"""Lists: consistent pages at one version, rebuilt from the history when objects changed in between."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import msgspec

from devcluster.kinds import Kind
from devcluster.objects import Stored
from devcluster.selectors import parse_selector
from devcluster.statuses import (
    Cause,
    bad_request,
    expired,
    forbidden_field,
    invalid,
    too_large_version,
    unsupported,
)
from devcluster.store import Store

_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUED_TOO_LATE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
_NOW = -1


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list; namespace None: all of them, limit 0: everything in one page."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    version: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """One page. `remaining` is None where the real server does not know it: with selectors."""

    kind: Kind
    items: list[Stored]
    version: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    """A continue token: the version of the first page, and the key that was reached."""

    v: str
    rv: int
    start: str


_token = msgspec.json.Decoder(_Token)


def list_objects(store: Store, kind: Kind, options: ListOptions) -> ObjectList:
    """One page of a kind's objects in key order. Raises Refusal (400, 410, 422, 504)."""
    _check(options)
    selector = parse_selector(kind, options.labels, options.fields)
    prefix = f"{options.namespace}/" if options.namespace else ""
    version, after = store.version, ""
    if options.continue_token:
        token = _decode_token(options.continue_token)
        after = prefix + token.start
        version = store.version if token.rv == _NOW else token.rv
        check_version(store, version)
        if version < store.history.floor:
            raise expired(_CONTINUED_TOO_LATE, continue_token=_encode_token(_NOW, token.start))
    elif options.version:
        check_version(store, int(options.version))
        if options.match == "Exact":
            version = int(options.version)
        if version < store.history.floor:
            raise expired(_TOO_OLD)
    # A list from the watch cache (version 0) is not cut into pages.
    limit = 0 if options.version == "0" else options.limit
    if limit > 0 and selector.selects_all and not _changed(store, kind, version):
        return _page(store, kind, prefix, after, limit, version)
    found = _at_version(store, kind, prefix, after, version)
    selected = [(key, item) for key, item in found if selector.matches(item)]
    if limit <= 0 or len(selected) <= limit:
        return ObjectList(kind, [item for _, item in selected], version)
    last = selected[limit - 1][0]
    return ObjectList(
        kind,
        [item for _, item in selected[:limit]],
        version,
        _encode_token(version, last[len(prefix) :]),
        len(selected) - limit if selector.selects_all else None,
    )


def _changed(store: Store, kind: Kind, version: int) -> bool:
    return version < store.version and any(each.resource == kind.key for each in store.changes_since(version))


def _page(store: Store, kind: Kind, prefix: str, after: str, limit: int, version: int) -> ObjectList:
    """A page of what there is now, without looking at the rest of it: large lists would take quadratic time."""
    table = store.table(kind)
    found = table.select(prefix, after, limit)
    left = table.count(prefix, after) - len(found)
    token = _encode_token(version, found[-1][0][len(prefix) :]) if left else ""
    return ObjectList(kind, [item for _, item in found], version, token, left or None)


def _at_version(store: Store, kind: Kind, prefix: str, after: str, version: int) -> list[tuple[str, Stored]]:
    """The objects as they were at `version`: those of now, with every later change undone."""
    found = store.table(kind).select(prefix, after)
    if version >= store.version:
        return found
    objects = dict(found)
    for change in reversed(store.changes_since(version)):
        if change.resource != kind.key or not change.key.startswith(prefix) or change.key <= after:
            continue
        if change.before is None:
            objects.pop(change.key, None)
        else:
            objects[change.key] = change.before
    return sorted(objects.items())


def check_version(store: Store, version: int) -> None:
    """A resourceVersion must be one that this store has reached. Raises Refusal (504)."""
    if version > store.version:
        raise too_large_version(version, store.version)


def _check(options: ListOptions) -> None:
    causes: list[Cause] = []
    field = "resourceVersionMatch"
    if options.match:
        if not options.version:
            causes.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            causes.append(unsupported(field, f'"{options.match}"', ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.version == "0":
            causes.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    if options.version and not options.version.isdecimal():
        parse = f'strconv.ParseUint: parsing "{options.version}": invalid syntax'
        shown = f'resourceVersion: Invalid value: "{options.version}": {parse}'
        raise bad_request(f"invalid resource version: {shown}")
    if options.continue_token and options.version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def _encode_token(version: int, start: str) -> str:
    text = msgspec.json.encode(_Token("meta.k8s.io/v1", version, f"/{start}\0"))
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decode_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        token = _token.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != "meta.k8s.io/v1" or token.rv == 0 or not token.start.startswith("/"):
        raise bad_request("invalid continue token: continue key is not valid: not one of this server's")
    return _Token(token.v, token.rv, token.start[1:].rstrip("\0"))
