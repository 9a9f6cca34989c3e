"""Touches messages while they are being delivered, because a server can take longer than nsqd waits."""

from __future__ import annotations

import math

import anyio

from ...consumer import Message

__all__ = ["Touching"]


class Touching:
    """Touches each message half-way to each of its deadlines, as `Message.keep_alive` does.

    One task does it for all messages. `Message.keep_alive` has a task for each, which costs more than sending
    the message.
    """

    def __init__(self) -> None:
        self._touch_at: dict[Message, float] = {}
        self._next_check = math.inf
        self._earlier = anyio.Event()

    def begin(self, message: Message) -> None:
        """Touch this message, until `end`."""
        at = self._touch_at[message] = (anyio.current_time() + message.deadline) / 2
        if at < self._next_check:
            self._earlier.set()

    def end(self, message: Message) -> None:
        """Touch this message no more."""
        self._touch_at.pop(message, None)

    async def run(self) -> None:
        """Touch messages, until cancelled."""
        while True:
            self._earlier = anyio.Event()
            now = anyio.current_time()
            self._touch_due(now)
            self._next_check = min(self._touch_at.values(), default=math.inf)
            with anyio.move_on_after(self._next_check - now):
                await self._earlier.wait()

    def _touch_due(self, now: float) -> None:
        for message in [message for message, at in self._touch_at.items() if at <= now]:
            before = message.deadline
            if not message.responded:
                message.touch()
            if message.deadline > before:
                self._touch_at[message] = (now + message.deadline) / 2
            else:  # nsqd allows no more time, or no longer waits for it
                del self._touch_at[message]
