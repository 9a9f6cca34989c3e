"""Receives from a socket on asyncio without registering it with the event loop for each chunk.

`anyio.wait_readable` adds the socket to the loop's selector and removes it again for every wait: two system
calls and much Python code. With RDY 1, where every message waits for a round trip, that was 30 % of the
client's time and a quarter of the whole. The task is resumed within the callback (`resuming.py`).
"""

from __future__ import annotations

import asyncio
import select
import socket

import anyio

from .resuming import resume


class AsyncioReadable:
    """Keeps a socket in the selector of the running loop, which `continues_in_callbacks`, from wait to wait.

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
