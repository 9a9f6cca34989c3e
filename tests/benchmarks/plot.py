"""A run, as an SVG for the documentation: one panel for each question."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .contenders import BARE, CONTENDERS, GO, NSQ_TO_HTTP, OURS
from .results import Run, Setting, number
from .workloads import WORKLOADS, Workload

__all__ = ["draw"]

COLUMNS = 2
_OURS, _REFERENCE, _BARE, _PEER = "#2f6fb0", "#d08a2e", "#707070", "#b8b8b8"
_PALE = 0.5
"""How much paler the bars of the second pinning are."""
_BAR, _GAP = 0.26, 0.9  # inches: a bar with its space, and what a panel has above and below them
# Text as text, so that it can be found and read aloud; the same identifiers at each drawing of the same run.
_SETTINGS: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nsq-anyio", "font.size": 9}


def draw(run: Run, path: Path) -> None:
    """Write the medians on the interpreter that is judged by: a bar for each pinning.

    A line reaches from the lowest to the highest of all rounds.
    """
    # Imported here, so that measuring needs no matplotlib; untyped, since its own types are partly unknown.
    matplotlib: Any = importlib.import_module("matplotlib")
    figures: Any = importlib.import_module("matplotlib.figure")
    python = run.pythons()[0]
    done = {name for name in run.workloads() if any(each.python == python for each in run.settings(name))}
    workloads = [workload for workload in WORKLOADS if workload.name in done]
    rows = [workloads[first : first + COLUMNS] for first in range(0, len(workloads), COLUMNS)]
    heights = [max(_bars(run, workload, python) for workload in row) * _BAR + _GAP for row in rows]
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(figsize=(6.5 * COLUMNS, sum(heights)), layout="constrained")
        grid = figure.subplots(len(rows), COLUMNS, squeeze=False, height_ratios=heights)
        axes = list(grid.flat)
        for axis, workload in zip(axes, workloads, strict=False):
            _panel(axis, run, workload, python)
        for axis in axes[len(workloads) :]:
            axis.set_axis_off()
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None, "Title": f"Benchmarks of nsq-anyio on CPython {python}"}
        figure.savefig(path, format="svg", metadata=metadata)


def _bars(run: Run, workload: Workload, python: str) -> int:
    return sum(
        len(run.contenders(workload.name, setting))
        for setting in run.settings(workload.name)
        if setting.python == python
    )


def _panel(axis: Any, run: Run, workload: Workload, python: str) -> None:
    metric = workload.metrics[0]
    settings = [setting for setting in run.settings(workload.name) if setting.python == python]
    taking_part = {name for setting in settings for name in run.contenders(workload.name, setting)}
    contenders = [each for each in CONTENDERS if each.name in taking_part]
    thickness = 0.8 / len(settings)
    highest = 0.0
    for place, setting in enumerate(settings):
        offset = (place - (len(settings) - 1) / 2) * thickness
        for row, contender in enumerate(contenders):
            spread = run.spread(workload.name, setting, contender.name, metric)
            if spread is None:
                continue
            highest = max(highest, spread.high)
            error = [[spread.median - spread.low], [spread.high - spread.median]]
            bar = axis.barh(
                row + offset,
                spread.median,
                thickness,
                xerr=error,
                color=_colour(contender.name),
                alpha=1 - _PALE * place,
                error_kw={"ecolor": "#303030", "elinewidth": 1},
            )
            axis.bar_label(bar, [f" {number(spread.median)}{_short(setting, settings)}"], padding=4)
    axis.set_yticks(range(len(contenders)), [contender.title for contender in contenders])
    axis.invert_yaxis()
    unit = f"{metric.title} {metric.unit}".strip()
    axis.set_title(f"{workload.title}\n{unit}, {metric.better} is better", loc="left", fontsize=10)
    axis.set_xlim(0, (highest or 1) * 1.35)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "bottom"]].set_visible(False)


def _short(setting: Setting, settings: list[Setting]) -> str:
    """Return what is written beside a bar where there are several pinnings."""
    return f" ({setting.pinning})" if len(settings) > 1 else ""


def _colour(name: str) -> str:
    if name in {contender.name for contender in OURS}:
        return _OURS
    return {GO.name: _REFERENCE, NSQ_TO_HTTP.name: _REFERENCE, BARE.name: _BARE}.get(name, _PEER)
