"""Which paths, methods, forms and options a resource takes, before any object is looked at."""

from __future__ import annotations

from collections.abc import Mapping

from devcluster.kinds import Kind
from devcluster.requests import Form, Request
from devcluster.statuses import (
    Cause,
    Refusal,
    bad_request,
    forbidden_field,
    internal,
    invalid,
    method_not_allowed,
    not_found,
    not_supported,
    page_not_found,
    resource_not_found,
    unsupported,
)


def check_path(kind: Kind, request: Request) -> None:
    """A path and a method must fit the resource; custom resources are answered differently from built-in ones.

    Raises Refusal (400, 404, 405).
    """
    target, resource = request.target, kind.resource
    across = resource.namespaced and target.namespace is None
    if target.namespace is not None and not resource.namespaced:
        raise page_not_found() if kind.custom else resource_not_found()
    if kind.custom:
        if across and (target.name or request.method == "POST"):
            raise page_not_found()
        if target.subresource and target.subresource not in kind.subresources:
            raise not_found(resource, target.name)
        if target.subresource and request.method in ("POST", "DELETE"):
            raise not_supported(resource, {"POST": "create", "DELETE": "delete"}[request.method])
        if not target.name and request.method in ("PUT", "PATCH"):
            raise bad_request("name must be provided")
        return
    if target.subresource and target.subresource not in kind.subresources:
        raise resource_not_found()
    if across and target.name:
        raise resource_not_found()
    wrong = {"POST": bool(target.name) or across, "PUT": not target.name, "PATCH": not target.name}
    if wrong.get(request.method) or (target.subresource and request.method in ("GET", "POST", "DELETE")):
        raise method_not_allowed()


def check_form(form: Form, verb: str) -> None:
    """Metadata of one object and metadata of a list are different media types. Raises Refusal (406, 500)."""
    if form == "partial" and verb in ("list", "deletecollection"):
        message = "you requested PartialObjectMetadata, but the requested object is a list"
        raise Refusal(406, "NotAcceptable", message)
    if form == "partial list" and verb not in ("list", "deletecollection"):
        raise internal("content is not a list")


def check_watch(query: Mapping[str, str]) -> None:
    """What options of lists a watch takes. Raises Refusal (422)."""
    field, match = "resourceVersionMatch", query.get("resourceVersionMatch", "")
    causes: list[Cause] = []
    if "sendInitialEvents" in query:
        if match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            causes.append(forbidden_field(field, why))
    elif match:
        why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_field(field, why))
    if match not in ("", "NotOlderThan"):
        causes.append(unsupported(field, f'"{match}"', ("NotOlderThan",)))
    if query.get("continue"):
        causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
