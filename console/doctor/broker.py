"""Redis as the doctor meets it: whether it is fit, whether it lets us do what we do, and whether anybody consumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from console.doctor.checks import Check, broken, failed, ok, skipped, warning
from console.doctor.commands import REFUSED, Refusal, refusals
from eno.errors import BrokerUnavailable
from eno.wording import counted
from runtime.broker import connect, findings_in, translated
from runtime.dispatch import Dispatcher
from runtime.settings import Settings

AREA = "Redis"


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
    yield from _queues(settings)


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
    host = settings.broker_host
    if REFUSED in error.detail:
        fix = f"{_cli(settings)} ACL SETUSER {_user(settings)} +client"
        return failed(AREA, "server", f"{host} refuses to begin: {error.detail}", fix)
    fix = "start Redis, or export SEXTON_BROKER_URL=redis://HOST:PORT/DATABASE"
    return failed(AREA, "server", f"{host} cannot be reached ({error.detail})", fix)


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
    user = _user(settings)
    words = ", ".join(dict.fromkeys(each.command for each in refused))
    rules = " ".join(f"'{rule}'" for rule in dict.fromkeys(each.rule for each in refused))
    return failed(AREA, "permissions", f"user {user} may not {words}", f"{_cli(settings)} ACL SETUSER {user} {rules}")


def _queues(settings: Settings) -> Iterator[Check]:
    try:
        with closing(Dispatcher.connect(settings)) as dispatcher:
            lengths, parked = dispatcher.lengths(), dispatcher.parked()
        consumers = _consumers(settings)
    except BrokerUnavailable as error:
        yield broken(AREA, "queues", error, "see permissions")
        return
    waiting = ", ".join(f"{length} {task.short}" for task, length in lengths.items() if length)
    yield ok(AREA, "queues", f"waiting: {waiting or 'nothing'}")
    if parked:
        yield warning(AREA, "parked", f"{counted(len(parked), 'key')}: {parked[0].message}", "sexton status")
    yield _workers(consumers, settings)


def _workers(consumers: int | None, settings: Settings) -> Check:
    if consumers is None:
        return skipped(AREA, "workers", "this user may not list clients")
    if consumers:
        return ok(AREA, "workers", f"{counted(consumers, 'worker')} waiting for messages")
    # A worker with all hands full asks for nothing.
    found = "nobody waits for messages: no worker runs, or every one is busy"
    return warning(AREA, "workers", found, f"celery -A workers inspect active   # as instance {settings.instance}")


def _consumers(settings: Settings) -> int | None:
    """Connections of this instance's workers that wait for a message; None where nobody may tell."""
    name = f"{settings.instance}-celery"
    try:
        with translated(settings.broker_host), closing(connect(settings)) as client:
            clients = client.client_list()
    except BrokerUnavailable:
        return None
    return sum(each.get("name") == name and each.get("cmd") == "brpop" for each in clients)


def _cli(settings: Settings) -> str:
    """redis-cli for the server, without the password that its URL may hold."""
    parts = urlsplit(settings.broker_url)
    tls = " --tls" if parts.scheme == "rediss" else ""
    return f"redis-cli -h {parts.hostname} -p {parts.port or 6379}{tls}"


def _user(settings: Settings) -> str:
    return urlsplit(settings.broker_url).username or "default"
