"""What the doctor says where the user of the guide lacks a rule, on a real Redis: a line that mends it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from console.doctor.broker import check_redis
from console.doctor.checks import Check, State
from console.doctor.commands import probes
from runtime.broker import connect
from runtime.redis_server import RedisServer
from runtime.settings import Settings
from tests.deploy.test_redis_users import users
from tests.support.redis import running_redis

USER, PASSWORD = "ann", "hunter2"


def rules() -> list[str]:
    """The rules of the guide's user, but for the password."""
    (line,) = re.findall(r"^user sexton on >\S+ (.*)$", users(), re.MULTILINE)
    return line.split()


RULES = rules()
GIVEN = [rule for rule in RULES if rule.startswith(("&", "~", "+")) and rule != "+@all"]
COMMANDS = sorted(
    {probe.words[0].lower() for probe in probes(Settings.load())} | {"exec", "discard", "watch", "unwatch"}
)
GROUPS = ["all", "blocking", "connection", "hash", "list", "pubsub", "read", "scripting", "set", "sortedset"]
ONE_RULE = {
    **{f"without {rule}": [each for each in RULES if each != rule] for rule in GIVEN},
    **{f"-{command}": [*RULES, f"-{command}"] for command in COMMANDS},
    "-client|setname": [*RULES, "-client|setname"],
    "-info -multi": [*RULES, "-info", "-multi"],
}
SEVERAL_RULES = {
    **{f"-@{group}": [*RULES, f"-@{group}"] for group in [*GROUPS, "transaction", "write"]},
    "-multi -watch -get": [*RULES, "-multi", "-watch", "-get"],
    "no rule at all": [],
}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


def make_user(redis: RedisServer, *given: str, name: str = USER) -> None:
    administer(redis, ["ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *given])


def administer(redis: RedisServer, words: Sequence[str]) -> None:
    with closing(connect(Settings.load(broker_url=redis.url))) as client:
        client.execute_command(*words)


def settings(redis: RedisServer, *, name: str = USER, password: str = PASSWORD, database: int = 0) -> Settings:
    address = f"{redis.url.removeprefix('redis://').partition('/')[0]}/{database}"
    return Settings.load(broker_url=f"redis://{quote(name)}:{password}@{address}")


def failures(loaded: Settings) -> list[Check]:
    return [each for each in check_redis(loaded) if each.state is State.FAILED]


def paste(redis: RedisServer, line: str) -> None:
    words = shlex.split(line)
    assert words[0] == "redis-cli", line
    administer(redis, words[words.index("ACL") :])


def test_with_the_rules_of_the_guide_nothing_is_refused(redis: RedisServer) -> None:
    make_user(redis, *RULES)
    found = {each.name: each for each in check_redis(settings(redis))}
    assert (found["permissions"].state, found["queues"].state) == (State.OK, State.OK)


def mended(redis: RedisServer, loaded: Settings) -> int:
    """Paste the line of the one failure until there is none. Returns how many lines that took."""
    pasted: list[str] = []
    while found := failures(loaded):
        (failure,) = found
        assert failure.fix not in pasted, "the line has mended nothing"
        pasted.append(failure.fix)
        paste(redis, failure.fix)
    return len(pasted)


@pytest.mark.parametrize("given", ONE_RULE.values(), ids=ONE_RULE)
def test_a_rule_that_is_missing_is_one_failure_and_mended_by_its_line(redis: RedisServer, given: list[str]) -> None:
    make_user(redis, *given)
    assert mended(redis, settings(redis)) == 1


@pytest.mark.parametrize("given", SEVERAL_RULES.values(), ids=SEVERAL_RULES)
def test_rules_that_are_missing_are_mended_line_by_line(redis: RedisServer, given: list[str]) -> None:
    make_user(redis, *given)
    assert mended(redis, settings(redis)) > 0


def test_another_database_has_to_be_selected(redis: RedisServer) -> None:
    make_user(redis, *RULES, "-select", "allchannels")
    assert mended(redis, settings(redis, database=1)) == 1


def test_a_name_that_the_shell_would_take_apart_is_quoted(redis: RedisServer) -> None:
    make_user(redis, *RULES, "-info", name="x;id")
    (failure,) = failures(settings(redis, name="x;id"))
    assert shlex.split(failure.fix)[-4:] == ["ACL", "SETUSER", "x;id", "+info"]


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        pytest.param(USER, "wrong", "does not let user ann in, with the password of SEXTON_BROKER_URL", id="wrong"),
        pytest.param(USER, "", "does not let user ann in, with no password", id="missing"),
        pytest.param("nobody", "x", "does not let user nobody in", id="unknown user"),
    ],
)
def test_a_password_that_does_not_fit_is_no_server_to_be_started(
    redis: RedisServer, name: str, password: str, says: str
) -> None:
    make_user(redis, *RULES)
    (failure,) = failures(settings(redis, name=name, password=password))
    assert says in failure.found
    assert failure.fix.startswith(f"export SEXTON_BROKER_URL=redis://{name}:PASSWORD@127.0.0.1:")
    assert "wrong" not in failure.fix


@pytest.mark.parametrize("missing", ["-zrange", "-zremrangebyscore", "-llen", "~sexton:*", "~sexton.*"])
def test_queues_that_may_not_be_looked_at_are_no_second_failure(redis: RedisServer, missing: str) -> None:
    make_user(redis, *(rule for rule in RULES if rule != missing), *([missing] if missing[0] == "-" else []))
    found = {each.name: each for each in check_redis(settings(redis))}
    assert (found["permissions"].state, found["queues"].state) == (State.FAILED, State.SKIPPED)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with running_redis(tmp_path) as fresh:
        loaded = Settings.load(broker_url=fresh.url)
        list(check_redis(loaded))
        with closing(connect(loaded)) as client:
            assert list(client.scan_iter()) == []
