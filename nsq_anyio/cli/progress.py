"""How far ``nsq-anyio pub`` is, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(total: int | None, *, shown: bool) -> Generator[Callable[[int, int], None]]:
    """Show a line on stderr; yield the function that counts messages and their bytes.

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
    with Progress(*columns, console=Console(stderr=True, quiet=not shown), disable=not shown) as progress:
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
