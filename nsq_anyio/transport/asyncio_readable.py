"""Receives from a socket on asyncio without registering it with the event loop for each chunk.

`anyio.wait_readable` adds the socket to the loop's selector and removes it again for every wait: two system
calls and much Python code. With RDY 1, where every message waits for a round trip, that was 30 % of the
client's time and a quarter of the whole. Also, a plain future resumes its task in the loop's next iteration;
`_Arrival` does not wait for that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import anyio

from .event_loop import continues_in_callbacks

__all__ = ["AsyncioReadable"]


class _Arrival(asyncio.Future[bytes]):
    """A future that resumes its waiting task within the callback that receives the bytes.

    It overrides nothing that asyncio calls during a task's step: an exception of a signal handler there would
    leave the task waiting forever.
    """

    _waiting: Sequence[tuple[Callable[[Any], object], Context]] = ()
    _woken = False

    def bring(self, data: bytes) -> None:
        """Resume the task. Call it from the loop itself, never from another task."""
        self._waiting = self._callbacks
        ((wake_up, context),) = self._waiting
        self.remove_done_callback(wake_up)
        self.set_result(data)
        self._woken = True
        context.run(wake_up, self)

    def bring_late(self, data: bytes) -> None:
        """Complete an interrupted `bring`; the task resumes in the loop's next iteration."""
        if self._woken:
            return
        if not self._callbacks:
            for wake_up, context in self._waiting:
                self.add_done_callback(wake_up, context=context)
        if not self.done():
            self.set_result(data)


class AsyncioReadable:
    """Keeps a socket in the selector of the running loop from one wait to the next.

    The loop's callback receives the bytes and resumes the task before anything could cancel it, so no byte is
    lost. When bytes arrive while no task waits, the socket leaves the selector until one does: the system's
    buffer fills, and the peer has to wait.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._waiter: _Arrival | None = None
        self._max_bytes = 0
        self._watched = False

    @classmethod
    def where_possible(cls, sock: socket.socket) -> AsyncioReadable | None:
        """Return an instance for ``sock``; None if a callback of this event loop cannot resume tasks."""
        return cls(sock) if continues_in_callbacks() else None

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
        waiter = self._waiter = _Arrival(loop=self._loop)
        try:
            return await waiter
        finally:
            self._waiter = None

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
            waiter.bring(received[0])
        except (BlockingIOError, InterruptedError):
            return  # the socket was not readable after all
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None:
                waiter.set_exception(error)
                return
            # A signal handler raised, most likely right after the system call. The received bytes must not be
            # lost, because the loop and the task may continue.
            if received:
                waiter.bring_late(received[0])
            raise

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._socket.fileno())
