"""The running event loop, for the few places whose code depends on it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from threading import get_ident
from typing import Protocol

from .asyncio_backend import AsyncioEvent

SWITCH = "NSQ_ANYIO_STREAMS"
"""The name of an environment variable; its value ``anyio`` leaves all sockets to AnyIO's own streams."""

_ELSEWHERE = (
    "this block was entered in another event loop, and works there alone: in a thread, use "
    "`anyio.from_thread.run` or the blocks of `nsq.sync`; in pytest-asyncio, give the fixture and the tests "
    "the same `loop_scope`"
)

_FIRST_TESTED = (3, 11)
_LAST_TESTED = (3, 15)


def on_asyncio() -> bool:
    """Return whether the running task belongs to asyncio, with any loop, and not to Trio."""
    try:
        # Trio may run as the guest of an asyncio loop. Then that loop runs, but none of its tasks does.
        return asyncio.current_task() is not None
    except RuntimeError:  # no asyncio loop runs here
        return False


class LoopEvent(Protocol):
    """An event of the running loop, which is set once.

    Publishers, takers of messages and the writer wait for such events. They do less than `anyio.Event`, which
    makes publishing with 100 tasks a fifth faster on asyncio, and a seventh faster on Trio.
    """

    @property
    def is_set(self) -> bool:
        """Whether `set` was called."""
        ...

    def set(self) -> None:
        """Wake all waiting tasks. A second call does nothing."""
        ...

    def wait(self) -> Awaitable[None]:
        """Return an awaitable that ends once `set` was called. It is a checkpoint; await it at once."""
        ...


class HomeLoop:
    """The event loop in which this object is made.

    A task of another loop that waited for this one would never be woken, and its timeouts would not apply.

    :ivar running: returns an identity of the loop that runs
    :ivar loop: the identity of this loop
    """

    __slots__ = ("loop", "running")

    def __init__(self) -> None:
        # On Trio, the thread identifies the loop: it has one run at a time, which outlives all its tasks.
        self.running: Callable[[], object] = get_ident
        if on_asyncio():
            self.running = asyncio._get_running_loop
        self.loop: object = self.running()

    @property
    def runs(self) -> bool:
        """Whether the caller runs in this loop."""
        return self.running() == self.loop

    def check(self) -> None:
        """Check that the caller runs in this loop.

        :raises RuntimeError: if it does not
        """
        if self.running() != self.loop:  # without `runs`, for the sake of speed
            raise RuntimeError(_ELSEWHERE)


def event_class() -> Callable[[], LoopEvent]:
    """Return the class of events for the running loop."""
    if on_asyncio():
        return AsyncioEvent
    from .trio_backend import TrioEvent  # noqa: PLC0415 - an extra

    return TrioEvent


def clock() -> Callable[[], float]:
    """Return the clock of the running loop. `anyio.current_time` looks the same clock up at each call."""
    if on_asyncio():
        return asyncio.get_running_loop().time
    import trio  # noqa: PLC0415 - an extra

    return trio.lowlevel.current_clock().current_time


def current_task() -> Callable[[], object]:
    """Return the function of the running loop that returns the current task."""
    if on_asyncio():
        return asyncio.current_task
    import trio  # noqa: PLC0415 - an extra

    return trio.lowlevel.current_task


def call_from_threads() -> Callable[[Callable[[], None]], object]:
    """Return a function for any thread that schedules a plain function in the running loop, without waiting.

    A signal handler may call it, even when it interrupts another call. It raises RuntimeError once the loop
    has ended. AnyIO's own `from_thread.run_sync` waits for a turn of the loop, which costs more than the
    answer to a message, and waits for ever if the loop ends first.
    """
    if on_asyncio():
        return partial(asyncio.get_running_loop().call_soon_threadsafe, context=copy_context())
    import trio  # noqa: PLC0415 - an extra

    return trio.lowlevel.current_trio_token().run_sync_soon


def waits_for_sockets() -> bool:
    """Return whether the running loop can wait efficiently for a socket that our own stream reads and writes.

    Trio can, and so can asyncio's loops with a selector and uvloop. A ProactorEventLoop waits in another
    thread, and nothing is known about other loops.
    """
    if os.environ.get(SWITCH) == "anyio" or sys.platform == "win32":
        return False
    return not on_asyncio() or _loop_has_selector()


def continues_in_callbacks() -> bool:
    """Return whether the callback that receives bytes may resume the task that waits for them.

    That relies on internals of asyncio's futures, so it is limited to the interpreters that the tests ran on.
    """
    is_tested = _FIRST_TESTED <= sys.version_info[:2] <= _LAST_TESTED
    return sys.implementation.name == "cpython" and is_tested and on_asyncio() and _loop_has_selector()


def _loop_has_selector() -> bool:
    loop = asyncio.get_running_loop()
    return isinstance(loop, asyncio.SelectorEventLoop) or type(loop).__module__.partition(".")[0] == "uvloop"
