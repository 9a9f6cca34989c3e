"""Computes what viewers see, in worker threads, and says what that has cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")


class Worker:
    """Runs functions in worker threads.

    :param charge: called, in the event loop, with the CPU seconds of each call
    """

    def __init__(self, charge: Callable[[float], None]) -> None:
        self._charge = charge

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns."""

        def timed() -> tuple[T, float]:
            began = time.thread_time()
            result = function(*arguments)
            return result, time.thread_time() - began

        result, seconds = await anyio.to_thread.run_sync(timed)
        self._charge(seconds)
        return result
