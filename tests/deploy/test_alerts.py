"""Each alert asks for metrics that there are, in PromQL that parses, and says where the operator reads on."""

import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
METRICS = dict(re.findall(r"^\| `(hourwheel_\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_asks_for_what_a_node_shows(rule: dict[str, Any]) -> None:
    """Its names are in the table that a test compares with a node's own; only histograms have buckets."""
    promql_parser.parse(rule["expr"])
    names = re.findall(r"\bhourwheel_\w+", re.sub(r'"[^"]*"', "", rule["expr"]))
    assert names or "up{" in rule["expr"]
    for name in names:
        base = name.removesuffix("_bucket")
        assert base in METRICS, name
        assert name == base or METRICS[base] == "histogram"


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """How urgent it is, one sentence, and a place in docs/operating.md."""
    assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"].lower() in PAGE.replace("`", "").lower()


def test_alerts_are_tested() -> None:
    """promtool plays deploy/alerts_test.yml in `make check`; what pages because a cluster is down is among it."""
    played = (ROOT / "deploy" / "alerts_test.yml").read_text(encoding="utf-8")
    assert {"HourwheelNoLeader", "HourwheelNodeDown", "HourwheelLate"} <= set(re.findall(r"alertname: (\w+)", played))
