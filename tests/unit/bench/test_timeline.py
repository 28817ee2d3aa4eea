"""What is read from the API server's timeline: whole lines, once each, and the instants that matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.timeline import Entry, Log, Timeline, decisions, first_requests


def entry(at: float = 1.0, **fields: Any) -> Entry:
    usual = {"agent": "worker/1", "verb": "get", "resource": "compositions", "name": "a"}
    return Entry(**{**usual, "code": 200, "received": 0, "sent": 10, "at": at, **fields})


def decided(at: float, **fields: Any) -> Entry:
    return entry(at, verb="patch", resource="compositions/status", **fields)


def test_what_was_noted_is_read_once(tmp_path: Path) -> None:
    log, timeline = Log(tmp_path / "log"), Timeline(tmp_path / "log")
    assert timeline.advance() == []
    log.note(entry(1.0))
    assert timeline.advance() == [entry(1.0)]
    log.note(entry(2.0))
    log.close()
    assert timeline.advance() == [entry(2.0)]
    assert timeline.advance() == []
    assert timeline.entries == [entry(1.0), entry(2.0)]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log, timeline = Log(path), Timeline(path)
    log.note(entry())
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert timeline.advance() == []
    path.write_bytes(whole)
    assert timeline.advance() == [entry()]


def test_requests_are_told_apart_by_user_agent(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path / "log")
    timeline.entries = [entry(), entry(agent="watcher/1")]
    assert timeline.by("worker/") == [entry()]


def test_the_first_decision_counts_and_a_refused_one_does_not() -> None:
    found = decisions([decided(1.0, code=422), decided(2.0), decided(3.0), decided(4.0, name="b"), entry(0.5)])
    assert found == {"a": 2.0, "b": 4.0}


def test_the_first_look_at_a_composition_counts() -> None:
    found = first_requests([decided(0.5), entry(1.0), entry(2.0), entry(1.5, resource="resourceslices", name="s")])
    assert found == {"a": 1.0}
