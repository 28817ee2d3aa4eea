"""Structured logs: one line per record, one `action` per line, objects as fields, never a payload.

Sexton logs through the standard library, with an action and fields in `extra`:

    log.info("tombstones written", extra={"action": "recovered", **message.log_context()})

Fields are scalars for a person and a machine to filter by; whoever logs leaves manifests, Secrets and message
bodies out. What libraries log passes through the same formatters, cut to its first line and without its extras,
because Celery puts whole message bodies into both.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from eno.characters import visible
from runtime.settings import LogFormat

OWN = frozenset({"eno", "kube", "runtime", "workers", "watcher", "console", "devcluster"})
"""The packages whose loggers carry fields."""

# At INFO they repeat, with arguments, what Sexton's own lines say about each task.
_CHATTY = ("celery.app.trace", "celery.worker.strategy", "urllib3", "kombu")
_LONGEST = 2000
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "action"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON in ASCII; a traceback is one of its strings."""
        return json.dumps(_fields(self, record), default=str)


class TextFormatter(logging.Formatter):
    """`time level action message key=value …` for people; a traceback follows on indented lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        fields = _fields(self, record)
        traceback = fields.pop("traceback", None)
        head = [str(fields.pop(name)) for name in ("time", "level", "action", "message")]
        pairs = [f"{name}={_quoted(value)}" for name, value in fields.items() if value not in ("", None)]
        line = visible(" ".join(part for part in (*head, *pairs) if part))
        # Indented, so that nothing in an exception's text can begin a line that looks like another record.
        return "\n".join([line, *(f"    {visible(each)}" for each in (traceback or "").splitlines())])


def configure(level: str, style: LogFormat, stream: TextIO | None = None) -> None:
    """Send every log record of the process to `stream` (default: stderr) in one style."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    own = record.name.partition(".")[0] in OWN
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "action": getattr(record, "action", "log"),
        "message": _one_line(record.getMessage(), whole=own),
    }
    if own:
        extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        fields |= {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in extras.items()}
    else:
        fields["logger"] = record.name
    if record.exc_info and record.exc_info[0] is not None:
        fields["traceback"] = formatter.formatException(record.exc_info)
    return fields


def _one_line(text: str, *, whole: bool) -> str:
    """All of it, with line breaks as blanks, or the first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines if whole else lines[:1])[:_LONGEST]


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if any(mark in text for mark in ' "=\n\t') else text
