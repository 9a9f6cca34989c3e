"""The rows of the README's comparison that have rates."""

from __future__ import annotations

import re

from .contenders import GO, ours
from .results import Run, Setting, number
from .surroundings import SHARED
from .workloads import RATE

_ROWS = {"messages/s consumed": "iterate-rdy-2500", "messages/s published": "publish-many"}
"""The titles of the rows, and their workloads."""
_OURS = (ours("asyncio"), ours("trio"))
_COLUMNS = ("pynsq", "gnsq", "asyncnsq", "ansq", GO.name)
"""The clients, in the order of the README's columns, after this one."""


def with_rates(readme: str, run: Run) -> str:
    """Return the README with the rates of this run; for this client, the lower of its event loops.

    :raises ValueError: it has no such row, or a client was not measured
    """
    for title, workload in _ROWS.items():
        rates = [min(_rate(run, workload, name) for name in _OURS)]
        rates += [_rate(run, workload, name) for name in _COLUMNS]
        # Rounded to thousands: rates differ by more from run to run.
        row = " | ".join([title, *(number(each // 1000 * 1000) for each in rates)])
        readme, count = re.subn(rf"^\| {title} .*\n", f"| {row} |\n", readme, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"the README has {count} rows that begin with {title}, not one")
    return readme


def _rate(run: Run, workload: str, name: str) -> float:
    spread = run.spread(workload, Setting(run.pythons()[0], SHARED.name), name, RATE)
    if spread is None:
        raise ValueError(f"{name} was not measured at {workload}")
    return spread.median
