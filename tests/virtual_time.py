"""Event loops whose clock stands still while there is work, and jumps to the next timer when there is none.

A module whose tests assert what happens *when* has `anyio_backend = virtual_time.anyio_backend`. A
machine that is busy, or stops the process for a moment, then cannot change the outcome, and no test waits for
time to pass. uvloop has no such clock, and counts its timers as asyncio does.
"""

import asyncio
import math
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

import pytest
import trio.testing

__all__ = ["anyio_backend", "block"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GRACE = 0.001
"""Real seconds without a ready socket before the clock jumps: what this process sent itself came by then."""


class JumpingSelector(selectors.DefaultSelector):
    """It tells what is ready; where it would have waited, it moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if timeout is None or self.threads:  # which work in real time, and wake this up
            return super().select(None)
        ready = super().select(GRACE)
        if not ready:
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own event loop on such a clock, as trio's `MockClock` is for trio."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        self._jumping.now += seconds

    def run_in_executor(  # for getaddrinfo and the like
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: object) -> None:
        self._jumping.threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        del timeout  # real seconds, from Python 3.12 on
        await super().shutdown_default_executor()


class WithoutJumps(trio.abc.Instrument):
    """Keeps Trio's clock from jumping while threads work: they do so in real time."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self._clock = clock

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        is_busy = trio.to_thread.current_default_thread_limiter().borrowed_tokens > 0
        threshold = math.inf if is_busy else GRACE
        if self._clock.autojump_threshold != threshold:
            self._clock.autojump_threshold = threshold


def block(seconds: float) -> None:
    """Let time pass without running any task, as code without awaits does."""
    if trio.lowlevel.in_trio_run():
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(seconds)
    else:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        loop.jump(seconds)


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Run each test that is marked `anyio` on both, on a clock of its own."""
    if request.param == "trio":
        clock = trio.testing.MockClock(autojump_threshold=GRACE)
        return "trio", {"clock": clock, "instruments": [WithoutJumps(clock)]}
    return "asyncio", {"loop_factory": JumpingLoop}
