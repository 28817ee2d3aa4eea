"""The alert rules, and the same as an object for the Prometheus operator. Run as a program, it writes the latter."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from tests.support.worker import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
RULES = MONITORING / "rules.yaml"
PROMETHEUS_RULE = MONITORING / "prometheus-rule.yaml"
DASHBOARD = MONITORING / "dashboard.json"
RUNBOOKS = ROOT / "docs" / "operations.md"
CASES = Path(__file__).parent / "alerts.yaml"

_HEAD = """\
# Made of rules.yaml, which is the one to change: python -m tests.monitoring.rules
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: sexton
  labels: {app.kubernetes.io/part-of: sexton}
spec:
"""


def prometheus_rule() -> str:
    """What PROMETHEUS_RULE has to hold."""
    lines = RULES.read_text(encoding="utf-8").splitlines(keepends=True)
    return _HEAD + indent("".join(line for line in lines if not line.startswith("#")), "  ")


def alerts() -> list[dict[str, Any]]:
    """Every alert of every group."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


if __name__ == "__main__":
    PROMETHEUS_RULE.write_text(prometheus_rule(), encoding="utf-8")
