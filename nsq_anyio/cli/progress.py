"""How far a command is, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

__all__ = ["progress_display", "shown_progress"]


def progress_display(*columns: ProgressColumn, shown: bool, transient: bool = False) -> Progress:
    """Make a display on stderr, to be used as a block; nothing at all is written unless ``shown``.

    :param transient: whether it disappears at the end
    """
    # Quiet besides disabled, as older Rich ends a display with an empty line even if it is disabled.
    console = Console(stderr=True, quiet=not shown)
    return Progress(*columns, console=console, disable=not shown, transient=transient)


@contextmanager
def shown_progress(total: int | None, *, shown: bool) -> Generator[Callable[[int, int], None]]:
    """Show what ``nsq-anyio pub`` has published; yield the function that counts messages and their bytes.

    :param total: bytes that will come, with delimiters; None if that is not known
    """
    columns = (
        TextColumn("{task.fields[messages]:,} messages"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[rate]:,.0f} messages/s"),
        TimeElapsedColumn(),
    )
    with progress_display(*columns, shown=shown) as progress:
        task = progress.add_task("", total=total, messages=0, rate=0.0)
        messages = 0

        def published(count: int, size: int) -> None:
            nonlocal messages
            messages += count
            elapsed = progress.tasks[0].elapsed or 0.0
            progress.update(
                task, advance=size, messages=messages, rate=messages / elapsed if elapsed else 0.0
            )

        yield published
