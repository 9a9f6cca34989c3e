"""A run, as tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable

from . import tables
from .results import Run


def print_run(console: Console, run: Run) -> None:
    """Print a table for each workload, then the targets, then the interpreters and what went wrong."""
    for table in tables.questions(run):
        console.print(_rich(table))
    console.print(_rich(tables.targets(run)))
    for session in run.sessions.values():
        console.print(session.interpreter.description, highlight=False)
        if session.interpreter.warning:
            console.print(f"[yellow]{session.interpreter.warning}")
        for name, reason in session.unavailable.items():
            console.print(f"[yellow]{name} took no part:[/] {reason}")
    for failure in run.failures:
        console.print(
            f"[red]{failure.contender} failed at {failure.workload}, {failure.pinning}:[/] {failure.reason}"
        )


def _rich(table: tables.Table) -> RichTable:
    found = RichTable(title=table.title, title_justify="left")
    for place, heading in enumerate(table.header):
        found.add_column(heading, justify="right" if place >= table.figures else "left", no_wrap=place == 0)
    for row in table.rows:
        found.add_row(*(f"[red]{cell.strip('*')}[/]" if cell == "**no**" else cell for cell in row))
    return found
