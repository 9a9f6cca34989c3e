"""The page, the alerts and the dashboard of the metrics of a cluster name those that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nsq_anyio.instrumentation.prometheus import CLUSTER_METRICS, METRICS

DOCS = Path(__file__).parents[2] / "docs"
NAME = re.compile(r"\bnsq_[a-z0-9_]+")
SELECTOR = re.compile(r"\b(nsq_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
USED_LABEL = re.compile(r"\$labels\.(\w+)|\{\{(\w+)\}\}")
EXPORTED = {metric.name: metric for metric in CLUSTER_METRICS}
FROM_PROMETHEUS = {"instance", "job"}

NOT_SHOWN = {metric.name for metric in CLUSTER_METRICS if metric.name.startswith("nsq_client_")}
"""The dashboard leaves them out: they are there only if they are asked for."""


def alerts() -> list[dict[str, Any]]:
    loaded: dict[str, Any] = yaml.safe_load((DOCS / "prometheus-alerts.yml").read_text("utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCS / "grafana-cluster-dashboard.json").read_text("utf-8"))
    return loaded


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def targets() -> list[dict[str, Any]]:
    return [target for panel in panels() for target in panel["targets"]]


def expressions() -> list[str]:
    queries = [each["query"] for each in dashboard()["templating"]["list"]]
    variables: list[str] = [query if isinstance(query, str) else query["query"] for query in queries]
    return [
        *(alert["expr"] for alert in alerts()),
        *(target["expr"] for target in targets()),
        *(variable for variable in variables if "nsq_" in variable),
    ]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    grouped = {label.strip() for group in GROUPING.findall(expression) for label in group.split(",")}
    found = SELECTOR.findall(expression)
    assert found
    for name, selector in found:
        assert set(LABEL.findall(selector)) <= {*EXPORTED[name].labels, *FROM_PROMETHEUS}, name
    assert grouped <= FROM_PROMETHEUS.union(*(EXPORTED[name].labels for name, _ in found))
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("expression", expressions())
def test_counters_are_shown_as_rates_and_gauges_are_not(expression: str) -> None:
    for name in NAME.findall(expression):
        is_rated = re.search(rf"(?:rate|increase)\({name}\b", expression) is not None
        assert is_rated == (EXPORTED[name].kind == "counter")


def test_the_alerts_have_what_prometheus_wants() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names)
    for alert in alerts():
        assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Nsq[A-Za-z]+", alert["alert"])
        assert re.fullmatch(r"\d+[smh]", alert.get("for", "1m"))
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_the_texts_of_an_alert_use_labels_that_its_expression_keeps(alert: dict[str, Any]) -> None:
    used = {found[0] for found in USED_LABEL.findall(" ".join(alert["annotations"].values()))}
    grouped = re.findall(r"\bby \(([^)]*)\)", alert["expr"])
    name = NAME.findall(alert["expr"])[0]
    kept = {label.strip() for group in grouped for label in group.split(",")} or set(EXPORTED[name].labels)
    assert used <= kept


def test_each_metric_is_on_the_dashboard() -> None:
    shown = {name for target in targets() for name in NAME.findall(target["expr"])}
    assert EXPORTED.keys() - shown == NOT_SHOWN


def test_each_legend_names_labels_that_its_query_keeps() -> None:
    for target in targets():
        kept = {label.strip() for group in GROUPING.findall(target["expr"]) for label in group.split(",")}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) == kept, target["expr"]


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_names_follow_the_conventions_of_prometheus() -> None:
    names = [metric.name for metric in (*CLUSTER_METRICS, *METRICS)]
    assert len(set(names)) == len(names)
    for metric in CLUSTER_METRICS:
        assert re.fullmatch(r"nsq_[a-z]+(_[a-z0-9]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind in {"counter", "gauge", "summary"}
        assert metric.help.endswith(".")
        for word, unit in (("duration", "_seconds"), ("time", "_seconds"), ("depth", "_messages")):
            if f"_{word}_" in f"{metric.name}_":
                assert metric.name.endswith(unit)


def test_the_page_lists_each_metric() -> None:
    page = (DOCS / "commands" / "exporter.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `nsq_")]
    labels = {metric: ", ".join(f"`{label}`" for label in metric.labels) for metric in CLUSTER_METRICS}
    assert rows == [
        f"| `{metric.name}` | {metric.kind} | {labels[metric]} | {metric.help} |".replace("|  |", "| |")
        for metric in CLUSTER_METRICS
    ]
