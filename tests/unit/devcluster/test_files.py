"""What the server writes to disk, and how it refuses to start."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
import yaml

from devcluster.__main__ import main
from devcluster.audit import AuditLog, Entry, read_entries
from devcluster.kubeconfig import write_kubeconfig
from eno.errors import UsageError

ENTRY = Entry("2026-01-31T12:00:00Z", "sexton/1", "get", "", "secrets", "", "default", "a", 200, 0, 17)


def test_a_kubeconfig_is_complete_private_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    for port in (1, 2):
        write_kubeconfig(path, f"http://127.0.0.1:{port}")
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:2"}
    assert config["current-context"] == config["contexts"][0]["name"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["kubeconfig"]


def test_a_kubeconfig_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write_kubeconfig(tmp_path / "missing" / "kubeconfig", "http://127.0.0.1:1")


def test_the_audit_log_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        log = AuditLog(path)
        log(ENTRY)
        log.close()
    assert read_entries(path) == [ENTRY, ENTRY]
    assert path.read_text().splitlines()[0] == (
        '{"time":"2026-01-31T12:00:00Z","userAgent":"sexton/1","verb":"get","group":"","resource":"secrets",'
        '"subresource":"","namespace":"default","name":"a","code":200,"bytesIn":0,"bytesOut":17}'
    )


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log(ENTRY)
    log.close()
    path.write_bytes(path.read_bytes() + b'{"time":"2026')
    assert read_entries(path) == [ENTRY]


def test_a_taken_port_is_an_error_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"127.0.0.1:{port}" in line


def test_missing_definitions_are_an_error_on_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--crds", str(tmp_path / "missing")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "missing") in line


@pytest.mark.parametrize("option", ["--audit-log", "--kubeconfig"])
def test_a_file_that_cannot_be_written_is_an_error_on_one_line(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, str(tmp_path / "missing" / "file")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "missing" in line
