"""Receives from a socket on Trio, without the coroutines in which AnyIO finds out that this is Trio."""

from __future__ import annotations

import socket

import anyio
import trio


class TrioReadable:
    """Waits for a socket, and receives from it. `anyio.notify_closing` ends the wait."""

    holds_bytes = False
    """Never: the task that waits receives them itself."""

    def __init__(self, sock: socket.SocketType) -> None:
        self._socket = sock

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for bytes and return them; b"" at the end of the stream.

        :raises OSError: if the connection broke
        :raises anyio.ClosedResourceError: if the socket was closed meanwhile
        :raises anyio.BusyResourceError: if another task is already waiting
        """
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue  # it was not readable after all
            except trio.ClosedResourceError:
                raise anyio.ClosedResourceError from None
            except trio.BusyResourceError:
                raise anyio.BusyResourceError("receiving from") from None
