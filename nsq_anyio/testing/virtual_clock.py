"""Event loops whose clock stands still while there is work, and jumps to the next timer when there is none.

Minutes of backoff pass at once, and a busy machine cannot change when something happens. With
AnyIO's plugin, a module of such tests contains ::

    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request: pytest.FixtureRequest) -> nsq.testing.Backend:
        return nsq.testing.virtual_time(request.param)

Everything that takes part must run in the test's own event loop, because the clock does not know that another
thread or process is at work. So such tests use `cluster`, not the fixtures, which run servers in threads; and
they use async handlers, since plain ones are called in threads. The clock waits only for name resolution, for
``run_in_executor`` of asyncio, and for worker threads under AnyIO's default limiter.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from ..errors import InvalidOption
from ..options.checks import check_seconds

if TYPE_CHECKING:
    import trio.testing

Backend: TypeAlias = tuple[str, dict[str, Any]]
"""The name and the options of a backend, as AnyIO's fixture ``anyio_backend`` returns them."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_GRACE = 0.001
"""Real seconds without a ready socket before the clock jumps; bytes of this process have arrived by then."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0
        self.limiter: anyio.CapacityLimiter | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if timeout is None or self.threads or (self.limiter and self.limiter.borrowed_tokens):
            return super().select(None)  # threads work in real time, and wake this up
        ready = super().select(_GRACE)
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own event loop on virtual time: ``asyncio.Runner(loop_factory=VirtualTimeLoop)``."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        """Advance the clock without running anything."""
        self._jumping.now += seconds

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a function. The first call by a task also finds the limiter of AnyIO's worker threads."""
        if self._jumping.limiter is None and asyncio.current_task(self) is not None:
            self._jumping.limiter = anyio.to_thread.current_default_thread_limiter()
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(  # for getaddrinfo and the like
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call a function in a thread; the clock stands still until it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: object) -> None:
        self._jumping.threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads of `run_in_executor`."""
        del timeout  # real seconds, from Python 3.12 on
        await super().shutdown_default_executor()


def virtual_time(backend: Literal["asyncio", "trio"]) -> Backend:
    """Return a backend of AnyIO with a virtual clock that starts at 0, for `anyio.run` or ``anyio_backend``.

    The options for Trio are arguments of ``trio.run``, too.

    :param backend: ``asyncio`` or ``trio``; uvloop has no such clock
    :raises InvalidOption: for another name
    """
    if backend == "asyncio":
        return "asyncio", {"loop_factory": VirtualTimeLoop}
    if backend != "trio":
        raise InvalidOption(f"backend={backend!r} is not valid: use 'asyncio' or 'trio'")
    import trio.testing  # noqa: PLC0415 - it is an extra

    clock = trio.testing.MockClock(autojump_threshold=_GRACE)
    return "trio", {"clock": clock, "instruments": [_without_jumps(clock)]}


def pass_time(seconds: float) -> None:
    """Let virtual time pass without running any task, as code that blocks the event loop does.

    :param seconds: 0 or more
    :raises InvalidOption: if ``seconds`` is out of range
    :raises RuntimeError: outside of an event loop with a virtual clock
    """
    check_seconds("seconds", seconds, 0)
    clock = _clock()
    if clock is None:
        raise RuntimeError("there is no virtual clock here: run the test with nsq.testing.virtual_time()")
    clock.jump(seconds)


def is_virtual_time() -> bool:
    """Return whether the caller is in an event loop with a virtual clock."""
    return _clock() is not None


def _clock() -> VirtualTimeLoop | trio.testing.MockClock | None:
    if "trio" in sys.modules:
        import trio.testing  # noqa: PLC0415 - it is an extra

        if trio.lowlevel.in_trio_run():
            clock = trio.lowlevel.current_clock()
            return clock if isinstance(clock, trio.testing.MockClock) else None
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualTimeLoop) else None


def _without_jumps(clock: trio.testing.MockClock) -> trio.abc.Instrument:
    """Return an instrument that keeps Trio's clock from jumping while threads work, which takes real time."""
    import trio  # noqa: PLC0415 - it is an extra

    class WithoutJumps(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            del task
            is_busy = trio.to_thread.current_default_thread_limiter().borrowed_tokens > 0
            threshold = math.inf if is_busy else _GRACE
            if clock.autojump_threshold != threshold:
                clock.autojump_threshold = threshold

    return WithoutJumps()
