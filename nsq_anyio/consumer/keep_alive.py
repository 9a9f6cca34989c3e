"""Keep-alive: messages are touched half-way to each deadline, or nsqd would requeue them.

One task of the consumer touches all messages. A task group for each message would cost more than handling
the message. Only the user's task could close such a group, but an async generator that is abandoned inside
the block is closed by another task.
"""

from __future__ import annotations

import math
from collections import Counter

import anyio

from .message import Message


class Touching:
    """Touches each message half-way to each of its deadlines, for `Message.keep_alive`."""

    def __init__(self) -> None:
        self._touch_at: dict[Message, float] = {}
        self._begun: Counter[Message] = Counter()
        self._next_check = math.inf
        self._earlier = anyio.Event()

    def begin(self, message: Message) -> None:
        self._begun[message] += 1
        at = self._touch_at[message] = (anyio.current_time() + message.deadline) / 2
        if at < self._next_check:
            self._earlier.set()

    def end(self, message: Message) -> None:
        self._begun[message] -= 1
        if not self._begun[message]:
            del self._begun[message]
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
            if not message.responded and message._arrival.delegate.holds(message):
                message.touch()
            if message.deadline > before:
                self._touch_at[message] = (now + message.deadline) / 2
            else:  # nsqd allows no more time, or no longer waits for it
                del self._touch_at[message]
