"""Plain HTTP below the `Cluster` protocol: what exactly a server answered, a Status object included."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kube import replies, requests
from kube.cluster import PAGE_SIZE, Json, JsonPatch, Page, Query, WatchEvent
from kube.requests import JSON, Request
from kube.resources import Resource


@dataclass(frozen=True)
class Reply:
    """A complete answer. Header names are in lower case.

    `causes` are (field, reason), in order of both and each once: kube-apiserver repeats some.
    """

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Json]:
        """The lines of a watch."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def status(self) -> Json:
        """The Status object, `{}` where the answer is none."""
        try:
            body = json.loads(self.body)
        except ValueError:
            return {}
        return body if isinstance(body, dict) and body.get("kind") == "Status" else {}

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.status.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        causes = self.status.get("details", {}).get("causes", [])
        return sorted({(cause.get("field", ""), cause.get("reason", "")) for cause in causes})


@dataclass(frozen=True)
class Ask:
    """A request beyond those that `Cluster` makes. `target` is path and query."""

    method: str
    target: str
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON


Exchange = Callable[[Ask], Reply]


class Answered(Exception):
    """Raised when a request was not answered with a success."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.code} {reply.body[:2000].decode(errors='replace')}")
        self.reply = reply


@dataclass(frozen=True)
class PlainCluster:
    """A `Cluster` without any translation: raises Answered. A watch is read to its end before it tells anything."""

    exchange: Exchange

    def get(self, resource: Resource, namespace: str | None, name: str, *, metadata_only: bool = False) -> Json:
        return self._send(requests.get(resource, namespace, name, metadata_only=metadata_only))

    def list_page(self, query: Query, *, limit: int = PAGE_SIZE, continue_token: str = "") -> Page:
        request = requests.list_page(query, limit=limit, continue_token=continue_token)
        return replies.page_from(request, self._answer(request).body, None)

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int) -> Generator[WatchEvent]:
        request = requests.watch(query, resource_version=resource_version, timeout_seconds=timeout_seconds)
        for event in self._answer(request).events:
            if event["type"] == "ERROR":
                raise Answered(Reply(event["object"].get("code", 0), json.dumps(event["object"]).encode()))
            yield WatchEvent(event["type"], event["object"])

    def create(self, resource: Resource, namespace: str | None, body: Json) -> Json:
        return self._send(requests.create(resource, namespace, body))

    def update(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, subresource: str = ""
    ) -> Json:
        return self._send(requests.update(resource, namespace, name, body, subresource=subresource))

    def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: JsonPatch,
        *,
        subresource: str = "",
        strict: bool = False,
    ) -> Json:
        request = requests.json_patch(resource, namespace, name, operations, subresource=subresource, strict=strict)
        return self._send(request)

    def merge_patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        return self._send(requests.merge_patch(resource, namespace, name, patch, subresource=subresource))

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        self._send(requests.delete(resource, namespace, name, uid=uid, resource_version=resource_version))

    def _send(self, request: Request) -> Json:
        answer: Json = self._answer(request).json
        return answer

    def _answer(self, request: Request) -> Reply:
        ask = Ask(request.method, request.target, request.body, request.content_type, request.accept)
        reply = self.exchange(ask)
        if not 200 <= reply.code < 300:
            raise Answered(reply)
        return reply
