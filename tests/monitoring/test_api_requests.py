"""Requests to an API server are counted as they go over the wire, by verb, resource and status."""

from __future__ import annotations

from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from eno.errors import ApiError
from kube.cluster import Query
from kube.config import Connection
from kube.http import HttpCluster, Timeouts
from kube.limits import RateLimits
from kube.requests import Request, create, delete, get, json_patch, list_page, merge_patch, update, watch
from kube.resources import COMPOSITIONS, SECRETS
from runtime.metrics import API_FAMILIES, Metrics, observe_requests
from tests.support.wire import Answer, Do, Wire, answer

OBJECT = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": {"name": "shop"}}


def counted(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    """Requests by verb, resource and code."""
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    return {
        (sample.labels["verb"], sample.labels["resource"], sample.labels["code"]): sample.value
        for sample in samples
        if sample.name == "sexton_api_requests_total"
    }


@pytest.mark.parametrize(
    ("answers", "codes"),
    [
        pytest.param([answer(OBJECT)], {"200": 1}, id="an answer"),
        pytest.param([answer({}, status=404)], {"404": 1}, id="a refusal"),
        pytest.param([[Do.RESET], [Do.RESET]], {"none": 2}, id="no answer, and none to a second request"),
        pytest.param([[Do.HANG]], {"none": 1}, id="silence"),
        pytest.param([answer({}, status=401), answer(OBJECT)], {"401": 1, "200": 1}, id="sent again after a 401"),
    ],
)
def test_each_request_is_counted_once(answers: list[Answer], codes: dict[str, float]) -> None:
    registry = CollectorRegistry()
    with Wire(*answers) as wire:
        connection = Connection(wire.url, reload=lambda: Connection(wire.url))
        cluster = HttpCluster(
            connection,
            user_agent="sexton/test",
            timeouts=Timeouts(connect=1.0, read=0.5),
            observe=observe_requests(Metrics(registry, API_FAMILIES)),
        )
        with suppress(ApiError):
            cluster.get(COMPOSITIONS, "apps", "shop")
        cluster.close()
    assert counted(registry) == {("get", "compositions", code): times for code, times in codes.items()}


def test_waiting_for_a_rate_limit_is_no_slow_request() -> None:
    registry = CollectorRegistry()
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with Wire(answer(OBJECT), answer(OBJECT)) as wire:
        cluster = HttpCluster(
            Connection(wire.url),
            user_agent="sexton/test",
            limits=RateLimits(requests_per_second=0.1, burst=1),
            observe=observe_requests(Metrics(registry, API_FAMILIES)),
            clock=lambda: now[0],
            sleep=sleep,
        )
        for _ in range(2):
            cluster.get(COMPOSITIONS, "apps", "shop")
        cluster.close()
    assert now[0] >= 9
    labels = {"verb": "get", "resource": "compositions"}
    assert registry.get_sample_value("sexton_api_request_duration_seconds_sum", labels) == 0


@pytest.mark.parametrize(
    ("request_", "verb"),
    [
        (get(SECRETS, "ns", "a", metadata_only=False), "get"),
        (list_page(Query(SECRETS), limit=5, continue_token=""), "list"),
        (watch(Query(SECRETS), resource_version="5", timeout_seconds=5), "watch"),
        (create(SECRETS, "ns", {"metadata": {"name": "a"}}), "create"),
        (update(SECRETS, "ns", "a", {}, subresource=""), "update"),
        (json_patch(SECRETS, "ns", "a", [], subresource="status", strict=False), "patch"),
        (merge_patch(SECRETS, "ns", "a", {}, subresource=""), "patch"),
        (delete(SECRETS, "ns", "a", uid=None, resource_version=None), "delete"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_verbs_are_those_of_permissions(request_: Request, verb: str) -> None:
    assert request_.verb == verb
