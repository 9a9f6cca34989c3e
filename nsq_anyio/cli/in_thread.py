"""Blocking work in a thread, so that the main thread handles signals meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

_STEP = 0.1
"""Seconds after which a signal is handled at the latest."""

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> T:
    """Do something in another thread, and return what it returns.

    Python handles a signal in the main thread, between two of its steps, and a library that waits for an
    answer takes none. A lock would do no better if the signal came right before the wait for it began, or to
    another thread. So the wait is a sequence of short ones.
    """
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        while not future.done():
            wait([future], _STEP)
        return future.result()
