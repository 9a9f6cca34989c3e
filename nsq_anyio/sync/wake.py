"""Wakes an event loop from another thread, without waiting for it.

AnyIO's own calls from threads wait for a turn of the event loop. For every answer to a message, such a wait
would cost more than everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Literal

Backend = Literal["asyncio", "trio"]


def waker(backend: Backend) -> Callable[[Callable[[], None]], object]:
    """Return a function for any thread that schedules another function in the running event loop.

    A signal handler may call it, even if it interrupts another call of it. On both backends it raises
    `RuntimeError` when the loop has ended.
    """
    if backend == "trio":
        import trio  # noqa: PLC0415 - an extra

        return trio.lowlevel.current_trio_token().run_sync_soon
    return partial(asyncio.get_running_loop().call_soon_threadsafe, context=copy_context())
