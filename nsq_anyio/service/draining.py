"""Drain at the first signal, and end at the second."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from anyio.abc import TaskStatus

from ..signals import HandlersRestored, end_now

__all__ = ["Draining", "drain_at_signal", "watch_signals"]

Draining: TypeAlias = Callable[[anyio.Event], Awaitable[object]]
"""Runs until its work is done or the event is set, then finishes what it has started and returns."""


async def drain_at_signal(
    main: Draining, stop: anyio.Event | None = None, on_signal: Callable[[int], None] | None = None
) -> None:
    """Run ``main``; the first SIGINT or SIGTERM sets its stop event, the second ends the process at once.

    :param stop: the stop event; default: a new one
    :param on_signal: called with the number of each signal, before that
    """
    stop = anyio.Event() if stop is None else stop
    signalled = False

    def stop_or_end(number: int) -> None:
        nonlocal signalled
        if on_signal is not None:
            on_signal(number)
        if signalled:
            end_now(number)
        signalled = True
        stop.set()

    async with anyio.create_task_group() as tasks:
        await tasks.start(watch_signals, stop_or_end)
        await main(stop)
        tasks.cancel_scope.cancel()


async def watch_signals(
    on_signal: Callable[[int], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Call ``on_signal`` for each SIGINT and SIGTERM; report started once no signal can be missed."""
    if sys.platform == "win32":
        task_status.started()
        return  # asyncio has no signal receiver there; Ctrl-C raises KeyboardInterrupt
    numbers = (signal.SIGINT, signal.SIGTERM)
    with HandlersRestored(*numbers), anyio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for number in signals:
            on_signal(number)
