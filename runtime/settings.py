"""Every setting of every process, read once at an entry point from the environment and from flags.

One model for all of them: a watcher and a worker that read different variables could never agree on a scope.
`reference` is where the documentation's table comes from, so a setting cannot go undocumented.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined
from pydantic_settings import BaseSettings, SettingsConfigDict

from eno.errors import UsageError
from eno.scope import Aggregation, Scope
from eno.selectors import LabelSelector
from runtime.constraints import NAME_PATTERN, complaint, wanted

PREFIX = "SEXTON_"
INVENTORY_NAMESPACE = "kube-system"
"""Where inventories live downstream. A contract with Eno (specification 04), hence no setting."""

LEASE_SPREAD = 1.2
"""Pauses between two looks at the Lease are up to this many retry periods long."""

_BROKER_SCHEMES = ("redis", "rediss")


class LogFormat(StrEnum):
    """How a log line is written."""

    JSON = "json"
    TEXT = "text"


def _as_seconds(value: object) -> object:
    """A bare number is a number of seconds; what else a duration may look like is pydantic's business."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value) else value


def _broker(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in _BROKER_SCHEMES and bool(parts.hostname) and parts.port != 0
        database = parts.path.strip("/")
    except ValueError:  # what it says may hold the password
        valid, database = False, ""
    if not valid:
        raise ValueError("must look like redis://host:port/database (or rediss://)")
    if database and not database.isdecimal():
        raise ValueError("must end with the number of a database, as in redis://host:6379/0")
    return value


def _selector(value: str) -> str:
    try:
        LabelSelector.parse(value)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return value


Namespace = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=7 * 86400, allow_inf_nan=False)]
Lease = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
# Added to any time that an annotation may hold, it has to be a time still.
Grace = Annotated[timedelta, BeforeValidator(_as_seconds), Field(ge=timedelta(0), le=timedelta(days=36500))]


class Settings(BaseSettings):
    """The configuration of one process. Immutable; make one with `Settings.load`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        # Kubernetes puts SEXTON_*_PORT and the like into every container beside a Service of that name.
        extra="ignore",
        env_ignore_empty=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    kubeconfig: Path | None = Field(
        None, description="Kubeconfig of the upstream cluster. Default: in-cluster, else `KUBECONFIG`."
    )
    downstream_kubeconfig: Path | None = Field(
        None, description="Kubeconfig of the downstream cluster, which holds the inventories. Default: upstream."
    )
    broker_url: Annotated[str, AfterValidator(_broker)] = Field(
        "redis://127.0.0.1:6379/0", repr=False, description="Redis, as `redis://` or `rediss://` URL."
    )
    instance: Namespace = Field(
        "sexton", description="Names the Lease, the queues and the Redis keys, so that several can share them."
    )
    pod_namespace: Namespace | None = Field(
        None,
        validation_alias="POD_NAMESPACE",
        description="Namespace this process runs in; the recovery namespace. Required when recovery is enabled.",
    )
    composition_namespace: Namespace | None = Field(
        None, description="Namespace whose compositions are looked after. Default: `POD_NAMESPACE`."
    )
    all_namespaces: bool = Field(False, description="Look after the compositions of all namespaces.")
    composition_label_selector: Annotated[str, AfterValidator(_selector)] = Field(
        "", description="Look only after compositions with these labels."
    )
    enable_tombstone_recovery: bool = Field(False, description="Recover tombstones and record inventories.")
    infer_required: bool = Field(
        False, description="Treat a first synthesis without `tombstoneRecoveryRequired` as requiring recovery."
    )
    acknowledge_mass_burial: bool = Field(
        False,
        description="Let a plan that buries more than half of an inventory wait for the acknowledging annotation.",
    )
    aggregation: Aggregation = Field(
        Aggregation.OPTED_IN, description="Which compositions get their readiness from Sexton."
    )
    retirement_grace: Grace = Field(
        timedelta(days=7),
        description="How long an unclaimed inventory is kept. 0: for ever.",
    )

    requests_per_second: Rate = Field(20, description="API requests per second and process.")
    burst: int = Field(40, ge=1, le=100_000, description="API requests that may go out at once.")
    slice_writes_per_second: Rate = Field(
        2, description="Slice writes per second and process. Slices of 1 MB in bursts endanger etcd."
    )

    task_soft_time_limit: Seconds = Field(240, description="Seconds until a task is interrupted.")
    task_time_limit: Seconds = Field(300, description="Seconds until the process that runs a task is killed.")
    visibility_timeout: Seconds = Field(
        900, description="Seconds until a message that nobody acknowledged is delivered again."
    )
    soft_shutdown_timeout: Seconds = Field(
        60, description="Seconds that running tasks are given on SIGQUIT before they are put back."
    )
    pending_timeout: Seconds = Field(
        300, description="Seconds after which a key may be enqueued although its message was not taken yet."
    )
    max_attempts: int = Field(
        5, ge=1, le=1000, description="How often a key may start without coming to an end before it is parked."
    )
    resync_seconds: Seconds = Field(30, description="Seconds between two looks at what is unfinished.")
    relist_seconds: Seconds = Field(600, description="Seconds between two complete lists of each resource.")

    lease_duration: Lease = Field(
        15, description="Seconds that a leading watcher's Lease holds; whoever stands by waits as long for a dead one."
    )
    lease_renew_deadline: Lease = Field(
        10, description="Seconds after which a watcher that could not renew its Lease no longer leads, and ends."
    )
    lease_retry_period: Lease = Field(2, description="Seconds between two looks at the Lease, a little spread.")

    health_host: str = Field("127.0.0.1", description="Address of `/healthz`, `/readyz` and `/metrics`.")
    health_port: int | None = Field(
        None, ge=0, le=65535, description="Their port; 0 takes a free one. Default: they are not served."
    )
    stall_seconds: Seconds = Field(
        90, description="Seconds without progress, while Redis answers, after which a worker's `/healthz` fails."
    )
    flower_writable: bool = Field(
        False, description="Let Flower's users stop workers and revoke tasks. Off: its pages and its API only show."
    )

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What is worth a line.")
    log_format: LogFormat = Field(LogFormat.JSON, description="How a line is written; text is for people.")

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Raises ValueError; in its message, settings stand in braces, for `load` knows how each was given."""
        if self.enable_tombstone_recovery and not self.pod_namespace:
            raise ValueError(
                "tombstone recovery needs {pod_namespace}, the only namespace it acts in: set it, "
                "or unset {enable_tombstone_recovery}"
            )
        if self.all_namespaces and self.composition_namespace:
            raise ValueError("{all_namespaces} and {composition_namespace} exclude each other; leave one of them out")
        if not self.task_soft_time_limit < self.task_time_limit:
            raise ValueError("{task_soft_time_limit} must be less than {task_time_limit}")
        if not self.task_time_limit < self.visibility_timeout:
            raise ValueError(
                "{visibility_timeout} must be more than {task_time_limit}, "
                "or Redis hands out a message that is still being worked on"
            )
        if not self.lease_retry_period * LEASE_SPREAD < self.lease_renew_deadline < self.lease_duration:
            raise ValueError(
                "{lease_renew_deadline} must be less than {lease_duration}, "
                f"and more than {LEASE_SPREAD} times {{lease_retry_period}}"
            )
        return self

    @classmethod
    def load(cls, flags: Mapping[str, str] = MappingProxyType({}), /, **overrides: Any) -> Self:
        """From the environment, with `overrides` (what a person gave, None for the rest) on top.

        `flags` says by which flag a setting is given as an override. Raises UsageError with one line that says of
        each setting that is wrong how it was given, its value unless that may be a secret, and what to write.
        """
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            names = {name: variable(name) for name in cls.model_fields}
            names |= {name: flag for name, flag in flags.items() if name in given}
            raise UsageError("; ".join(_line(each, names) for each in error.errors()), where="settings") from error

    @property
    def scope(self) -> Scope:
        """What this process looks after. Raises UsageError when neither namespace nor all was asked for."""
        namespace = "" if self.all_namespaces else self.composition_namespace or self.pod_namespace
        if namespace is None:
            raise UsageError(
                "no namespace to look after",
                where="settings",
                hint=f"set POD_NAMESPACE, {PREFIX}COMPOSITION_NAMESPACE or {PREFIX}ALL_NAMESPACES=true",
            )
        return Scope(
            composition_namespace=namespace,
            label_selector=self.composition_label_selector,
            recovery_namespace=self.pod_namespace or "",
            recovery_enabled=self.enable_tombstone_recovery,
            retirement_grace=self.retirement_grace.total_seconds(),
            aggregation=self.aggregation,
        )

    @property
    def lease_namespace(self) -> str:
        """Where the watcher's Lease lives, upstream. Raises UsageError when no setting tells."""
        found = self.pod_namespace or self.composition_namespace
        if found is None:
            raise UsageError(
                "no namespace for the watcher's Lease",
                where="settings",
                hint="set POD_NAMESPACE to the namespace that this process runs in",
            )
        return found

    @property
    def broker_host(self) -> str:
        """`host:port/database` of the broker: what messages may show of its URL."""
        parts = urlsplit(self.broker_url)
        return f"{parts.hostname}:{parts.port or 6379}/{parts.path.strip('/') or 0}"


def variable(name: str) -> str:
    """The environment variable of a setting."""
    alias = Settings.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else PREFIX + name.upper()


def reference() -> str:
    """All settings as a Markdown table: variable, default, values, meaning."""
    rows = [
        f"| `{variable(name)}` | {_default(field)} | {wanted(field)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | values | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value is PydanticUndefined or value == "":
        return ""
    if isinstance(value, timedelta):
        return f"`{value.days}d`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _line(detail: ErrorDetails, names: Mapping[str, str]) -> str:
    """One complaint. `names` says how each setting was given."""
    message = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return message.format_map(names)
    # An alias, or the name itself.
    place = str(detail["loc"][0])
    setting = next((name for name in Settings.model_fields if place in (name, variable(name))), "")
    field = Settings.model_fields.get(setting)
    remedy = wanted(field) if field else ""
    if field is None or not remedy:
        return f"{names.get(setting, place)}: {message}"
    return complaint(names[setting], detail["input"], remedy, secret=not field.repr)
