"""From an HTTP request to what it asks for: a value, without any I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import yaml

from devcluster.kinds import FieldValidation
from devcluster.statuses import (
    bad_request,
    invalid,
    not_acceptable,
    unsupported,
    unsupported_media_type,
)
from devcluster.store import DeleteOptions, WriteOptions
from kube.cluster import Json
from kube.resources import Resource

Form: TypeAlias = Literal["object", "partial", "partial list", "table"]
"""How an answer is to be shown: as it is, metadata only (of one object or of a list), or as a Table."""

_METADATA_FORMS: Mapping[str, Form] = {
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial list",
    "Table": "table",
}
BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request body; kube-apiserver's limit."""

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. `group` None: nothing below /api or /apis; `rest` is then the path."""

    group: str | None
    version: str = ""
    namespace: str | None = None
    plural: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request with its body read."""

    method: str
    target: Target
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    user_agent: str = ""

    @property
    def verb(self) -> str:
        """The API verb, as in RBAC and audit logs; for what is no resource, the method."""
        if not self.target.plural:
            return self.method.lower()
        if self.method == "GET":
            if self.target.name:
                return "get"
            return "watch" if self.watching else "list"
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
        if self.method == "DELETE":
            return "delete" if self.target.name else "deletecollection"
        return verbs.get(self.method, self.method.lower())

    @property
    def watching(self) -> bool:
        return self.flag("watch")

    def integer(self, name: str) -> int:
        """A number in the query, 0 when absent. Raises Refusal (400)."""
        text = self.query.get(name, "")
        if not text:
            return 0
        digits = text[1:] if text[0] in "+-" else text
        if not digits.isdecimal():
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        return int(text)

    def flag(self, name: str) -> bool:
        """A boolean in the query: anything but 0 and false is true, even nothing."""
        return self.query.get(name, "0").lower() not in ("0", "false")


def parse_target(url: str) -> tuple[Target, dict[str, str]]:
    """What the URL names, and its query."""
    split = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
    parts = [unquote(part) for part in split.path.strip("/").split("/")]
    if "" in parts:
        return Target(None, rest=split.path), query
    if parts[0] == "api" and len(parts) > 1:
        return _below(("", parts[1]), parts[2:]), query
    if parts[0] == "apis" and len(parts) > 2:
        return _below((parts[1], parts[2]), parts[3:]), query
    return Target(None, rest=split.path.rstrip("/") or "/"), query


def _below(group_version: tuple[str, str], parts: list[str]) -> Target:
    group, version = group_version
    namespace = None
    if len(parts) >= 3 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    padded = [*parts, "", "", ""]
    return Target(group, version, namespace, padded[0], padded[1], "/".join(parts[2:]))


def form_of(accept: str) -> Form:
    """How the client wants objects shown: the first of its media types that is served.

    Raises Refusal (406) when none is.
    """
    for clause in accept.split(",") if accept else ["*/*"]:
        media, *parameters = [part.strip() for part in clause.split(";")]
        if media not in ("application/json", "application/*", "*/*"):
            continue
        options = dict(part.partition("=")[::2] for part in parameters)
        wanted = options.get("as", "")
        if not wanted:
            return "object"
        if wanted in _METADATA_FORMS and options.get("g") == "meta.k8s.io" and options.get("v") == "v1":
            return _METADATA_FORMS[wanted]
    raise not_acceptable()


def decode_request_body(body: bytes, content_type: str, kind_name: str) -> Any:
    """The JSON or YAML body of a create or update. Raises Refusal (400, 415)."""
    media = content_type.partition(";")[0].strip()
    if media not in ("application/json", "application/yaml", ""):
        raise unsupported_media_type(("application/json", "application/yaml"))
    try:
        return yaml.safe_load(body) if media == "application/yaml" else msgspec.json.decode(body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        shown = body[:200].decode("utf-8", "replace") or "<empty>"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind_name}): "
            f"couldn't get version/kind; json parse error: {error} ({shown})"
        ) from error


def refuse_duplicates(body: bytes, resource: Resource) -> None:
    """Strict field validation takes no member twice. Raises Refusal (400); what is no JSON is left to others."""
    try:
        document = json.loads(body, object_pairs_hook=_Members)
    except ValueError:
        return
    found = list(_duplicates(document, ""))
    if found:
        kind = resource.kind
        faults = ", ".join(f'duplicate field "{path}"' for path in found)
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: strict decoding error: {faults}'
        )


class _Members(dict[str, Any]):
    """A JSON object that remembers which of its members came twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.duplicates = [key for key, count in counts.items() if count > 1]


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Members):
        prefix = f"{path}." if path else ""
        yield from (prefix + key for key in value.duplicates)
        for key, item in value.items():
            yield from _duplicates(item, prefix + key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")


def write_options(request: Request) -> WriteOptions:
    """fieldValidation and dryRun. Raises Refusal (422)."""
    what = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
    validation = request.query.get("fieldValidation", "")
    if validation not in ("", "Strict", "Warn", "Ignore"):
        cause = unsupported("fieldValidation", f'"{validation}"', ("", "Ignore", "Strict", "Warn"))
        raise invalid(what, "meta.k8s.io", "", [cause])
    chosen: FieldValidation = "Strict" if validation == "Strict" else "Ignore" if validation == "Ignore" else "Warn"
    return WriteOptions(chosen, _dry_run(request, what))


def delete_options(request: Request) -> DeleteOptions:
    """The options of a delete, from its body or its query. Raises Refusal (400, 422)."""
    body = _delete_body(request.body)
    policy = body.get("propagationPolicy") or request.query.get("propagationPolicy") or None
    if policy is not None and policy not in _POLICIES:
        cause = unsupported("propagationPolicy", f'"{policy}"', (*_POLICIES, "nil"))
        raise invalid("DeleteOptions", "meta.k8s.io", "", [cause])
    preconditions = body.get("preconditions") or {}
    dry_run = bool(body.get("dryRun")) or _dry_run(request, "DeleteOptions")
    return DeleteOptions(preconditions.get("uid"), preconditions.get("resourceVersion"), policy, dry_run)


def _delete_body(text: bytes) -> Json:
    if not text:
        return {}
    try:
        body = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("preconditions") or {}, dict):
        raise bad_request("couldn't get version/kind; json parse error: not DeleteOptions")
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(f'no kind "{body["kind"]}" is registered for version "{body.get("apiVersion", "")}"')
    return body


def _dry_run(request: Request, what: str) -> bool:
    value = request.query.get("dryRun", "")
    if value not in ("", "All"):
        cause = unsupported("dryRun", f'["{value}"]', ("All",))
        raise invalid(what, "meta.k8s.io", "", [cause])
    return value == "All"
