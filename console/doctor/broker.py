"""Redis as the doctor meets it: whether it is fit, whether it lets us do what we do, and whether anybody consumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit

from console.doctor.checks import Check, broken, failed, ok, skipped, warning
from console.doctor.commands import Probe, Refusal, is_refusal, missing_rule, refusals
from eno.errors import BrokerUnavailable
from eno.wording import counted
from runtime.broker import connect, findings_in, translated
from runtime.dispatch import Dispatcher
from runtime.settings import Settings

AREA = "Redis"


@dataclass(frozen=True, slots=True)
class Consumers:
    """Workers of this instance that wait for a message, and messages that workers have taken and not finished.

    A worker all of whose processes are busy is none of the first. Neither is one that died, whose messages stay
    taken until the visibility timeout.
    """

    waiting: int
    held: int


def check_redis(settings: Settings) -> Iterator[Check]:
    """All about Redis; when it cannot be reached, that alone."""
    yield _limits(settings)
    try:
        refused = refusals(settings)
        info = None if any(each.command == "INFO" for each in refused) else _info(settings)
    except BrokerUnavailable as error:
        yield _away(error, settings)
        yield from (skipped(AREA, each, "Redis does not answer") for each in ("permissions", "queues"))
        return
    yield from _fitness(info, settings)
    yield _permissions(refused, settings)
    yield from _queues(refused, settings)


def _limits(settings: Settings) -> Check:
    """Settings that contradict each other are refused before any check; this shows the values."""
    found = f"visibility timeout {settings.visibility_timeout:g} s > time limit {settings.task_time_limit:g} s"
    return ok(AREA, "time limits", found)


def _info(settings: Settings) -> Mapping[str, Any]:
    """Raises BrokerUnavailable."""
    with translated(settings.broker_host), closing(connect(settings)) as client:
        found: Mapping[str, Any] = client.info()
        return found


def _away(error: BrokerUnavailable, settings: Settings) -> Check:
    host, detail = settings.broker_host, error.detail
    if not detail:
        return failed(AREA, "server", error.summary, error.hint)
    if is_refusal(detail):
        # A connection introduces itself before anything is asked of it.
        fix = _let(settings, [missing_rule(detail, Probe(("CLIENT",)))])
        return failed(AREA, "server", f"{host} refuses to begin: {detail}", fix)
    if detail.startswith("Authentication"):
        found = f"{host} does not let user {_user(settings)} in, with {_password(settings)} ({detail})"
        return failed(AREA, "server", found, _with_a_password(settings))
    if not error.hint:
        fix = f"{_cli(settings)} INFO   # whether it is a replica, or out of memory"
        return failed(AREA, "server", f"{host} does not do as it is asked ({detail})", fix)
    fix = "start Redis, or export SEXTON_BROKER_URL=redis://HOST:PORT/DATABASE   # rediss:// for TLS"
    return failed(AREA, "server", f"{host} cannot be reached ({detail})", fix)


def _password(settings: Settings) -> str:
    return "the password of SEXTON_BROKER_URL" if urlsplit(settings.broker_url).password else "no password"


def _with_a_password(settings: Settings) -> str:
    parts = urlsplit(settings.broker_url)
    url = f"{parts.scheme}://{parts.username or 'USER'}:PASSWORD@{settings.broker_host}"
    return f"export SEXTON_BROKER_URL={quote(url)}   # a user that this Redis knows, and its password"


def _fitness(info: Mapping[str, Any] | None, settings: Settings) -> Iterator[Check]:
    if info is None:
        yield warning(AREA, "server", f"{settings.broker_host} answers, and this user may not read INFO")
        return
    findings = {each.code: each for each in findings_in(info, settings.broker_host)}
    version, policy = info.get("redis_version", "unknown"), info.get("maxmemory_policy", "unknown")
    if "version" in findings:
        yield failed(AREA, "server", findings["version"].message, findings["version"].hint)
    else:
        yield ok(AREA, "server", f"{version} at {settings.broker_host}")
    if "eviction-policy" in findings:
        fix = f"{_cli(settings)} CONFIG SET maxmemory-policy noeviction"
        yield failed(AREA, "eviction", f"maxmemory-policy is {policy}, which can evict the queues", fix)
    else:
        yield ok(AREA, "eviction", f"maxmemory-policy {policy}")


def _permissions(refused: Sequence[Refusal], settings: Settings) -> Check:
    if not refused:
        return ok(AREA, "permissions", "every command that Sexton and Celery give is allowed")
    words = ", ".join(dict.fromkeys(each.command for each in refused))
    fix = _let(settings, dict.fromkeys(each.rule for each in refused))
    return failed(AREA, "permissions", f"user {_user(settings)} may not {words}", fix)


def _queues(refused: Sequence[Refusal], settings: Settings) -> Iterator[Check]:
    try:
        with closing(Dispatcher.connect(settings)) as dispatcher:
            lengths, parked = dispatcher.lengths(), dispatcher.parked()
        consumers = _consumers(settings)
    except BrokerUnavailable as error:
        if refused and is_refusal(error.detail):
            yield skipped(AREA, "queues", "this user may not look at them: see permissions")
        else:
            yield broken(AREA, "queues", error, f"{_cli(settings)} INFO")
        return
    waiting = ", ".join(f"{length} {task.short}" for task, length in lengths.items() if length)
    yield ok(AREA, "queues", f"waiting: {waiting or 'nothing'}")
    if parked:
        yield warning(AREA, "parked", f"{counted(len(parked), 'key')}: {parked[0].message}", "sexton status")
    yield _workers(consumers, settings)


def _workers(consumers: Consumers | None, settings: Settings) -> Check:
    if consumers is None:
        return skipped(AREA, "workers", "this user may not list clients")
    held = f"{counted(consumers.held, 'message')} taken and not finished" if consumers.held else ""
    if consumers.waiting:
        found = f"{counted(consumers.waiting, 'worker')} waiting for messages"
        return ok(AREA, "workers", f"{found}, {held}" if held else found)
    if held:
        found = f"none waits for messages, {held}: every one is busy, or it died"
        return warning(AREA, "workers", found, f"celery -A workers inspect active   # as instance {settings.instance}")
    fix = "kubectl get pods -l app.kubernetes.io/component=worker   # or start one"
    return warning(AREA, "workers", "none waits for messages and none has taken any: no worker runs", fix)


def _consumers(settings: Settings) -> Consumers | None:
    """None where nobody may tell."""
    try:
        with translated(settings.broker_host), closing(connect(settings)) as client:
            return consumers_in(client.client_list(), len(client.hvals(f"{settings.instance}.unacked")), settings)
    except BrokerUnavailable:
        return None


def consumers_in(clients: Iterable[Mapping[str, str]], held: int, settings: Settings) -> Consumers:
    """What a list of clients and the number of messages without an acknowledgement say.

    A worker blocks in BRPOP on one connection while it has a free process. A connection that only did so once, as
    Flower's do that fetched an answer, keeps the command but not the flag.
    """
    name = f"{settings.instance}-celery"
    blocked = (each.get("name") == name and "b" in each.get("flags", "") for each in clients)
    return Consumers(sum(blocked), held)


def _let(settings: Settings, rules: Iterable[str]) -> str:
    """The line that gives these rules to the user."""
    user = quote(_user(settings))
    return f"{_cli(settings)} ACL SETUSER {user} {' '.join(map(quote, rules))}"


def _cli(settings: Settings) -> str:
    """redis-cli for the server, without the password that its URL may hold."""
    parts = urlsplit(settings.broker_url)
    tls = " --tls" if parts.scheme == "rediss" else ""
    return f"redis-cli -h {quote(parts.hostname or '')} -p {parts.port or 6379}{tls}"


def _user(settings: Settings) -> str:
    return unquote(urlsplit(settings.broker_url).username or "default")
