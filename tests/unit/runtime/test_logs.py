import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest

from runtime import logs
from runtime.settings import LogFormat
from tests.support.hints import message

Lines = Callable[[], list[str]]


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Iterator[Lines]:
    """Everything logged, in the format that the test is parametrised with."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    logs.configure("INFO", getattr(request, "param", LogFormat.JSON), stream)
    yield lambda: stream.getvalue().splitlines()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_has_an_action_and_the_fields_of_its_message(written: Lines) -> None:
    log = logging.getLogger("workers.test")
    log.info("wrote %d tombstones", 3, extra={"action": "recovered", **message().log_context()})
    (line,) = map(json.loads, written())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "action": "recovered",
        "message": "wrote 3 tombstones",
        "task": "recover",
        "composition": "apps/web",
        "uid": "uid-web",
        "synthesis": "s1",
    }


def test_a_traceback_stays_on_its_line(written: Lines) -> None:
    try:
        raise ValueError("oh\nno")
    except ValueError:
        logging.getLogger("workers.test").exception("crashed", extra={"action": "task-crashed"})
    (line,) = map(json.loads, written())
    assert "ValueError: oh" in line["traceback"]


def test_of_what_a_library_logs_only_the_first_line_is_kept(written: Lines) -> None:
    """Celery appends whole bodies to its messages, and puts arguments into the extras."""
    log = logging.getLogger("celery.worker.consumer.consumer")
    log.error("\nReceived something.\n\nThe full contents of the body was: s3cret", extra={"data": {"args": "s3cret"}})
    (line,) = map(json.loads, written())
    assert line["message"] == "Received something."
    assert line["logger"] == "celery.worker.consumer.consumer"
    assert "s3cret" not in json.dumps(line)


def test_celery_does_not_repeat_what_sexton_says_of_a_task(written: Lines) -> None:
    logging.getLogger("celery.app.trace").info("Task sexton.recover[1] succeeded")
    logging.getLogger("celery.worker.strategy").info("Task sexton.recover[1] received")
    assert written() == []


def test_a_field_without_an_end_is_cut(written: Lines) -> None:
    logging.getLogger("workers.test").info("", extra={"action": "a", "reason": "x" * 10_000})
    (line,) = map(json.loads, written())
    assert len(line["reason"]) == 2000


@pytest.mark.parametrize("written", [LogFormat.TEXT, LogFormat.JSON], indirect=True)
def test_nothing_that_is_logged_acts_on_a_terminal(written: Lines) -> None:
    hostile = "\x1b[2J\r\ntime info all-is-well \u202e\x9b\x85\u2028\ud800"
    log = logging.getLogger("workers.test")
    try:
        raise ValueError(hostile)
    except ValueError:
        log.exception("%s", hostile, extra={"action": hostile, "reason": hostile, "quoted": f'{hostile} "'})
    shown = written()
    assert not [line for line in shown if not line.isprintable() or line.startswith("time info")]


@pytest.mark.parametrize("written", [LogFormat.TEXT], indirect=True)
def test_people_get_text(written: Lines) -> None:
    extra = {"action": "task-ended", "outcome": "retry", "reason": 'not "there" yet', "until": ""}
    logging.getLogger("workers.test").warning("said\nso", extra=extra)
    (line,) = written()
    assert line.endswith(r'warning task-ended said so outcome=retry reason="not \"there\" yet"')
