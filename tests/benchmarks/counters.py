"""What is counted instead of measured: it is the same on a slow machine."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


class Suspensions(Generic[ResultT]):
    """Awaits a coroutine, and counts how often it gave the event loop a turn.

    :ivar count: how often so far
    """

    def __init__(self, coroutine: Coroutine[Any, Any, ResultT]) -> None:
        self._coroutine = coroutine
        self.count = 0

    def __await__(self) -> Generator[Any, Any, ResultT]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
            except StopIteration as stop:
                result: ResultT = stop.value
                return result
            self.count += 1
            value = error = None
            try:
                value = yield step
            except BaseException as raised:  # the coroutine is told, and raises what it wants
                error = raised


class Calls:
    """How many functions were called, those written in C included; resumed coroutines count too.

    :ivar count: how many so far
    """

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event in {"call", "c_call"}:
            self.count += 1


@contextmanager
def count_calls() -> Generator[Calls]:
    """Count all calls of this thread, whatever task they are in, for the length of the block."""
    calls = Calls()
    before = sys.getprofile()
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(before)
