"""The Grafana dashboard uses the metrics and labels that the collector exports, all of them and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nsq_anyio.instrumentation.prometheus import METRICS, Metric

DASHBOARD = Path(__file__).parent.parent.parent / "docs" / "grafana-dashboard.json"
NAME = re.compile(r"\bnsq_[a-z0-9_]+")
SELECTOR = re.compile(r"\b(nsq_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
EXPORTED = {f"{metric.name}{suffix}": metric for metric in METRICS for suffix in SUFFIXES[metric.kind]}

NOT_SHOWN: set[str] = set()
"""Metrics that the dashboard leaves out on purpose."""

FROM_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds."""


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return loaded


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    variables = [each["query"] for each in dashboard()["templating"]["list"]]
    texts: list[str] = [query if isinstance(query, str) else query["query"] for query in variables]
    return texts + [target["expr"] for panel in panels() for target in panel["targets"]]


def labels_of(metric: Metric) -> set[str]:
    return {*metric.labels, *FROM_PROMETHEUS, *(["le"] if metric.kind == "histogram" else [])}


def test_each_metric_of_the_dashboard_exists() -> None:
    used = {name for query in queries() for name in NAME.findall(query)}
    assert used
    assert used - set(EXPORTED) == set()


def test_each_metric_that_is_exported_is_on_the_dashboard() -> None:
    shown = {
        EXPORTED[name].name
        for panel in panels()
        for each in panel["targets"]
        for name in NAME.findall(each["expr"])
    }
    assert {metric.name for metric in METRICS} - shown == NOT_SHOWN


@pytest.mark.parametrize("query", queries())
def test_each_label_of_a_query_is_one_of_its_metrics(query: str) -> None:
    grouped = {label.strip() for group in GROUPING.findall(query) for label in group.split(",")}
    for name, selector in SELECTOR.findall(query):
        if name not in EXPORTED:
            continue  # a name within a pattern of names
        known = labels_of(EXPORTED[name])
        assert set(LABEL.findall(selector)) - known == set(), name
        assert grouped - known == set(), name


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_each_legend_names_labels_that_its_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        kept = {label.strip() for group in GROUPING.findall(target["expr"]) for label in group.split(",")}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) == kept - {"le"}


def test_counters_are_shown_as_rates_and_gauges_are_not() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for name in NAME.findall(target["expr"]):
                rated = re.search(rf"(?:rate|increase)\({name}\b", target["expr"]) is not None
                assert rated == (EXPORTED[name].kind != "gauge"), target["expr"]


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_names_follow_the_conventions_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"nsq_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")
        assert set(metric.labels) <= {"topic", "channel", "nsqd", "outcome", "event"}
        for word, unit in (("duration", "_seconds"), ("_delay_", "_seconds"), ("bytes", "_bytes")):
            if word in metric.name:
                assert metric.name.removesuffix("_total").endswith(unit)


def test_the_documentation_lists_each_metric() -> None:
    page = (DASHBOARD.parent / "prometheus.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `nsq_")]
    labels = {metric: ", ".join(f"`{label}`" for label in metric.labels) for metric in METRICS}
    assert rows == [
        f"| `{metric.name}` | {metric.kind} | {labels[metric]} | {metric.help} |".replace("|  |", "| |")
        for metric in METRICS
    ]
