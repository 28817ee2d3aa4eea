"""What is counted: names and labels that dashboards rely on, and no label without an end."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from prometheus_client import CollectorRegistry

from runtime.metrics import (
    API_FAMILIES,
    API_REQUEST_SECONDS,
    API_REQUESTS,
    TASK_SECONDS,
    TASKS,
    TOMBSTONES,
    WORKER_FAMILIES,
    Metrics,
    Unmetered,
    add_build_info,
    observe_requests,
)

ENDLESS = {"composition", "namespace", "name", "uid", "synthesis", "slice", "secret", "path", "message", "reason_text"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_counters_add_up_and_histograms_observe(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry, WORKER_FAMILIES)
    metrics.record(TASKS, 1, "recover", "done")
    metrics.record(TASKS, 2, "recover", "done")
    metrics.record(TOMBSTONES, 21)
    metrics.record(TASK_SECONDS, 0.2, "recover")
    assert registry.get_sample_value("sexton_tasks_total", {"task": "recover", "outcome": "done"}) == 3
    assert registry.get_sample_value("sexton_tombstones_written_total") == 21
    assert registry.get_sample_value("sexton_task_duration_seconds_sum", {"task": "recover"}) == 0.2
    assert registry.get_sample_value("sexton_task_duration_seconds_bucket", {"task": "recover", "le": "0.25"}) == 1
    assert registry.get_sample_value("sexton_task_duration_seconds_bucket", {"task": "recover", "le": "0.1"}) == 0


def test_counters_without_labels_are_there_from_the_start(registry: CollectorRegistry) -> None:
    """A rate over a series that begins with its first event misses that event."""
    Metrics(registry, WORKER_FAMILIES)
    assert registry.get_sample_value("sexton_mass_burials_total") == 0


def test_nobody_who_is_not_asked_counts() -> None:
    Unmetered().record(TASKS, 1, "recover", "done")


@pytest.mark.parametrize(
    ("status", "code"), [pytest.param(409, "409", id="an answer"), pytest.param(None, "none", id="no answer")]
)
def test_a_request_is_counted_by_its_status(registry: CollectorRegistry, status: int | None, code: str) -> None:
    observe_requests(Metrics(registry, API_FAMILIES))("patch", "compositions", status, 0.5)
    labels = {"verb": "patch", "resource": "compositions"}
    assert registry.get_sample_value(API_REQUESTS.name, labels | {"code": code}) == 1
    assert registry.get_sample_value(f"{API_REQUEST_SECONDS.name}_sum", labels) == 0.5


def test_the_version_is_told(registry: CollectorRegistry) -> None:
    add_build_info(registry, "watcher")
    (metric,) = registry.collect()
    (sample,) = metric.samples
    assert (sample.name, sample.value) == ("sexton_build_info", 1)
    assert (sample.labels["version"], sample.labels["component"]) == (version("sexton"), "watcher")


@pytest.mark.parametrize("family", WORKER_FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions_and_no_label_is_endless(family: object) -> None:
    name, labels, buckets = family.name, family.labels, family.buckets  # type: ignore[attr-defined]
    assert name.startswith("sexton_")
    assert name.endswith("_seconds" if buckets else "_total")
    assert not ENDLESS & set(labels)
