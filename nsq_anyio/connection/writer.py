"""The writer task: the only one that sends, so that cancellation never cuts a frame.

Whoever has a command appends it whole to the `Outbox`, a plain function call; the writer wakes once and
sends all that is queued as one piece. Whoever knows that nothing will be added to it may send it at once
instead (`Outbox.put_last`): that is a plain function as well, and never does so in the middle of a send.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import ByteStream

__all__ = ["Outbox", "SendNow", "write"]

SendNow = Callable[[bytes], int]
"""Sends what the system takes without waiting, and returns how many bytes that were."""


class Outbox:
    """Commands that wait to be sent, in order.

    :param taken: called when queued commands are taken: from here on nsqd may execute them
    :ivar send_now: of the stream, if it has one
    """

    __slots__ = ("_closed", "_cut", "_idle", "_items", "_sending", "_taken", "_wake", "send_now")

    def __init__(self, taken: Callable[[], None]) -> None:
        self.send_now: SendNow | None = None
        self._taken = taken
        self._items: list[bytes] = []
        self._wake: anyio.Event | None = None
        self._idle: anyio.Event | None = None
        self._sending = False
        self._cut = False  # whether the first of the items is the rest of what was sent
        self._closed = False

    def put(self, command: bytes) -> None:
        """Queue one whole command; never blocks. After `close` it goes nowhere."""
        self._items.append(command)
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def put_first(self, command: bytes) -> None:
        """Queue a command ahead of the others."""
        self._items.insert(int(self._cut), command)

    def put_last(self, command: bytes) -> None:
        """Queue a command to which nothing will be added, as nsqd waits for it, and send all at once.

        As far as that needs no waiting; the writer gets the rest, and is not woken when there is none. It
        saves turns of the event loop, but costs a send of its own.
        """
        if self.send_now is None or self._sending or self._closed:
            self.put(command)
            return
        self._items.append(command)
        data = self._take_now()
        try:
            sent = self.send_now(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            sent = 0  # the writer meets the same, and ends the connection
        self._sending = False
        if sent < len(data):
            self._cut = True
            self.put(data[sent:])
        elif self._idle is not None:
            self._wake_idle()

    async def take(self) -> bytes:
        """Wait for commands, and take all that are queued; none if `put_last` was first.

        Nothing comes any more after `close`.
        """
        if self._closed or not self._items:
            self._wake = anyio.Event()
            await self._wake.wait()
        return self._take_now()

    def _take_now(self) -> bytes:
        if self._sending or self._closed or not self._items:
            return b""
        items, self._items = self._items, []
        self._sending = True
        self._cut = False
        self._taken()
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


async def write(stream: ByteStream, outbox: Outbox, *, timeout: float, sent: Callable[[], None]) -> None:
    """Send what the outbox gets, until cancelled.

    :param timeout: seconds for one send, after which the peer counts as lost
    :param sent: called when the kernel has what was queued; not for what `Outbox.put_last` sent
    :raises TimeoutError: if the peer takes no bytes for ``timeout`` seconds
    """
    while True:
        data = await outbox.take()
        if data:
            if outbox.send_now is not None:  # most sends need no waiting, and then no deadline either
                data = data[outbox.send_now(data) :]
            if data:
                with anyio.fail_after(timeout):
                    await stream.send(data)
            outbox.sent()
        sent()
