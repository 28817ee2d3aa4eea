"""Which Redis commands this user may not give: each is queued in a transaction that is then thrown away.

Redis checks permissions when it queues a command, so nothing is ever carried out, and nothing beyond the commands
themselves has to be permitted. What makes a transaction cannot be queued in one, and is given as such: empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from eno.errors import BrokerUnavailable
from runtime.broker import Keys, connect, translated
from runtime.messages import TaskName
from runtime.settings import Settings

_REFUSED = re.compile(r"NoPermissionError|NOPERM ")
"""How redis-py calls NOPERM, which `runtime.broker` keeps in the detail of its error; and how an EXEC tells of it."""

_COMMAND = re.compile(r"run the '([^']+)' command")

_PROBE = "doctor"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that this user may not give, and the rule for `ACL SETUSER` that would let it."""

    command: str
    rule: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A command with harmless arguments, and the pattern of the keys or channels that it is given on."""

    words: Sequence[str]
    pattern: str = ""


class Connection(Protocol):
    """The part of a redis-py connection that is used here: no pool and no retry, which would leave the transaction."""

    def send_command(self, *args: str, check_health: bool) -> None:
        """Write one command."""
        ...

    def read_response(self) -> object:
        """Its answer. Raises whatever redis-py raises."""
        ...


def refusals(settings: Settings) -> list[Refusal]:
    """What is refused. Raises BrokerUnavailable, also where transactions are not to be had."""
    host = settings.broker_host
    with translated(host), closing(connect(settings)) as client:
        connection = client.connection_pool.get_connection()
        try:
            return list(asked(connection, settings))
        finally:
            # Whatever is still open is thrown away with it.
            connection.disconnect()  # type: ignore[no-untyped-call]
            client.connection_pool.release(connection)


def asked(connection: Connection, settings: Settings) -> Iterator[Refusal]:
    """What is refused on this connection. Raises BrokerUnavailable before a command could be carried out."""
    hint = Keys(settings.instance).pending(_PROBE)
    for probe in (Probe(("WATCH", hint), f"{settings.instance}:*"), Probe(("UNWATCH",))):
        yield from _refusal(probe, _answer(connection, settings, *probe.words))
    beginning = list(_given(connection, settings, "MULTI", "OK"))
    if beginning:
        yield from beginning
        for probe in _questions():
            yield from _refusal(probe, _answer(connection, settings, *probe.words))
        return
    yield from _given(connection, settings, "EXEC", "[]")
    yield from _given(connection, settings, "MULTI", "OK")
    discarding = list(_given(connection, settings, "DISCARD", "OK"))
    yield from discarding
    if not discarding:
        yield from _given(connection, settings, "MULTI", "OK")
    for probe in probes(settings):
        answer = _answer(connection, settings, *probe.words)
        yield from _refusal(probe, answer)
        # Anything else than this would mean that the next command is carried out.
        _require(is_refusal(answer) or answer in ("QUEUED", ""), settings)


def is_refusal(detail: str) -> bool:
    """Whether the detail of a BrokerUnavailable says that this user may not do what was asked."""
    return bool(_REFUSED.search(detail))


def missing_rule(detail: str, probe: Probe) -> str:
    """The rule that is missing, by the server's own words: `User bob has no permissions to run the 'info' command`."""
    if named := _COMMAND.search(detail):
        return f"+{named[1]}"
    if "channel" in detail:
        return f"&{probe.pattern}"
    return f"~{probe.pattern}" if "key" in detail else f"+{probe.words[0].lower()}"


def _given(connection: Connection, settings: Settings, command: str, expected: str) -> Iterator[Refusal]:
    """The refusal of a command without arguments that is carried out."""
    answer = _answer(connection, settings, command)
    yield from _refusal(Probe((command,)), answer)
    _require(is_refusal(answer) or answer == expected, settings)


def _refusal(probe: Probe, answer: str) -> Iterator[Refusal]:
    if is_refusal(answer):
        yield Refusal(probe.words[0], missing_rule(answer, probe))


def _answer(connection: Connection, settings: Settings, *words: str) -> str:
    """The answer to a command; of a refusal its name and message, and empty for any other error about the command.

    Raises BrokerUnavailable when the connection is gone.
    """
    try:
        with translated(settings.broker_host):
            connection.send_command(*words, check_health=False)
            return str(connection.read_response())
    except BrokerUnavailable as error:
        if is_refusal(error.detail):
            return error.detail
        if error.detail.startswith("ResponseError"):
            return ""
        raise


def _require(holds: bool, settings: Settings) -> None:
    if not holds:
        raise BrokerUnavailable(
            "it takes no transactions", where=f"Redis {settings.broker_host}", hint="use a Redis without a proxy"
        )


def probes(settings: Settings) -> Iterator[Probe]:
    """A command of each kind that Sexton and Celery give, on keys and channels of each kind."""
    # First, as they change nothing even where a proxy has taken MULTI for something else.
    yield from _questions()
    yield from _hints(settings)
    yield from _queues(settings)
    yield from _channels(settings)


def _questions() -> Iterator[Probe]:
    """What may be asked of any server without a transaction around it."""
    return (Probe((word,)) for word in ("PING", "INFO", "TIME"))


def _hints(settings: Settings) -> Iterator[Probe]:
    """What `runtime` does."""
    keys, pattern = Keys(settings.instance), f"{settings.instance}:*"
    hint, index = keys.pending(_PROBE), keys.parked_index
    yield from _on(
        pattern,
        ("GET", hint),
        ("SET", hint, "1", "NX", "PX", "1"),
        ("GETDEL", hint),
        ("DEL", hint),
        ("EXISTS", hint),
        ("PTTL", hint),
        ("PEXPIRE", hint, "1"),
        ("INCRBY", hint, "1"),
        ("ZADD", index, "1", _PROBE),
        ("ZREM", index, _PROBE),
        ("ZRANGE", index, "0", "-1"),
        ("ZRANGEBYSCORE", index, "0", "+inf"),
        ("ZREMRANGEBYSCORE", index, "-inf", "0"),
    )


def _queues(settings: Settings) -> Iterator[Probe]:
    """What Celery does to take and keep messages, and with the keys of its remote control."""
    instance, queue = settings.instance, TaskName.GATE.queue(settings.instance)
    unacked, index, mutex = f"{instance}.unacked", f"{instance}.unacked-index", f"{instance}.unacked-mutex"
    binding, control = f"_kombu.binding.{queue}", f"{_PROBE}.{instance}.control.pidbox"
    yield from _on(
        f"{instance}.*",
        ("LLEN", queue),
        ("LPUSH", queue, _PROBE),
        ("RPUSH", queue, _PROBE),
        ("BRPOP", queue, "1"),
        ("HSET", unacked, _PROBE, "1"),
        ("HGET", unacked, _PROBE),
        ("HVALS", unacked),
        ("HDEL", unacked, _PROBE),
        ("ZADD", index, "1", _PROBE),
        ("ZREM", index, _PROBE),
        ("SCRIPT", "LOAD", "return 1"),
        ("SCRIPT", "EXISTS", "0" * 40),
        ("EVALSHA", "0" * 40, "1", mutex),
    )
    yield from _on("_kombu.*", ("SMEMBERS", binding), ("SADD", binding, _PROBE), ("SREM", binding, _PROBE))
    yield from _on(f"*.{instance}.control.pidbox*", ("LLEN", control), ("DEL", control))
    yield from _on("celeryev.*", ("LLEN", f"celeryev.{_PROBE}"), ("DEL", f"celeryev.{_PROBE}"))


def _channels(settings: Settings) -> Iterator[Probe]:
    """Celery's events and remote control. What is subscribed to has to be permitted to the letter."""
    prefix = f"/{urlsplit(settings.broker_url).path.strip('/') or 0}.{settings.instance}"
    events, control = f"{prefix}.events/*", f"{prefix}.control.pidbox"
    for event in ("task.sent", "task.multi", "worker.online"):
        yield Probe(("PUBLISH", f"{prefix}.events/{event}", _PROBE), events)
    yield Probe(("PUBLISH", control, _PROBE), control)
    for channel in (events, f"{prefix}.events/worker.*", control):
        yield Probe(("PSUBSCRIBE", channel), channel)
    yield Probe(("PUNSUBSCRIBE", control))


def _on(pattern: str, *commands: tuple[str, ...]) -> Iterator[Probe]:
    return (Probe(words, pattern) for words in commands)
