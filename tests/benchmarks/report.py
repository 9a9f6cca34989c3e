"""A run, as tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .contenders import GO
from .results import Run, Spread
from .targets import Verdict
from .workloads import WORKLOADS, Metric

__all__ = ["number", "print_run"]


def print_run(console: Console, run: Run, verdicts: list[Verdict]) -> None:
    """Print a table for each workload, then the targets, then what went wrong."""
    done = run.workloads()
    for workload in WORKLOADS:
        if workload.name in done:
            for metric in workload.metrics:
                console.print(_table(run, workload.name, workload.title, metric))
    if verdicts:
        console.print(_targets(verdicts))
    for name, reason in run.unavailable.items():
        console.print(f"[yellow]{name} took no part:[/] {reason}")
    for failure in run.failures:
        console.print(f"[red]{failure.contender} failed at {failure.workload}:[/] {failure.reason}")


def _table(run: Run, workload: str, title: str, metric: Metric) -> Table:
    table = Table(title=f"{workload}: {title}; {metric.title}", title_justify="left")
    table.add_column("client", no_wrap=True)
    table.add_column(metric.unit, justify="right")
    table.add_column("low to high", justify="right", no_wrap=True)
    table.add_column("x go-nsq", justify="right")
    if metric.key == "rate":
        table.add_column("CPU µs/msg", justify="right")
    table.add_column("peak MiB", justify="right")
    for contender in run.contenders(workload):
        figures = run.spread(workload, contender, metric.key)
        ratio = run.ratios(workload, metric.key, contender, GO.name)
        cells = [
            _median(figures),
            f"{number(figures.low)} to {number(figures.high)}" if figures else "-",
            f"{ratio.median:.2f}" if ratio else "-",
            *([_median(run.spread(workload, contender, "cpu_us"))] if metric.key == "rate" else []),
            _median(run.spread(workload, contender, "peak_rss")),
        ]
        table.add_row(contender, *cells)
    return table


def _targets(verdicts: list[Verdict]) -> Table:
    table = Table(title="Targets", title_justify="left")
    for name in ("workload", "figure", "target", "client"):
        table.add_column(name, no_wrap=True)
    table.add_column("found", justify="right")
    table.add_column("low to high", justify="right", no_wrap=True)
    table.add_column("holds")
    for verdict in verdicts:
        found = verdict.found
        table.add_row(
            verdict.target.workload,
            verdict.target.metric,
            str(verdict.target),
            verdict.contender,
            f"{found.median:.2f}" if found else "-",
            f"{found.low:.2f} to {found.high:.2f}" if found else "-",
            {True: "[green]yes[/]", False: "[red]NO[/]", None: "-"}[verdict.holds],
        )
    return table


def _median(spread: Spread | None) -> str:
    return number(spread.median) if spread else "-"


def number(value: float) -> str:
    """Return a figure with what digits tell something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
