"""How ``nsq-anyio stat`` shows its figures on a terminal: a table that is drawn anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..visible import visible
from .rows import Row
from .views import Report

__all__ = ["LiveTable"]


class LiveTable:
    """A table on a terminal that is drawn anew."""

    def __init__(self, live: Live) -> None:
        self._live = live

    @classmethod
    @contextmanager
    def opened(cls) -> Generator[LiveTable]:
        """Draw for the length of the block; the last table stays."""
        with Live(console=Console(), auto_refresh=False) as live:
            yield cls(live)

    async def show(self, report: Report) -> None:
        """See `View.show`."""
        failures = [Text(visible(str(failure)), style="red") for failure in report.failures]
        self._live.update(Group(_table(report.rows), *failures), refresh=True)


def _table(rows: Sequence[Row]) -> Table:
    table = Table("topic", "channel", box=None, header_style="bold", pad_edge=False)
    for name in (
        *("in/s", "out/s", "depth", "on disk", "in flight", "deferred"),
        *("requeued", "timed out", "messages", "clients"),
    ):
        table.add_column(name, justify="right")
    for row in rows:
        counts = row.counts
        table.add_row(
            Text(visible(row.topic)),
            Text(visible(f"{row.channel or '-'}{' (paused)' if row.paused else ''}")),
            *("-" if rate is None else f"{rate:,.0f}" for rate in (row.ingress, row.egress)),
            *(f"{value:,}" for value in dataclasses.astuple(counts)),
            style="yellow" if row.paused else "",
        )
    return table
