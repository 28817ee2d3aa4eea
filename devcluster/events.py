"""The rules of core/v1 Events: lax for those without an `eventTime`, strict for the others.

They are those of `legacyValidateEvent` in kube-apiserver, which looks at Events on creation only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from devcluster.kinds import Rules
from devcluster.metadata import qualified_name_faults
from devcluster.statuses import Cause, invalid_value, required
from devcluster.times import micro_time, second_time
from kube.cluster import Json

REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
"""The members of an ObjectReference."""

_MESSAGE_LIMIT = 1024
_TEXT_LIMIT = 128


class EventRules(Rules):
    """An Event lies in the namespace of what it is about, under any name that fits into a path."""

    any_name = True

    def decode(self, body: Json) -> None:
        body.setdefault("involvedObject", {})
        body.setdefault("eventTime", None)
        for name in ("reportingComponent", "reportingInstance"):
            body.setdefault(name, "")
        body.setdefault("source", {})
        for name in ("firstTimestamp", "lastTimestamp"):
            if body.get(name):
                body[name] = second_time(body[name])
        if body["eventTime"]:
            body["eventTime"] = micro_time(body["eventTime"])

    def causes(self, body: Json) -> list[Cause]:
        about = body["involvedObject"].get("namespace", "")
        own = body["metadata"]["namespace"]
        modern = body["eventTime"] is not None
        homes = ("default", "kube-system") if modern else ("default",)
        found: list[Cause] = []
        if own not in homes if not about else not modern and about != own:
            why = "does not match event.namespace"
            found.append(invalid_value("involvedObject.namespace", f'"{about}"', why))
        return [*found, *_modern_causes(body)] if modern else found

    def update_causes(self, body: Json, old: Json) -> list[Cause]:
        del body, old
        return []

    def fields(self, body: Json) -> Mapping[str, str]:
        about: Json = body["involvedObject"]
        source = body["source"].get("component") or body["reportingComponent"]
        return {
            **{f"involvedObject.{name}": str(about.get(name, "")) for name in REFERENCE},
            "reason": body.get("reason", ""),
            "type": body.get("type", ""),
            "reportingComponent": body["reportingComponent"],
            "source": source,
        }


def _modern_causes(body: Json) -> Iterator[Cause]:
    reporter = body["reportingComponent"]
    if not reporter:
        yield required("reportingComponent")
    for fault in qualified_name_faults(reporter):
        yield invalid_value("reportingComponent", f'"{reporter}"', fault)
    for name in ("reportingInstance", "action", "reason"):
        text = body.get(name, "")
        if not text:
            yield required(name)
        elif len(text.encode()) > _TEXT_LIMIT:
            yield invalid_value(name, '""', f"can have at most {_TEXT_LIMIT} characters")
    if len(body.get("message", "").encode()) > _MESSAGE_LIMIT:
        yield invalid_value("message", '""', f"can have at most {_MESSAGE_LIMIT} characters")
