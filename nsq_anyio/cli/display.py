"""Tables and progress displays that wrap long text where the terminal is narrow, instead of cutting it.

This module imports Rich, so a command imports it only when it shows something.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Table
from rich.text import Text

_NO_LIMIT = 10_000
_WIDE = 120
"""The width of a terminal that has room for a long bar beside the figures."""


def new_table(*names: str, numbers: Sequence[str] = (), whole: Sequence[str] = (), **style: Any) -> Table:
    """Return a table whose cells wrap if the terminal is too narrow.

    :param names: the names of the text columns, on the left
    :param numbers: the names of the number columns, on the right
    :param whole: the text columns that never wrap, because their cells are short and meant to be copied
    :param style: other arguments of `rich.table.Table`
    """
    table = Table(**style)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name in whole)
    for name in numbers:
        table.add_column(name, overflow="fold", justify="right")
    return table


def print_table(table: Table, *, narrow: Text | None = None, err: bool = False) -> None:
    """Print a table; outside a terminal, each row is one line.

    :param narrow: the text to print instead if the terminal is too narrow for the table
    :param err: whether to print it to stderr
    """
    stream = sys.stderr if err else sys.stdout
    console = Console(stderr=err, width=None if stream.isatty() else _NO_LIMIT)
    console.print(table if narrow is None or width_of(table) <= console.width else narrow)


def width_of(table: Table) -> int:
    """Return the width of a terminal that shows a table without wrapping any cell."""
    console = Console(width=_NO_LIMIT)
    return console.measure(table).maximum


def progress_bar() -> BarColumn:
    """Return a bar that leaves room for the figures beside it."""
    return BarColumn(bar_width=40 if Console(stderr=True).width >= _WIDE else 10)


def progress_display(*columns: ProgressColumn, shown: bool, transient: bool = False) -> Progress:
    """Return a progress display on stderr, a context manager; it writes nothing unless ``shown``.

    :param transient: whether the display disappears at the end
    """
    # Quiet as well as disabled: older versions of Rich end even a disabled display with an empty line.
    console = Console(stderr=True, quiet=not shown)
    return _FoldedProgress(*columns, console=console, disable=not shown, transient=transient)


class _FoldedProgress(Progress):
    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        table = super().make_tasks_table(tasks)
        for column in table.columns:
            column.overflow, column.no_wrap = "fold", False
        return table
