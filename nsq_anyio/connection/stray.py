"""Distinguish a cancellation of this task from a cancellation of something that it awaited.

asyncio raises `CancelledError` for both: a task that awaits a cancelled task gets the same exception as if it
had been cancelled itself. The latter is a failure like any other, and must not end tasks and blocks that
nobody cancelled. Trio does not have this case.
"""

from __future__ import annotations

import asyncio
import math

import anyio

from ..transport.event_loop import on_asyncio


def is_stray(error: BaseException | None) -> bool:
    """Return whether ``error``, just caught, is a `CancelledError` although nobody cancelled this task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    # The text of AnyIO's own cancellations proves nothing: tasks that await a cancelled one get it as well.
    if anyio.current_effective_deadline() == -math.inf:
        return False
    task = asyncio.current_task() if on_asyncio() else None
    return task is None or not task.cancelling()


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error``, a cancellation caught earlier, cancels this task and is still in force.

    If not, it belonged to a cancelled scope inside the caller, which has ended.
    """
    if isinstance(error, asyncio.CancelledError):
        return not is_stray(error)
    return anyio.current_effective_deadline() == -math.inf
