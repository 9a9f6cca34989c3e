"""asyncio's events and sockets, whose waiting tasks are resumed within the callback of the event loop.

asyncio completes a future by scheduling the wake-up of its task, which then runs in the loop's next
iteration. An iteration costs a system call and as much Python code as a whole publish. A socket's callback
that has received bytes runs the wake-ups itself, in three rounds: the task that waits for the bytes; the
tasks whose events that task sets, such as the publisher of an answered message; and the tasks whose events
these tasks set, such as the writer of the next message. Tasks that the third round wakes run in the next
iteration, so that other tasks are not kept waiting.

A task is never resumed from within another one. A future that is cancelled before its task resumes stays
cancelled. The mechanism reads two private attributes of asyncio: the callbacks of a future, and the future
that a task waits for. It checks both each time, and leaves the task to the loop if they are not as expected.

`anyio.wait_readable` adds the socket to the loop's selector and removes it again for every wait: two system
calls and much Python code. With RDY 1, where every message waits for a round trip, that was 30 % of the
client's time and a quarter of the total. So `AsyncioReadable` keeps the socket in the selector.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

ResultT = TypeVar("ResultT")


class _Callback(threading.local):
    """The callback of this thread's event loop that is resuming tasks.

    :ivar woken: collects the futures of the events that are set; None outside of such a callback
    """

    woken: list[asyncio.Future[None]] | None = None


_callback = _Callback()


def resume(waiter: asyncio.Future[ResultT], result: ResultT) -> None:
    """Complete a future, and run the task that waits for it.

    Then run the tasks that this task wakes by events, and then the tasks that they wake.

    It must be the last call of a callback. An exception of a task or of a signal handler is raised here, and
    each future is completed nevertheless.
    """
    if asyncio.current_task() is not None:  # the callback runs in a loop that is nested in a task
        waiter.set_result(result)
        return
    later = list[asyncio.Future[None]]()
    woken = _callback.woken = list[asyncio.Future[None]]()
    try:
        _complete(waiter, result)
        _callback.woken = later
        for each in woken:
            _complete(each, None)
        _callback.woken = None  # tasks that are woken from here on run in the loop's next iteration
        for each in later:
            _complete(each, None)
    except BaseException:
        for each in (*woken, *later):
            if not each.done():
                each.set_result(None)
        raise
    finally:
        _callback.woken = None


def _complete(waiter: asyncio.Future[ResultT], result: ResultT) -> None:
    """Complete a future, and run the task that waits for it, unless it was cancelled."""
    if waiter.done():
        return
    wake_up: Callable[[Any], object] | None
    context: Context | None
    try:
        # Private to asyncio, so checked each time: if anything differs, the loop resumes the task.
        ((wake_up, context),) = waiter._callbacks
        if wake_up.__self__._fut_waiter is not waiter:  # type: ignore[attr-defined]
            wake_up = None
    except (AttributeError, TypeError, ValueError):
        wake_up = context = None
    if wake_up is None or context is None:
        waiter.set_result(result)
        return
    runs = False
    try:
        waiter.remove_done_callback(wake_up)
        waiter.set_result(result)
        runs = True
        context.run(wake_up, waiter)
    except BaseException:
        if not runs:  # a signal handler raised: leave the task to the loop, or it would wait forever
            if not waiter._callbacks:
                waiter.add_done_callback(wake_up, context=context)
            if not waiter.done():
                waiter.set_result(result)
        raise


class AsyncioEvent:
    """`LoopEvent` on asyncio and uvloop: a future for each waiting task, usually one."""

    __slots__ = ("_others", "_waiter", "is_set")

    def __init__(self) -> None:
        self.is_set: bool = False
        self._waiter: asyncio.Future[None] | None = None
        self._others: list[asyncio.Future[None]] | None = None

    def set(self) -> None:
        self.is_set = True
        if self._waiter is None:
            return
        woken = [self._waiter, *(self._others or ())]
        self._waiter = self._others = None
        if (collected := _callback.woken) is not None:
            collected += woken
            return
        for waiter in woken:
            if not waiter.done():  # the task was not cancelled
                waiter.set_result(None)

    def wait(self) -> Awaitable[None]:
        if self.is_set:
            return checkpoint()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiter is None:
            self._waiter = waiter
        elif self._others is None:
            self._others = [waiter]
        else:
            self._others.append(waiter)
        return waiter


class AsyncioReadable:
    """Keeps a socket in the selector of the running loop from wait to wait; needs `continues_in_callbacks`.

    The loop's callback receives the bytes and resumes the task before anything could cancel it, so no byte is
    lost. When bytes arrive while no task waits, the socket leaves the selector until one does: the system's
    buffer fills, and the peer has to wait.
    """

    def __init__(self, sock: socket.SocketType) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[bytes] | None = None
        self._max_bytes = 0
        self._watched = False
        self._errors: select.poll | None = None
        if not isinstance(self._loop, asyncio.SelectorEventLoop):
            self._errors = select.poll()
            self._errors.register(sock, 0)  # errors are reported in any case, and nothing else is

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for bytes and return them; b"" at the end of the stream.

        :raises OSError: if the connection broke
        :raises anyio.ClosedResourceError: if `close` was called meanwhile
        :raises anyio.BusyResourceError: if another task is already waiting
        """
        if self._waiter is not None:
            raise anyio.BusyResourceError("receiving from")
        self._max_bytes = max_bytes
        if not self._watched:
            self._loop.add_reader(self._socket.fileno(), self.on_readable)
            self._watched = True
        waiter: asyncio.Future[bytes] = self._loop.create_future()
        self._waiter = waiter
        try:
            return await waiter
        finally:
            self._waiter = None

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes were received for a task that has not run since."""
        return self._waiter is not None and self._waiter.done()

    def close(self) -> None:
        """Leave the selector; a waiting task gets `anyio.ClosedResourceError`."""
        self._unwatch()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(anyio.ClosedResourceError())

    def on_readable(self) -> None:
        """Receive for the task that waits. The event loop calls it when the socket is readable."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unwatch()
            return
        received: list[bytes] = []
        try:
            received.extend(map(self._socket.recv, (self._max_bytes,)))  # all in C: no signal handler runs
            if self._errors is not None and self._errors.poll(0):
                # libuv has stopped watching the socket, which it does at an error (a reset that came right
                # behind these bytes). Only a new watch reports it to the next `receive`.
                self._unwatch()
            resume(waiter, received[0])
        except BaseException as error:
            if received:
                # A signal handler raised, or a task. The received bytes must not be lost, because the loop
                # may continue.
                if not waiter.done():
                    waiter.set_result(received[0])
                raise
            if isinstance(error, BlockingIOError | InterruptedError):
                return  # the socket was not readable after all
            if not isinstance(error, OSError) or error.errno is None:
                raise  # from a signal handler
            waiter.set_exception(error)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._socket.fileno())
