"""What Flower is told to be: closed, read-only, bounded, and readable."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from celery.utils.saferepr import saferepr

from eno.errors import UsageError
from tests.support.hints import message, settings
from workers.dashboard import TASKS_IN_MEMORY, apply, ending, readable, subject


@dataclass
class Options:
    """Flower's options, as they are by default but for a password."""

    basic_auth: list[str] = field(default_factory=lambda: ["gravedigger:hunter2"])
    auth: str = ""
    auth_provider: str | None = None
    address: str = ""
    unix_socket: str = ""
    max_tasks: int = 100_000
    read_only: bool = False
    tasks_columns: str = "name,uuid"
    format_task: Any = None


def applied(options: Options, **overrides: object) -> Options:
    apply(options, settings(**overrides))
    return options


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Options(basic_auth=[]), id="nothing"),
        pytest.param(Options(basic_auth=["gravedigger"]), id="no password"),
        pytest.param(Options(basic_auth=["gravedigger:"]), id="an empty password"),
        pytest.param(Options(basic_auth=[":hunter2"]), id="an empty name"),
        pytest.param(Options(basic_auth=["a:b", ""]), id="one of two"),
        pytest.param(Options(basic_auth=[], auth=".*@example.com"), id="a pattern without a provider"),
        pytest.param(Options(basic_auth=[], auth_provider="x"), id="a provider without a pattern"),
    ],
)
def test_it_is_closed_or_does_not_start(options: Options) -> None:
    with pytest.raises(UsageError, match="no authentication is configured"):
        applied(options)


def test_a_provider_with_a_pattern_is_authentication() -> None:
    applied(Options(basic_auth=[], auth="me@example.com", auth_provider="flower.views.auth.GithubLoginHandler"))


@pytest.mark.parametrize(
    ("pattern", "stranger"),
    [(".*@example.com", "me@example.com.evil.org"), ("me@example.com", "me@example.com.evil.org")],
)
def test_a_pattern_matches_a_whole_address(pattern: str, stranger: str) -> None:
    """flower#1217: a pattern that is not anchored lets in whoever owns a longer domain."""
    authenticate = pytest.importorskip("flower.utils.authentication").authenticate
    assert authenticate(pattern, "me@example.com")
    assert not authenticate(pattern, stranger)


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    assert applied(Options()).address == "127.0.0.1"
    assert applied(Options(address="0.0.0.0")).address == "0.0.0.0"  # noqa: S104
    assert applied(Options(unix_socket="/run/flower")).address == ""


def test_it_only_shows_unless_told_otherwise() -> None:
    assert applied(Options()).read_only is True
    assert applied(Options(), flower_writable=True).read_only is False
    assert applied(Options(read_only=True), flower_writable=True).read_only is True


def test_its_memory_is_bounded() -> None:
    assert applied(Options()).max_tasks == TASKS_IN_MEMORY
    assert applied(Options(max_tasks=50)).max_tasks == 50


def test_a_task_is_shown_with_its_composition_and_its_ending() -> None:
    task = SimpleNamespace(kwargs=repr(message().payload()), result="{'outcome': 'done'}", exception=None)
    shown = readable(task)
    assert (shown.kwargs, shown.result) == ("apps/web synthesis=s1 uid=uid-web", "done")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param(saferepr(message().payload()), "apps/web synthesis=s1 uid=uid-web", id="as Celery shortens it"),
        pytest.param(repr(message(synthesis_uuid="").payload()), "apps/web uid=uid-web", id="no synthesis"),
        pytest.param("{'namespace': 'apps', 'lineage': 'ab'}", "apps lineage=ab", id="a lineage"),
        pytest.param("{'namespace': 'apps', 'name': 'web', 'uid': 'u', 'synth", "apps/web uid=u", id="cut short"),
        pytest.param("{'x': 1}", "{'x': 1}", id="something else"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_subjects(arguments: str, shown: str) -> None:
    assert subject(arguments) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("{'outcome': 'done', 'reason': 'NotNeeded'}", "done: NotNeeded", id="a result"),
        pytest.param(
            "{'outcome': 'waiting', 'reason': 'young', 'until': '2026-01-01T00:00:00Z'}",
            "waiting: young (until 2026-01-01T00:00:00Z)",
            id="a wait",
        ),
        pytest.param(
            "TaskFailed('outcome=retry reason=get x: 404 NotFound (\"y\") until=2026-01-01T00:00:00Z')",
            'retry: get x: 404 NotFound ("y") (until 2026-01-01T00:00:00Z)',
            id="a failure",
        ),
        pytest.param("TaskFailed('outcome=rejected reason=name: too long')", "rejected: name: too long", id="no until"),
        pytest.param("TaskFailed('outcome=retry')", "retry", id="no reason"),
        pytest.param("WorkerLostError('Worker exited')", "WorkerLostError('Worker exited')", id="another error"),
        pytest.param("{'outcome': 'done', 'reas…", "{'outcome': 'done', 'reas…", id="cut short"),
        pytest.param("[1]", "[1]", id="another value"),
        pytest.param("[" * 10_000, "[" * 10_000, id="too deep to be read"),
        pytest.param("", "", id="nothing yet"),
    ],
)
def test_endings(text: str, shown: str) -> None:
    assert ending(text) == shown
