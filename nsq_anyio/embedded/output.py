"""What goes out to one client."""

from __future__ import annotations

import anyio

__all__ = ["MAX_UNSENT", "Output"]

MAX_UNSENT = 1024 * 1024
"""Bytes that may wait for a client; with more, it gets no messages and none of its commands are read."""


class Output:
    """The bytes that wait for one client; only its `send_to` writes to the stream.

    :ivar unsent: bytes that the system has not taken yet
    """

    def __init__(self) -> None:
        self.unsent: int = 0
        self._parts: list[bytes] = []
        self._ended = False
        self._added = anyio.Event()
        self._sent = anyio.Event()

    def add(self, data: bytes) -> None:
        """Send ``data`` soon; what is added in one scheduling turn goes out together."""
        if not self._parts:
            self._added.set()
        self._parts.append(data)
        self.unsent += len(data)

    @property
    def is_full(self) -> bool:
        """Whether the client is behind with reading."""
        return self.unsent >= MAX_UNSENT

    def end(self) -> None:
        """Let `send_to` return once everything is sent."""
        self._ended = True
        self._added.set()

    async def wait_not_full(self) -> None:
        """Wait until the client has read enough."""
        while self.is_full:
            await self._sent.wait()

    async def wait_for_data(self) -> bytes:
        """Wait for bytes, and take them all; none after `end`."""
        while not self._parts:
            if self._ended:
                return b""
            self._added = anyio.Event()
            await self._added.wait()
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def note_sent(self, count: int) -> None:
        """Note that the system took ``count`` bytes."""
        self.unsent -= count
        self._sent.set()
        self._sent = anyio.Event()
