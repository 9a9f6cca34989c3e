"""The writer task: the only one that sends, so that cancellation never cuts a frame.

Whoever has a command appends it whole to the `Outbox`, a plain function call; the writer wakes once and
sends all that is queued as one piece.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import ByteStream

__all__ = ["Outbox", "write"]


class Outbox:
    """Commands that wait to be sent, in order."""

    __slots__ = ("_closed", "_idle", "_items", "_sending", "_wake")

    def __init__(self) -> None:
        self._items: list[bytes] = []
        self._wake: anyio.Event | None = None
        self._idle: anyio.Event | None = None
        self._sending = False
        self._closed = False

    def put(self, command: bytes) -> None:
        """Queue one whole command; never blocks. After `close` it goes nowhere."""
        self._items.append(command)
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    async def take(self) -> bytes:
        """Wait for commands, and take all that are queued; nothing comes any more after `close`."""
        while self._closed or not self._items:
            self._wake = anyio.Event()
            await self._wake.wait()
        items, self._items = self._items, []
        self._sending = True
        return b"".join(items)

    def sent(self) -> None:
        """What `take` returned is with the kernel."""
        self._sending = False
        if not self._items:
            self._wake_idle()

    async def flushed(self) -> None:
        """Wait until nothing is queued or being sent, or the connection has ended."""
        while (self._items or self._sending) and not self._closed:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()

    def close(self) -> None:
        """Forget what is queued, and wake whoever waits: nothing is sent any more."""
        self._closed = True
        self._items.clear()
        self._wake_idle()

    def _wake_idle(self) -> None:
        if self._idle is not None:
            self._idle.set()
            self._idle = None


async def write(
    stream: ByteStream,
    outbox: Outbox,
    *,
    timeout: float,
    taken: Callable[[], None],
    sent: Callable[[], None],
) -> None:
    """Send what the outbox gets, until cancelled.

    :param timeout: seconds for one send, after which the peer counts as lost
    :param taken: called when queued commands are taken: from here on nsqd may execute them
    :param sent: called when they are with the kernel
    :raises TimeoutError: if the peer takes no bytes for ``timeout`` seconds
    """
    while True:
        data = await outbox.take()
        taken()
        with anyio.fail_after(timeout):
            await stream.send(data)
        outbox.sent()
        sent()
