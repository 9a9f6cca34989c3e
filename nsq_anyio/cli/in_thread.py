"""Blocking work in a thread, so that the main thread handles signals meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

_STEP = 0.1
"""The longest time before a signal is handled, in seconds."""

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in another thread, and return its result.

    Python handles signals in the main thread, between two instructions. A library that blocks the main thread
    delays them. So does a wait for a lock, if the signal arrives just before the wait begins, or in another
    thread. So the main thread waits in short steps.
    """
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        while not future.done():
            wait([future], _STEP)
        return future.result()
