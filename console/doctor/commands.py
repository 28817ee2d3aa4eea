"""Which Redis commands this user may not give: each is queued in a transaction that is then thrown away.

Redis checks permissions when it queues a command, so nothing is ever carried out, and nothing beyond the commands
themselves has to be permitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from eno.errors import BrokerUnavailable
from runtime.broker import Keys, connect, translated
from runtime.messages import TaskName
from runtime.settings import Settings

REFUSED = "NoPermissionError"
"""How redis-py calls NOPERM, which `runtime.broker` keeps in the detail of its error."""

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
    answer = _answer(connection, settings, "MULTI")
    if answer == REFUSED:
        yield Refusal("MULTI", "+multi")
        return
    _require(answer == "OK", settings)
    for probe in probes(settings):
        answer = _answer(connection, settings, *probe.words)
        if answer.startswith(REFUSED):
            yield Refusal(probe.words[0], _rule(probe, answer))
        else:
            # Anything else than this would mean that the next command is carried out.
            _require(answer in ("QUEUED", ""), settings)


def _answer(connection: Connection, settings: Settings, *words: str) -> str:
    """The answer to a command; of a refusal its name and message, and empty for any other error about the command.

    Raises BrokerUnavailable when the connection is gone.
    """
    try:
        with translated(settings.broker_host):
            connection.send_command(*words, check_health=False)
            return str(connection.read_response())
    except BrokerUnavailable as error:
        if error.detail.startswith(REFUSED):
            return REFUSED if words == ("MULTI",) else error.detail
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
    # First, as it changes nothing even where a proxy has taken MULTI for something else.
    yield Probe(("PING",))
    yield Probe(("INFO",))
    yield Probe(("TIME",))
    yield from _hints(settings)
    yield from _queues(settings)
    yield from _channels(settings)


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
        ("WATCH", hint),
        ("ZADD", index, "1", _PROBE),
        ("ZREM", index, _PROBE),
        ("ZRANGE", index, "0", "-1"),
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
        ("ZREVRANGEBYSCORE", index, "0", "0"),
        ("SCRIPT", "LOAD", "return 1"),
        ("EVALSHA", "0" * 40, "1", mutex),
    )
    yield from _on("_kombu.*", ("SMEMBERS", binding), ("SADD", binding, _PROBE), ("SREM", binding, _PROBE))
    yield from _on(f"*.{instance}.control.pidbox*", ("LLEN", control), ("DEL", control))
    yield from _on("celeryev.*", ("LLEN", f"celeryev.{_PROBE}"), ("DEL", f"celeryev.{_PROBE}"))


def _channels(settings: Settings) -> Iterator[Probe]:
    """Celery's events and remote control. What is subscribed to has to be permitted to the letter."""
    prefix = f"/{urlsplit(settings.broker_url).path.strip('/') or 0}.{settings.instance}"
    for channel in (f"{prefix}.events/worker.online", f"{prefix}.control.pidbox"):
        yield Probe(("PUBLISH", channel, _PROBE), f"{prefix}.*")
    for channel in (f"{prefix}.events/worker.*", f"{prefix}.control.pidbox"):
        yield Probe(("PSUBSCRIBE", channel), channel)


def _on(pattern: str, *commands: tuple[str, ...]) -> Iterator[Probe]:
    return (Probe(words, pattern) for words in commands)


def _rule(probe: Probe, refusal: str) -> str:
    """The rule that is missing, by the server's own words."""
    if "a key" in refusal:
        return f"~{probe.pattern}"
    return f"&{probe.pattern}" if "a channel" in refusal else f"+{probe.words[0].lower()}"
