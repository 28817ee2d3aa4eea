"""Flower, the dashboard behind `celery -A workers flower`: who may see it, and what its users may do.

Flower as it comes is open to whoever reaches its port, on all addresses, lets everybody stop workers, and keeps
100,000 tasks. Here it asks for credentials or does not start, listens on loopback, only shows, and keeps fewer.

It has no hook for that, but it asks the application for its tasks after it has read its options (flags,
`FLOWER_*` variables, configuration file) and before it opens its port. That is when `apply` changes them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from eno.errors import UsageError
from runtime.settings import Settings

COMMAND = "flower"
"""Celery's name of the command."""

LOOPBACK = "127.0.0.1"

TASKS_IN_MEMORY = 10_000
"""At most. A task takes some 7 KB, and Flower never forgets by age."""

COLUMNS = "name,kwargs,state,result,runtime,received,uuid"
"""Of the list of tasks: what was done to which composition, and how it ended."""

_NAMES = re.compile(r"'(namespace|name|uid|synthesis_uuid|lineage)': '([^']*)'")
_FAILURE = re.compile(r"TaskFailed\((.*)\)", re.DOTALL)
_PARTS = re.compile(r"outcome=(\S+)(?: reason=(.*?))?(?: until=(\S+))?", re.DOTALL)


def apply(options: Any, settings: Settings) -> None:
    """Change Flower's options (`tornado.options.options`) to what Sexton asks for.

    Raises UsageError where neither passwords nor an identity provider are configured. Whether a pattern of users is
    anchored is no question: Flower itself matches it as a whole.
    """
    passwords = all(re.fullmatch(".+:.+", each) for each in options.basic_auth) and bool(options.basic_auth)
    if not passwords and not (options.auth and options.auth_provider):
        raise UsageError(
            "no authentication is configured",
            where="flower",
            hint="set FLOWER_BASIC_AUTH=user:password, or FLOWER_AUTH and FLOWER_AUTH_PROVIDER",
        )
    if not options.address and not options.unix_socket:
        options.address = LOOPBACK
    options.max_tasks = min(options.max_tasks, TASKS_IN_MEMORY)
    options.read_only = options.read_only or not settings.flower_writable
    options.tasks_columns = COLUMNS
    options.format_task = readable


def readable(task: Any) -> Any:
    """The task, which is Flower's own copy, with arguments and result as a person reads them."""
    task.kwargs = subject(str(task.kwargs or ""))
    task.result = ending(str(task.result or task.exception or ""))
    return task


def subject(arguments: str) -> str:
    """What a task was for: `apps/web synthesis=… uid=…`. `arguments` are as Celery shows them, maybe cut short."""
    found = dict(_NAMES.findall(arguments))
    title = "/".join(found[part] for part in ("namespace", "name") if found.get(part))
    # The list cuts long cells off: the composition comes first, then what tells its tasks apart.
    rest = {"synthesis": found.get("synthesis_uuid"), "lineage": found.get("lineage"), "uid": found.get("uid")}
    shown = " ".join([title, *(f"{name}={value}" for name, value in rest.items() if value)])
    return shown if title else arguments


def ending(text: str) -> str:
    """How a task ended: `done: recorded in 1 Secret`. `text` is its result, or its exception, as Celery shows it."""
    parts = _result(text)
    if not parts.get("outcome"):
        return text
    until = f" (until {parts['until']})" if parts.get("until") else ""
    return ": ".join(part for part in (parts["outcome"], parts.get("reason")) if part) + until


def _result(text: str) -> Mapping[str, Any]:
    failure = _FAILURE.fullmatch(text)
    value = _literal(failure[1] if failure else text)
    if isinstance(value, str) and (parts := _PARTS.fullmatch(value)):
        return dict(zip(("outcome", "reason", "until"), parts.groups(), strict=True))
    return value if isinstance(value, dict) else {}


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
