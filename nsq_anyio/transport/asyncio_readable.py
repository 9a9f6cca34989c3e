"""Receiving from a socket on asyncio, without asking the event loop anew for each chunk.

`anyio.wait_readable` enters the socket into the loop's selector and takes it out again for every wait: two
system calls and much Python. Where every message waits for a round trip (RDY 1) that was 30 % of the client's
time, and of the whole a quarter.
"""

from __future__ import annotations

import asyncio
import socket

import anyio
from anyio.lowlevel import checkpoint

from .event_loop import on_asyncio

__all__ = ["AsyncioReadable"]


class AsyncioReadable:
    """Keeps a socket in the selector of the running loop from one wait to the next.

    What has arrived is received in the loop's callback, as the selector would tell of it again before the
    waiting task's turn comes. When bytes arrive and nobody waits, the socket leaves the selector until
    somebody does: the system's buffer fills, and the peer has to wait.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[bytes] | None = None
        self._max_bytes = 0
        self._watched = False
        self._received = b""  # for a wait that was cancelled at that moment

    @classmethod
    def on_asyncio(cls, sock: socket.socket) -> AsyncioReadable | None:
        """One for ``sock``; None on another event loop than asyncio's, which tell of each wait."""
        return cls(sock) if on_asyncio() else None

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for bytes, and return them; none at the end of the stream.

        :raises OSError: if the connection broke
        :raises anyio.ClosedResourceError: if `close` was called meanwhile
        :raises anyio.BusyResourceError: if another task waits already
        """
        if self._waiter is not None:
            raise anyio.BusyResourceError("receiving from")
        if self._received:
            await checkpoint()
            data, self._received = self._received[:max_bytes], self._received[max_bytes:]
            return data
        self._max_bytes = max_bytes
        if not self._watched:
            self._loop.add_reader(self._socket.fileno(), self._readable)
            self._watched = True
        waiter: asyncio.Future[bytes] = self._loop.create_future()
        self._waiter = waiter
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._received = waiter.result()
            raise
        finally:
            self._waiter = None

    def close(self) -> None:
        """Leave the selector; whoever waits gets `anyio.ClosedResourceError`."""
        self._unwatch()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(anyio.ClosedResourceError())

    def _readable(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._unwatch()
            return
        try:
            waiter.set_result(self._socket.recv(self._max_bytes))
        except (BlockingIOError, InterruptedError):
            return  # the selector was wrong
        except OSError as error:
            waiter.set_exception(error)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._socket.fileno())
