"""A run, as an SVG for the documentation: one panel of bars for each workload."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

from .contenders import BARE, CONTENDERS, GO, OURS
from .report import number
from .results import Run
from .workloads import WORKLOADS, Metric

__all__ = ["draw"]

COLUMNS = 3
_OURS_COLOUR, _GO_COLOUR, _PEER_COLOUR, _BARE_COLOUR = "#2f6fb0", "#5fb6c9", "#b8b8b8", "#707070"
# Text as text, so that it can be found and read aloud; the same identifiers at each drawing of the same run.
_SETTINGS: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nsq-anyio", "font.size": 8}


def draw(run: Run, path: Path) -> None:
    """Write the medians, with the lowest and the highest of all rounds as a line."""
    # Imported here, so that measuring needs no matplotlib; untyped, since its own types are partly unknown.
    matplotlib: Any = importlib.import_module("matplotlib")
    figures: Any = importlib.import_module("matplotlib.figure")
    done = run.workloads()
    panels = [
        (workload.name, workload.title, metric)
        for workload in WORKLOADS
        if workload.name in done
        for metric in workload.metrics
    ]
    rows = math.ceil(len(panels) / COLUMNS)
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(figsize=(5 * COLUMNS, 2.4 * rows), layout="constrained")
        grid = figure.subplots(rows, COLUMNS, squeeze=False)
        axes = list(grid.flat)
        for axis, (workload, title, metric) in zip(axes, panels, strict=False):
            _panel(axis, run, workload, title, metric)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None, "Title": "Benchmarks of nsq-anyio"}
        figure.savefig(path, format="svg", metadata=metadata)


def _panel(axis: Any, run: Run, workload: str, title: str, metric: Metric) -> None:
    found = [
        (contender.name, spread)
        for contender in reversed(CONTENDERS)
        if (spread := run.spread(workload, contender.name, metric.key)) is not None
    ]
    names = [name for name, _ in found]
    medians = [spread.median for _, spread in found]
    errors = [
        [spread.median - spread.low for _, spread in found],
        [spread.high - spread.median for _, spread in found],
    ]
    bars = axis.barh(names, medians, xerr=errors, color=[_colour(name) for name in names], ecolor="#303030")
    axis.bar_label(bars, [f" {number(median)}" for median in medians], padding=3)
    axis.set_title(
        f"{title}\n{metric.title} in {metric.unit}, {metric.better} is better", fontsize=8, loc="left"
    )
    axis.set_xlim(0, max((spread.high for _, spread in found), default=1) * 1.25 or 1)
    axis.xaxis.set_visible(False)
    axis.spines[["top", "right", "bottom"]].set_visible(False)


def _colour(name: str) -> str:
    if name in {contender.name for contender in OURS}:
        return _OURS_COLOUR
    return {GO.name: _GO_COLOUR, BARE.name: _BARE_COLOUR}.get(name, _PEER_COLOUR)
