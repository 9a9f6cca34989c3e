"""The CPU time of some tasks, and of the worker threads that they use.

The CPU time of a process, or of the event loop's thread, includes what other tasks do meanwhile. So each step
of a task is timed by the clock of its thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, TypeVarTuple

import anyio.to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class CPUTime:
    """Adds up CPU time.

    :ivar seconds: the CPU seconds so far
    """

    def __init__(self) -> None:
        self.seconds: float = 0.0

    async def measure(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine and add its CPU time, including `run_in_thread`, and `measured` in its tasks.

        What the event loop itself does for them is not included.
        """
        token = _current.set(self)
        try:
            return await _Steps(coroutine, self)
        finally:
            _current.reset(token)


_current: ContextVar[CPUTime | None] = ContextVar("cpu_time", default=None)


async def measured(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in a task that was started in `CPUTime.measure`; elsewhere nothing is measured."""
    cpu_time = _current.get()
    return await (coroutine if cpu_time is None else _Steps(coroutine, cpu_time))


async def run_in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call a function in a worker thread; within `CPUTime.measure`, its CPU time is added."""
    cpu_time = _current.get()
    spent: list[float] = []

    def timed() -> T:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            spent.append(time.thread_time() - began)

    try:
        return await anyio.to_thread.run_sync(timed)
    finally:
        if cpu_time is not None:
            cpu_time.seconds += sum(spent)


class _Steps(Generic[T]):
    """Awaits a coroutine step by step."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], cpu_time: CPUTime) -> None:
        self._coroutine = coroutine
        self._cpu_time = cpu_time

    def __await__(self) -> Generator[Any, Any, T]:
        resume: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            began = time.thread_time()
            try:
                awaited = resume(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._cpu_time.seconds += time.thread_time() - began
                resume, value = self._coroutine.send, None  # an exception would refer to this frame
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 - such as a cancellation: for the coroutine
                resume, value = self._coroutine.throw, error
