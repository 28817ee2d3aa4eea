"""What travels through Redis: the names of the tasks, their queues, and payloads that are checked strictly.

A payload names an object and says nothing about what is to be done with it; that follows from the live object
alone (P8). It is still checked to the letter, since whoever can write to Redis can put anything into a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from eno.errors import UsageError
from eno.scope import Scope

MAX_SLICES = 1000
"""Slice names in one cleanup message (about 250 KB at worst). The watcher asks again for the rest."""

_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
# UIDs and UUIDs are opaque to Sexton. They become parts of Redis keys, hence neither colons nor blanks.
_OPAQUE = r"^[A-Za-z0-9._-]*$"

Namespace = Annotated[str, Field(min_length=1, max_length=63, pattern=_LABEL)]
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
OptionalName = Annotated[str, Field(max_length=253, pattern=f"^$|{_SUBDOMAIN}")]
Uid = Annotated[str, Field(min_length=1, max_length=128, pattern=_OPAQUE)]
Uuid = Annotated[str, Field(max_length=128, pattern=_OPAQUE)]
Lineage = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
# JSON knows no tuples.
SliceNames = Annotated[tuple[Name, ...], Strict(False), Field(max_length=MAX_SLICES)]


class InvalidMessage(UsageError):
    """Raised when a payload is not exactly what its task takes. Nothing is read or written for it."""


class TaskName(StrEnum):
    """The tasks, by the names that Celery knows them by."""

    RECOVER = "sexton.recover"
    GATE = "sexton.gate"
    RECORD = "sexton.record"
    CLEANUP = "sexton.cleanup"
    RETIRE = "sexton.retire"

    @property
    def short(self) -> str:
        """The name without the prefix, as in queue names, keys and on the command line."""
        return self.value.partition(".")[2]

    def queue(self, instance: str) -> str:
        """The task's own queue, so that worker pools can be scaled apart."""
        return f"{instance}.{self.short}"


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    task: ClassVar[TaskName]

    scope: Scope | None = None
    """The sender's scope and switches. None is a person's call: the worker's own configuration applies."""

    def payload(self) -> dict[str, Any]:
        """As keyword arguments of the task, JSON types only."""
        return self.model_dump(mode="json", exclude_none=True)


class _CompositionMessage(_Message):
    namespace: Namespace
    name: Name
    uid: Uid
    synthesis_uuid: Uuid

    @property
    def key(self) -> str:
        """What there is at most one pending message and one execution of."""
        return f"{self.task.short}:{self.uid}:{self.synthesis_uuid}"

    def log_context(self) -> dict[str, str]:
        """The fields that every log line about this message carries."""
        return {
            "task": self.task.short,
            "composition": f"{self.namespace}/{self.name}",
            "uid": self.uid,
            "synthesis": self.synthesis_uuid,
        }


class RecoverMessage(_CompositionMessage):
    """Make the tombstones that history owes the composition's current synthesis."""

    task = TaskName.RECOVER


class GateMessage(_CompositionMessage):
    """Aggregate the readiness of the composition's current synthesis."""

    task = TaskName.GATE


class RecordMessage(_CompositionMessage):
    """Take a snapshot of the composition's ready synthesis."""

    task = TaskName.RECORD


class CleanupMessage(_CompositionMessage):
    """Look at these slices of one owner. `name` and `uid` are those of their owner reference, empty without one."""

    task = TaskName.CLEANUP

    name: OptionalName
    uid: Uuid
    slices: SliceNames

    @property
    def key(self) -> str:
        """What there is at most one pending message and one execution of."""
        if self.uid:
            return super().key
        # Slices without an owner have nothing in common but that.
        digest = sha256(f"{self.namespace}/{','.join(self.slices)}".encode()).hexdigest()
        return f"{self.task.short}:{digest[:32]}"


class RetireMessage(_Message):
    """Look at the snapshots of a lineage. `namespace` is the one of its compositions."""

    task = TaskName.RETIRE

    namespace: Namespace
    lineage: Lineage

    @property
    def key(self) -> str:
        """What there is at most one pending message and one execution of."""
        return f"{self.task.short}:{self.lineage}"

    def log_context(self) -> dict[str, str]:
        """The fields that every log line about this message carries."""
        return {"task": self.task.short, "namespace": self.namespace, "lineage": self.lineage}


Message: TypeAlias = RecoverMessage | GateMessage | RecordMessage | CleanupMessage | RetireMessage

MESSAGES: Mapping[TaskName, type[Message]] = {
    kind.task: kind for kind in (RecoverMessage, GateMessage, RecordMessage, CleanupMessage, RetireMessage)
}
"""The payload of each task."""


def parse(task: TaskName, payload: Mapping[str, Any]) -> Message:
    """The message in a task's keyword arguments.

    Raises InvalidMessage, which names the offending fields and never shows their values.
    """
    try:
        return MESSAGES[task].model_validate(dict(payload))
    except ValidationError as error:
        defects = "; ".join(
            f"{'.'.join(str(part)[:64] for part in detail['loc'])}: {detail['msg']}"
            for detail in error.errors(include_input=False, include_url=False)[:5]
        )
        raise InvalidMessage(defects, where=f"message of {task}") from error
