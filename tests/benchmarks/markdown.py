"""A run, as the Markdown tables of docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .contenders import BARE, GO, OURS, PEERS
from .report import number
from .results import Run
from .targets import ON, Verdict
from .workloads import WORKLOADS

__all__ = ["write_markdown"]


def write_markdown(run: Run, verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the medians beside go-nsq's, the peers', and the targets."""
    parts = [_comparison(run), _peers(run), _targets(verdicts)]
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def _comparison(run: Run) -> str:
    rows: list[Sequence[str]] = []
    for workload in WORKLOADS:
        for metric in workload.metrics if workload.name in run.workloads() else ():
            what = workload.title if metric.key == "rate" else f"{workload.title}: {metric.title}"
            medians = (run.spread(workload.name, name, metric.key) for name in (*ON, GO.name))
            ratios = (run.ratios(workload.name, metric.key, name, GO.name) for name in ON)
            rows.append(
                [
                    f"{what}, {metric.unit}",
                    *(number(found.median) if found else "" for found in medians),
                    *(
                        f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})" if found else ""
                        for found in ratios
                    ),
                ]
            )
    return _table(["workload", "asyncio", "Trio", "go-nsq", "asyncio / go-nsq", "Trio / go-nsq"], rows)


def _peers(run: Run) -> str:
    names = [each.name for each in (*OURS, GO, *PEERS, BARE)]
    rows: list[Sequence[str]] = []
    for workload in WORKLOADS:
        found = {name: run.spread(workload.name, name, "rate") for name in names}
        if any(found[each.name] for each in (*PEERS, BARE)):
            rows.append(
                [workload.title, *(number(spread.median) if spread else "" for spread in found.values())]
            )
    return _table(["msg/s", *names], rows)


def _targets(verdicts: Sequence[Verdict]) -> str:
    rows = [
        [
            verdict.target.workload,
            verdict.target.metric,
            str(verdict.target),
            verdict.contender.removeprefix("nsq-anyio, "),
            number(verdict.found.median) if verdict.found else "",
            {True: "yes", False: "**no**", None: "not measured"}[verdict.holds],
        ]
        for verdict in verdicts
    ]
    return _table(["workload", "figure", "target", "on", "found", "holds"], rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(row) for row in (header, ["---"] * len(header), *rows)]
    return "\n".join(f"| {line} |" for line in lines) if len(lines) > 2 else ""
