"""Tables and progress that fit the terminal and hide nothing: long text goes on in the next line.

Rich would cut it. This module imports Rich, which most commands can do without until they show something.
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
"""Columns from which on there is room for a long bar beside the figures."""


def new_table(*names: str, numbers: Sequence[str] = (), whole: Sequence[str] = (), **style: Any) -> Table:
    """Return a table whose cells are folded where the terminal is too narrow.

    :param names: the columns of texts, on the left
    :param numbers: the columns of numbers, on the right
    :param whole: those of ``names`` that are never folded, as their cells are short and to be copied
    :param style: other arguments of `rich.table.Table`
    """
    table = Table(**style)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name in whole)
    for name in numbers:
        table.add_column(name, overflow="fold", justify="right")
    return table


def print_table(table: Table, *, narrow: Text | None = None, err: bool = False) -> None:
    """Print a table, in a pipe with each row on one line.

    :param narrow: what to print instead on a terminal that is too narrow for it
    :param err: whether to print it to stderr
    """
    stream = sys.stderr if err else sys.stdout
    console = Console(stderr=err, width=None if stream.isatty() else _NO_LIMIT)
    console.print(table if narrow is None or width_of(table) <= console.width else narrow)


def width_of(table: Table) -> int:
    """Return how wide a terminal must be to show a table without folding any cell."""
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
        """See `rich.progress.Progress.make_tasks_table`."""
        table = super().make_tasks_table(tasks)
        for column in table.columns:
            column.overflow, column.no_wrap = "fold", False
        return table
