"""The views of ``nsq-anyio stat``: lines like nsq_stat's, lines of JSON, and a table."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from ...terminal_text import visible
from ..output import Output
from .rows import Row

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

_LINES_PER_HEADER = 25  # as in nsq_stat

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A server that did not answer.

    :ivar server: the server's URL, without the path of the request
    """

    server: str
    reason: str

    def __str__(self) -> str:
        return f"{self.server}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one poll.

    :ivar failures: at most one per server
    :ivar is_first: whether this is the first poll, which has no rates
    """

    rows: Sequence[Row]
    failures: Sequence[Failure]
    is_first: bool


class View(Protocol):
    """Shows reports."""

    async def show(self, report: Report) -> None:
        """Show a report.

        :raises OutputClosed: if the reader of the output has gone away
        """
        ...


class Lines:
    """Prints nsq_stat's columns.

    :param with_names: whether to add a column with the channels' names
    """

    def __init__(self, output: Output, *, with_names: bool) -> None:
        self._output = output
        self._with_names = with_names
        self._lines = 0
        self._failing: set[str] = set()

    async def show(self, report: Report) -> None:
        """Show a report on stdout, and failures on stderr; skip the figures of the first report."""
        self._log_failures(report.failures)
        lines: list[str] = []
        rows = () if report.is_first else report.rows
        for row in rows:
            if self._lines % _LINES_PER_HEADER == 0:
                lines += self._header()
            lines.append(self._line(row))
            self._lines += 1
        await self._output.write("".join(f"{line}\n" for line in lines).encode())

    def _log_failures(self, failures: Sequence[Failure]) -> None:
        for failure in failures:
            if failure.server not in self._failing:
                _log.warning("%s", failure)
        failing = {failure.server for failure in failures}
        for server in sorted(self._failing - failing):
            _log.warning("%s answers again", server)
        self._failing = failing

    def _header(self) -> tuple[str, str]:
        groups = f"{'rate':-^16}+{'depth':-^37}+{'metadata':-^37}"
        columns = (
            f"{'ingress':>7} {'egress':>7} | {'total':>7} {'mem':>7} {'disk':>7} {'inflt':>5} {'def':>5} "
            f"| {'req':>7} {'t-o':>7} {'msgs':>12} {'clients':>7}"
        )
        return groups, f"{columns} | topic/channel" if self._with_names else columns

    def _line(self, row: Row) -> str:
        counts = row.counts
        line = (
            f"{int(row.ingress or 0):7} {int(row.egress or 0):7} "
            f"| {counts.depth:7} {counts.depth - counts.backend_depth:7} {counts.backend_depth:7} "
            f"{counts.in_flight:5} {counts.deferred:5} "
            f"| {counts.requeued:7} {counts.timed_out:7} {counts.messages:12} {counts.clients:7}"
        )
        name = f"{visible(row.topic)}/{visible(row.channel)}{_paused(row)}"
        return f"{line} | {name}" if self._with_names else line


class JSONLines:
    """Prints one JSON object per report."""

    def __init__(self, output: Output) -> None:
        self._output = output

    async def show(self, report: Report) -> None:
        """Show a report; skip the first one, which has no rates."""
        if report.is_first:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "channels": [_flat(row) for row in report.rows],
            "failures": [{"url": failure.server, "reason": failure.reason} for failure in report.failures],
        }
        await self._output.write(json.dumps(line).encode() + b"\n")


def _flat(row: Row) -> dict[str, object]:
    fields = dataclasses.asdict(row)
    return {**{name: fields[name] for name in fields if name != "counts"}, **fields["counts"]}


class LiveTable:
    """Redraws a table on a terminal."""

    def __init__(self, live: Live) -> None:
        self._live = live

    @classmethod
    @contextmanager
    def opened(cls) -> Generator[LiveTable]:
        """Open the display for the length of the block; the last table stays on the screen."""
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(), auto_refresh=False) as live:
            yield cls(live)

    async def show(self, report: Report) -> None:
        from rich.console import Group
        from rich.text import Text

        from ..display import width_of

        table = _table(report.rows)
        fits = width_of(table) <= self._live.console.width
        failures = [Text(visible(str(failure)), style="red") for failure in report.failures]
        self._live.update(Group(table if fits else _narrow(report.rows), *failures), refresh=True)


_COLUMNS = {
    "in/s": "in/s",
    "out/s": "out/s",
    "depth": "depth",
    "on disk": "disk",
    "in flight": "inflt",
    "deferred": "def",
    "requeued": "req",
    "timed out": "t-o",
    "messages": "msgs",
    "clients": "clients",
}
"""The columns of numbers, and their names on a narrow terminal, as in nsq_stat."""


def _table(rows: Sequence[Row]) -> Table:
    from rich.text import Text

    from ..display import new_table

    columns = [*_COLUMNS]
    table = new_table("topic", "channel", numbers=columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        channel = f"{row.channel or '-'}{_paused(row)}"
        table.add_row(Text(visible(row.topic)), Text(visible(channel)), *_numbers(row), style=_style(row))
    return table


def _narrow(rows: Sequence[Row]) -> Text:
    """Return the figures with each name on a line of its own, above its numbers."""
    from rich.text import Text

    columns = [*_COLUMNS.values()]
    widths = [max(map(len, column)) for column in zip(columns, *map(_numbers, rows), strict=True)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

    lines = [Text(line(columns), style="bold")]
    for row in rows:
        name = f"{row.topic}/{row.channel or '-'}{_paused(row)}"
        lines += [Text(text, style=_style(row)) for text in (visible(name), line(_numbers(row)))]
    return Text("\n").join(lines)


def _numbers(row: Row) -> list[str]:
    rates = ("-" if rate is None else f"{rate:,.0f}" for rate in (row.ingress, row.egress))
    return [*rates, *(f"{value:,}" for value in dataclasses.astuple(row.counts))]


def _paused(row: Row) -> str:
    if row.topic_paused:
        return " (topic paused)"
    return " (paused)" if row.paused else ""


def _style(row: Row) -> str:
    return "yellow" if row.paused or row.topic_paused else ""
