"""Spark for `pipeline`, `demo` and `spool`: signals, live progress and a summary."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...errors import InvalidOption, NSQError
from ...signals import HandlersRestored, end_now
from ..display import new_table, print_table, progress_bar, progress_display
from ..signals import EndedBySignal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...spark import pipelines

_TO_THE_END = "available-now"

# Spark's own log of an error is long; the command prints its cause in one line at the end.
_CONFIG = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}


def run_pipeline(
    name: str, *, master: str | None, conf: Mapping[str, str], as_json: bool, **arguments: Any
) -> None:
    """Run the named pipeline on Spark until it ends or is interrupted; print its summary.

    :raises click.ClickException: for any error of this package
    :raises EndedBySignal: if a signal interrupted it before its end
    """
    with errors_explained():
        _check(name, arguments)
        with (
            show_progress(shown=not as_json) as progress,
            quiet_session(f"nsq-anyio {name}", master=master, config=conf) as (spark, pipelines),
            _stopped_by_signals() as (stop, received),
        ):
            summary = getattr(pipelines, name)(spark, **arguments, on_progress=progress.take, stop=stop)
    if as_json:
        click.echo(json.dumps(summary_fields(summary)))
    else:
        print_table(_table(name, summary))
    if received and arguments.get("trigger", _TO_THE_END) == _TO_THE_END:
        raise EndedBySignal(received[0])


class _Checked(Exception):
    """The arguments are valid."""


class _NoSpark:
    """Stands in for Spark: ends a pipeline that has checked its arguments, when it first uses Spark."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _Checked


def _check(name: str, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a pipeline without Spark, which takes seconds to start."""
    from ...spark import pipelines

    with suppress(_Checked):
        getattr(pipelines, name)(_NoSpark(), **arguments)


@contextmanager
def quiet_session(
    name: str, *, master: str | None = None, config: Mapping[str, str] | None = None
) -> Generator[tuple[SparkSession, ModuleType]]:
    """Yield a Spark session for the length of the block, and the module of the pipelines.

    :raises ImportError: without the extra ``spark``
    :raises JavaMissing: if Spark cannot run
    :raises PipelineFailed: if Spark does not start
    """
    # Importing Spark takes a second, and most commands do not need it.
    from ...spark import pipelines
    from ...spark.session import session

    with pipelines.spark_errors_explained():
        spark = session(name, master=master, config={**_CONFIG, **(config or {})})
    try:
        yield spark, pipelines
    finally:
        spark.stop()


@contextmanager
def errors_explained() -> Generator[None]:
    """Report errors of this package, and a missing extra, without a traceback.

    :raises click.UsageError: for an option out of range
    :raises click.ClickException: for any other error
    """
    try:
        yield
    except InvalidOption as error:
        raise click.UsageError(str(error)) from error
    except (NSQError, ImportError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _stopped_by_signals() -> Generator[tuple[threading.Event, Sequence[int]]]:
    """Yield an event that SIGINT or SIGTERM sets, and a list for the signal's number.

    A second signal ends the process.
    """
    stop = threading.Event()
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if received:
            end_now(number)
        received.append(number)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    with HandlersRestored(*numbers):
        # Installed after Spark's own handler for SIGINT, which would cancel the running batch.
        for number in numbers:
            signal.signal(number, handle)
        yield stop, received


class PipelineProgress:
    """Shows a pipeline's progress on stderr: a live line on a terminal, otherwise one line per batch."""

    def __init__(self, display: Progress | None) -> None:
        self._display = display
        self._task = display.add_task("starting Spark", total=None) if display else None

    def take(self, progress: pipelines.Progress) -> None:
        """Show the progress of a batch."""
        lag = "unknown" if progress.lag is None else f"{progress.lag:,}"
        text = (
            f"batch {progress.batch}: {progress.rows:,} rows, {progress.rows_per_second:,.0f} rows/s; "
            f"{progress.total:,} in all, lag {lag}"
        )
        if self._display is None or self._task is None:
            click.echo(text, err=True)
        else:
            total = None if progress.lag is None else progress.total + progress.lag
            self._display.update(self._task, description=text, completed=progress.total, total=total)


@contextmanager
def show_progress(*, shown: bool) -> Generator[PipelineProgress]:
    """Show a pipeline's progress, from the start of Spark to the end of the block."""
    if shown and not Console(stderr=True).is_terminal:
        yield PipelineProgress(None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), progress_bar(), TimeElapsedColumn())
    with progress_display(*columns, shown=shown, transient=True) as display:
        yield PipelineProgress(display)


def _table(name: str, summary: pipelines.Summary) -> Table:
    """Return the summary as a table of one row."""
    names = [name.replace("_", " ") for name in summary_fields(summary)]
    table = new_table("pipeline", numbers=names)
    values = ("unknown" if value is None else f"{value:,}" for value in summary_fields(summary).values())
    table.add_row(name, *values)
    return table


def summary_fields(summary: pipelines.Summary) -> dict[str, float | None]:
    """Return the fields of the summary that are printed."""
    return {
        "batches": summary.batches,
        "rows": summary.rows,
        "skipped": summary.skipped,
        "seconds": round(summary.seconds, 3),
        "rows_per_second": round(summary.rows_per_second),
        "lag": summary.lag,
    }
