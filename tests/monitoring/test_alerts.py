"""Alerts, their cases and runbooks, and the dashboard: nothing in them that is not there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.election import Timing
from kube.lease import Candidate
from runtime.backlog import BacklogCollector, BacklogReader
from tests.monitoring.promtool import promtool
from tests.monitoring.rules import (
    CASES,
    DASHBOARD,
    MONITORING,
    PROMETHEUS_RULE,
    RULES,
    RUNBOOKS,
    alerts,
    prometheus_rule,
)
from tests.support.assets import find_assets
from tests.support.hints import Hints, settings
from tests.support.worker import ROOT
from tests.support.world import World
from watcher.metrics import WatcherCollector
from watcher.process import assemble
from workers.app import create_app

ALERTS = alerts()
NAMES = [alert["alert"] for alert in ALERTS]
METRIC = re.compile(r"\bsexton_[a-z_]+\b")


@cache
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Title and expression of every target of the dashboard, with Grafana's own variables filled in."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$namespace", ".*")


def test_the_object_for_the_operator_is_made_of_the_rules() -> None:
    assert PROMETHEUS_RULE.read_text(encoding="utf-8") == prometheus_rule(), "python -m tests.monitoring.rules"
    assert yaml.safe_load(prometheus_rule())["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))


def test_prometheus_takes_the_rules() -> None:
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    tested = promtool("test", "rules", CASES)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(name: str) -> None:
    tests = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"] if case["alertname"] == name]
    assert [case for case in cases if case["exp_alerts"]], "one fires"
    assert [case for case in cases if not case["exp_alerts"]], "one does not"


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alert_says_how_bad_it_is_what_it_means_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["runbook_url"] == f"docs/operations.md#{alert['alert'].lower()}"


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    text = RUNBOOKS.read_text(encoding="utf-8")
    sections = re.findall(r"^### (\S+)$", text.partition("## Runbooks")[2], re.MULTILINE)
    assert sorted(sections) == sorted(NAMES)
    linked = re.findall(r"\(#(sexton\w+)\)", text)
    assert set(linked) <= {name.lower() for name in NAMES}


@cache
def exported() -> set[str]:
    """The metrics of a worker and of a watcher, by the names under which they are asked for."""
    world, configured = World(), settings()
    candidate = Candidate(world.up, "apps", "lease", Timing(15, 10, 2), identity="a test")
    watcher = assemble(configured, configured.scope, world.up, world.down, Hints().dispatcher, candidate)
    leader = BacklogCollector(BacklogReader.connect(configured), lambda: True)
    worker = create_app(configured).monitor.registry
    names = set()
    for family in (*worker.collect(), *WatcherCollector(watcher).collect(), *leader.describe()):
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum", ""]}
        names.update(f"{family.name}{end}" for end in ends.get(family.type, [""]))
    return names


@pytest.mark.parametrize("path", [RULES, DASHBOARD, RUNBOOKS, CASES], ids=lambda path: path.name)
def test_every_metric_that_is_named_is_exported(path: Path) -> None:
    named = set(METRIC.findall(path.read_text(encoding="utf-8")))
    assert named
    assert named - exported() == set()


def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"dashboard:panel:{index}", "expr": expression}
        for index, (_, expression) in enumerate(expressions())
    ]
    path = tmp_path / "dashboard.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    checked = promtool("check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_the_dashboard_takes_any_data_source_and_namespace() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for panel in panels():
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            selectors = re.findall(r"sexton_\w+(\{[^}]*\})?", target["expr"])
            assert all('namespace=~"$namespace"' in selector for selector in selectors), panel["title"]


def test_the_panels_are_told_apart_explained_and_do_not_overlap() -> None:
    ids = Counter(panel["id"] for panel in dashboard()["panels"])
    assert max(ids.values()) == 1
    assert all(panel["title"] and panel["description"] for panel in panels())
    cells = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard()["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 24


def test_the_component_renders_beside_the_base(tmp_path: Path) -> None:
    assets = find_assets(os.environ)
    kubectl = str(assets / "kubectl") if assets else shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine")
    up = os.path.relpath(ROOT, tmp_path.resolve())
    kustomization = {"resources": [f"{up}/deploy/base"], "components": [f"{up}/{MONITORING.relative_to(ROOT)}"]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(kustomization), encoding="utf-8")
    rendered = subprocess.run(
        [kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert rendered.returncode == 0, rendered.stderr
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(rendered.stdout)}
    assert objects["PrometheusRule", "sexton"]["spec"]["groups"]
    assert json.loads(objects["ConfigMap", "sexton-dashboard"]["data"]["sexton.json"]) == dashboard()
    endpoint = objects["PodMonitor", "sexton"]["spec"]["podMetricsEndpoints"][0]
    for component in ("watcher", "worker"):
        (container,) = objects["Deployment", f"sexton-{component}"]["spec"]["template"]["spec"]["containers"]
        assert endpoint["port"] in [port["name"] for port in container["ports"]]
