"""What goes out to one client."""

from __future__ import annotations

import anyio

__all__ = ["MAX_UNSENT", "Output"]

MAX_UNSENT = 1024 * 1024
"""Bytes that may wait for a client; with more, it gets no messages and none of its commands are read."""


class Output:
    """The bytes that wait for one client; one task takes and sends them.

    :ivar unsent: bytes that the system has not taken yet
    """

    def __init__(self) -> None:
        self.unsent: int = 0
        self._parts: list[bytes] = []
        self._ended = False
        self._held = False
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
        """Let `wait_for_data` return nothing once everything has been taken."""
        self._ended = True
        self._added.set()

    async def wait_not_full(self) -> None:
        """Wait until the client has read enough."""
        while self.is_full:
            await self._sent.wait()

    async def hold(self) -> None:
        """Wait until everything is sent, and keep back what is added from then on, until `release`.

        Meanwhile the stream belongs to the caller alone.
        """
        while self.unsent:
            await self._sent.wait()
        self._held = True

    def release(self) -> None:
        """Let bytes be taken again."""
        self._held = False
        self._added.set()

    async def wait_for_data(self) -> bytes:
        """Wait for bytes, and take them all; none after `end`."""
        while self._held or not self._parts:
            if self._ended and not self._held:
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
