"""Receives from a socket on any event loop."""

from __future__ import annotations

import socket

import anyio


class AnyioReadable:
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
            await anyio.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue  # it was not readable after all
