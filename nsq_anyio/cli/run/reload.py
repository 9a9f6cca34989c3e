"""Detects changes of the code, for ``--reload``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import click


def changes_of_code(stop: anyio.Event) -> AsyncIterator[object]:
    """Yield whenever a Python file below the current directory changes, until ``stop`` is set.

    :raises click.UsageError: if watchfiles is not installed
    """
    try:
        from watchfiles import PythonFilter, awatch
    except ModuleNotFoundError:
        raise click.UsageError("watchfiles is not installed: pip install 'nsq-anyio[reload]'") from None
    return awatch(Path.cwd(), watch_filter=PythonFilter(), stop_event=stop, debounce=200)
