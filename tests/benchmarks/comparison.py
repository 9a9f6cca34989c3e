"""The row of the README's comparison that has rates."""

from __future__ import annotations

import re

from .contenders import GO, ours
from .results import Run, number
from .workloads import RATE

__all__ = ["with_rates"]

_WORKLOAD = "iterate-rdy-2500"
_PINNING = "one core"
_OURS = (ours("asyncio"), ours("trio"))
_COLUMNS = ("pynsq", "gnsq", "asyncnsq", "ansq", GO.name)
"""The clients, in the order of the README's columns, after this one."""

_ROW = re.compile(r"^\| messages/s.*\n", re.MULTILINE)


def with_rates(readme: str, run: Run) -> str:
    """Return the README with the rates of this run; for this client, the lower of its event loops.

    :raises ValueError: it has no such row, or a client was not measured
    """
    (setting,) = (
        each
        for each in run.settings(_WORKLOAD)
        if each.python == run.pythons()[0] and each.pinning == _PINNING
    )

    def rate(name: str) -> float:
        spread = run.spread(_WORKLOAD, setting, name, RATE)
        if spread is None:
            raise ValueError(f"{name} was not measured at {_WORKLOAD}")
        return spread.median

    rates = [min(map(rate, _OURS)), *map(rate, _COLUMNS)]
    # Rounded to thousands: rates differ by more from run to run.
    cells = " | ".join(number(each // 1000 * 1000) for each in rates)
    replaced, count = _ROW.subn(f"| messages/s consumed | {cells} |\n", readme)
    if count != 1:
        raise ValueError(f"the README has {count} rows that begin with messages/s, not one")
    return replaced
