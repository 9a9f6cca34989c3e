"""An event loop in its own thread, which keeps an ``async with`` block open for plain functions.

The thread ends with the plain ``with`` block that it serves, in bounded time, however that block ends:

- A block that nobody leaves (at module level, in an ``ExitStack``, in a suspended generator) is left when the
  interpreter exits, after other threads have ended and before anything is torn down.
- A forked child does not have the thread. The block ends at once there, and continues in the parent.
- The garbage collector may close an abandoned generator in this very thread, which cannot wait for its own
  end. The block is only told to end then.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import Context
from threading import Lock, Thread, current_thread
from typing import Generic, Literal, TypeVar

import anyio
from anyio import run as run_event_loop
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from anyio.lowlevel import checkpoint

from ..errors import Closed

__all__ = ["Backend", "LoopThread"]

Backend = Literal["asyncio", "trio"]
BlockT = TypeVar("BlockT")
ResultT = TypeVar("ResultT")


class LoopThread(Generic[BlockT]):
    """Holds a block open, from `start` to `leave`.

    :param block: the block to hold open; it must end in bounded time
    :param patience: seconds for calls that still run when the block is left; then the block is cancelled
    :param backend: the event loop
    :param name: of the thread
    :ivar failure: what the block raised
    """

    def __init__(
        self, block: AbstractAsyncContextManager[BlockT], *, patience: float, backend: Backend, name: str
    ) -> None:
        self.failure: BaseException | None = None
        self._block = block
        self._patience = patience
        self._backend = backend
        self._entered: Future[BlockT] = Future()
        self._ended: Future[None] = Future()
        self._process = os.getpid()
        # A daemon, because the interpreter waits for all other threads before it calls `_leave_at_exit`. In a
        # new context, because the caller's may say that another event loop runs.
        self._thread = Thread(target=Context().run, args=(self._run,), name=name, daemon=True)
        self._lock = Lock()
        self._over = False  # no more calls are accepted
        self._coming = 0  # calls being passed to the event loop
        self._running = 0  # calls that run in the event loop
        # Set in the event loop, before `_entered`.
        self._portal: BlockingPortal
        self._tasks: TaskGroup
        self._leaving: anyio.Event
        self._idle: anyio.Event
        self._scope: anyio.CancelScope

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that has the thread."""
        return os.getpid() != self._process

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the thread."""
        return current_thread() is self._thread

    def start(self) -> BlockT:
        """Enter the block, and return what it yields."""
        self._thread.start()
        try:
            entered = self._entered.result()
        except BaseException:  # interrupted
            if self._entered.exception() is None:
                self.leave(cancelled=True)
            raise
        atexit.register(self._leave_at_exit)
        if self._ended.done():
            atexit.unregister(self._leave_at_exit)
        return entered

    def call_soon(self, function: Callable[[], Awaitable[ResultT]]) -> Future[ResultT]:
        """Start a coroutine function in the event loop, and return the future of its outcome.

        Cancelling the future cancels the call, unless it was made in the thread itself.

        :raises Closed: if the block is over
        """
        with self._calling():
            if not self.is_current:
                return self._portal.start_task_soon(self._count, function)
            future: Future[ResultT] = Future()
            future.set_running_or_notify_cancel()
            self._tasks.start_soon(self._settle, future, function)
            return future

    def read(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a plain function in the event loop.

        :raises Closed: if the block is over
        """
        with self._calling():
            return function() if self.is_current else self._portal.call(function)

    def leave(self, *, cancelled: bool) -> None:
        """End the block, and wait for its end.

        The first interrupt of the wait cancels the block, the second one ends the wait.

        :param cancelled: whether to cancel the block, rather than let it end normally
        """
        if self.is_forked:
            return
        if self.is_current:
            self._scope.cancel()
            return
        try:
            self._end_by(self._scope.cancel if cancelled else self._leaving.set)
        except BaseException:
            self._end_by(self._scope.cancel)
            raise

    def _end_by(self, function: Callable[[], None]) -> None:
        with suppress(Closed):
            self.read(function)
        self._ended.result()  # not `join` alone: once interrupted, Python 3.11's takes the thread for ended
        self._thread.join()

    def _leave_at_exit(self) -> None:
        self.leave(cancelled=False)

    @contextmanager
    def _calling(self) -> Generator[None]:
        with self._lock:
            if self._over:
                raise Closed("the block has ended")
            self._coming += 1
        try:
            yield
        finally:
            with self._lock:
                self._coming -= 1

    # In the thread

    def _run(self) -> None:
        try:
            run_event_loop(self._hold_open, backend=self._backend)
        except BaseException as error:  # noqa: BLE001 - reported to the users of the thread
            self._fail(error)
        finally:
            self._ended.set_result(None)
            atexit.unregister(self._leave_at_exit)

    async def _hold_open(self) -> None:
        self._leaving, self._idle = anyio.Event(), anyio.Event()
        async with BlockingPortal() as self._portal, anyio.create_task_group() as self._tasks:
            with anyio.CancelScope() as self._scope:
                await self._hold_block_open()
            with self._lock:
                self._over = True
            while self._coming:  # each waits only for a turn of this loop
                await checkpoint()

    async def _hold_block_open(self) -> None:
        try:
            async with self._block as entered:
                self._entered.set_result(entered)
                await self._leaving.wait()
                await checkpoint()  # earlier calls have their first turn now, and are counted
                with anyio.move_on_after(self._patience):
                    while self._running:
                        self._idle = anyio.Event()
                        await self._idle.wait()
                if self._running:
                    self._scope.cancel()
                    await checkpoint()
        except Exception as error:  # noqa: BLE001 - as above, and in no exception group
            self._fail(error)

    async def _count(self, function: Callable[[], Awaitable[ResultT]]) -> ResultT:
        self._running += 1
        try:
            return await function()
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _settle(self, future: Future[ResultT], function: Callable[[], Awaitable[ResultT]]) -> None:
        try:
            result = await self._count(function)
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._over = True
        if not self._entered.done():
            self._entered.set_exception(error)
