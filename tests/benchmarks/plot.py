"""A run, as an SVG for the documentation: a panel for each workload that the page for users shows."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .contenders import GO, OURS
from .contenders import SHOWN as SHOWN_CLIENTS
from .results import Run, Setting, number
from .surroundings import SHARED
from .workloads import RATE, SHOWN

COLUMNS = 4
_OURS, _REFERENCE, _PEER = "#2f6fb0", "#d08a2e", "#b8b8b8"
# Text as text, so that it can be found and read aloud; the same identifiers at each drawing of the same run.
_SETTINGS: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nsq-anyio", "font.size": 9}


def draw(run: Run, path: Path) -> None:
    """Write the median rates on the interpreter that is listed first, with two cores shared.

    A line reaches from the lowest to the highest of all rounds.
    """
    # Imported here, so that measuring needs no matplotlib; untyped, since its own types are partly unknown.
    matplotlib: Any = importlib.import_module("matplotlib")
    figures: Any = importlib.import_module("matplotlib.figure")
    setting = Setting(run.pythons()[0], SHARED.name)
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(figsize=(13, 6), layout="constrained")
        grid = figure.subplots(-(-len(SHOWN) // COLUMNS), COLUMNS, squeeze=False, sharey=True)
        for axis, workload in zip(grid.flat, SHOWN, strict=True):
            _panel(axis, run, workload, setting)
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None, "Title": f"Rates of nsq-anyio and other clients, CPython {setting.python}"}
        figure.savefig(path, format="svg", metadata=metadata)


def _panel(axis: Any, run: Run, workload: str, setting: Setting) -> None:
    highest = 0.0
    for row, client in enumerate(SHOWN_CLIENTS):
        spread = run.spread(workload, setting, client.name, RATE)
        if spread is None:
            continue
        highest = max(highest, spread.high)
        error = [[spread.median - spread.low], [spread.high - spread.median]]
        bar = axis.barh(
            row,
            spread.median,
            xerr=error,
            color=_colour(client.name),
            error_kw={"ecolor": "#303030", "elinewidth": 1},
        )
        axis.bar_label(bar, [f" {number(spread.median)}"], padding=4)
    axis.set_yticks(range(len(SHOWN_CLIENTS)), [client.title for client in SHOWN_CLIENTS])
    axis.set_ylim(len(SHOWN_CLIENTS) - 0.4, -0.6)  # the first client on top
    axis.set_title(SHOWN[workload].replace("`", "").replace(" with ", "\nwith "), loc="left", fontsize=9)
    axis.set_xlim(0, (highest or 1) * 1.4)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "bottom"]].set_visible(False)


def _colour(name: str) -> str:
    if name in {contender.name for contender in OURS}:
        return _OURS
    return _REFERENCE if name == GO.name else _PEER
