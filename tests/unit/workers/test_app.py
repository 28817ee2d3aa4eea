import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery, current_app

from eno.errors import UsageError
from tests.support.hints import settings
from workers.app import create_app
from workers.refusal import one_line_errors

ROOT = Path(__file__).parents[3]


def celery(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "workers", *arguments],
        env={"PATH": "/usr/bin:/bin"} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_importing_the_package_reads_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_BURST", "not a number")
    importlib.reload(importlib.import_module("workers"))


def test_making_an_application_affects_no_other() -> None:
    before = current_app._get_current_object()
    create_app(settings())
    assert current_app._get_current_object() is before
    with Celery("another", set_as_current=False) as another:
        assert "sexton.recover" not in another.tasks


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task_acks_late", True),
        ("task_reject_on_worker_lost", True),
        ("worker_prefetch_multiplier", 1),
        ("worker_disable_prefetch", True),
        ("accept_content", ["json"]),
        ("task_serializer", "json"),
        ("task_ignore_result", True),
        ("worker_send_task_events", True),
        ("task_send_sent_event", True),
        ("task_create_missing_queues", False),
        ("task_time_limit", 300),
        ("task_soft_time_limit", 240),
        ("worker_soft_shutdown_timeout", 60),
        ("broker_connection_retry_on_startup", True),
        ("broker_connection_max_retries", None),
        ("worker_cancel_long_running_tasks_on_connection_loss", False),
        ("worker_consumer", "workers.app:GuardedConsumer"),
    ],
)
def test_configuration(name: str, value: object) -> None:
    assert create_app(settings()).conf[name] == value


def test_a_message_is_given_out_again_after_the_time_that_the_settings_say() -> None:
    options = create_app(settings(visibility_timeout=1000)).conf.broker_transport_options
    assert options["visibility_timeout"] == 1000


def test_a_refusal_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, one_line_errors():
        raise UsageError("cannot be used", where="settings")
    assert caught.value.code == 2
    assert capsys.readouterr().err == "sexton: settings: cannot be used\n"


def test_time_limits_hold_for_every_task() -> None:
    task = create_app(settings(task_time_limit=20, task_soft_time_limit=10)).tasks["sexton.recover"]
    assert (task.time_limit, task.soft_time_limit) == (20, 10)
    assert task.acks_late
    assert task.reject_on_worker_lost


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        pytest.param(
            {"SEXTON_ENABLE_TOMBSTONE_RECOVERY": "true"}, "tombstone recovery needs POD_NAMESPACE", id="no namespace"
        ),
        pytest.param({}, "no namespace to look after", id="nothing to look after"),
        pytest.param(
            {"POD_NAMESPACE": "apps", "SEXTON_VISIBILITY_TIMEOUT": "300"},
            "SEXTON_VISIBILITY_TIMEOUT must be more than SEXTON_TASK_TIME_LIMIT",
            id="messages that come back while they are worked on",
        ),
        pytest.param(
            {"POD_NAMESPACE": "apps", "SEXTON_KUBECONFIG": "/does/not/exist"},
            "kubeconfig /does/not/exist: no such file",
            id="no kubeconfig",
        ),
    ],
)
def test_a_worker_refuses_to_start_with_one_line(environment: dict[str, str], complaint: str) -> None:
    refused = celery("worker", **environment)
    assert refused.returncode == 2
    lines = [line for line in refused.stderr.splitlines() if line.startswith("sexton: ")]
    assert len(lines) == 1
    assert complaint in lines[0]
    assert "Traceback" not in refused.stderr
