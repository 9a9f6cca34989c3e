"""The consumer behind one call of `NsqBroker.listen`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ...consumer import Consumer, Message
from ..held import Held
from .delivery import Delivery


class Listener:
    """Takes all messages as they arrive, so that messages that wait for taskiq are touched, too.

    `stop` hands back the messages that taskiq has not taken. The consumer stays until taskiq has answered the
    others.

    :param block: the consumer's block
    :param keep_alive: whether to touch messages
    :param when_ended: called with the listener when the consumer's block has ended
    """

    def __init__(
        self,
        block: AbstractAsyncContextManager[Consumer],
        *,
        keep_alive: bool,
        when_ended: Callable[[Listener], None],
    ) -> None:
        self._keep_alive = keep_alive
        self._waiting: deque[Delivery] = deque()
        self._unanswered: set[Delivery] = set()
        self._changed = asyncio.Event()
        self._consumer: Consumer | None = None
        self._is_stopped = False
        self._when_ended = when_ended
        self._held = Held(block, self._take_all, self._ended)

    async def open(self) -> None:
        """Subscribe.

        :raises Exception: the exception of the consumer's block
        """
        self._consumer = await self._held.open()

    async def next(self) -> Delivery:
        """Wait for the next message.

        :raises Exception: the exception that has ended the consumer's block
        :raises Closed: if the broker is shut down
        """
        while True:
            while self._waiting:
                delivery = self._waiting.popleft()
                if delivery.is_held:
                    return delivery
                delivery.end()
            _ = self._held.value  # raises if there is nothing more to come
            self._changed.clear()
            await self._changed.wait()

    @property
    def waiting(self) -> int:
        """The number of messages that wait for taskiq, including messages that have timed out meanwhile."""
        return len(self._waiting)

    def stop(self) -> None:
        """Take no more messages, and hand back the messages that taskiq has not taken."""
        self._is_stopped = True
        if self._consumer is not None:
            # First, so that nsqd does not push handed-back messages to this consumer again.
            self._consumer.stop()
        while self._waiting:
            self._waiting.popleft().hand_back()
        self._end_if_idle()

    async def close(self) -> None:
        """Hand back all messages, and disconnect.

        :raises Exception: the exception that has ended the consumer's block before
        """
        if not self._held.loop_is_closed:
            self.stop()
        await self._held.close()

    async def _take_all(self, consumer: Consumer) -> None:
        consumer._take_ahead()
        async for message in consumer:
            self._add(message, consumer.max_in_flight)

    def _add(self, message: Message, limit: int) -> None:
        if len(self._waiting) > limit:  # then some have timed out, since at most ``limit`` are in flight
            expired = [delivery for delivery in self._waiting if not delivery.is_held]
            self._waiting = deque(delivery for delivery in self._waiting if delivery.is_held)
            for delivery in expired:
                delivery.end()
        delivery = Delivery(message, self._forget, keep_alive=self._keep_alive)
        self._unanswered.add(delivery)
        self._waiting.append(delivery)
        self._changed.set()

    def _forget(self, delivery: Delivery) -> None:
        self._unanswered.discard(delivery)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_stopped and not self._unanswered:
            self._held.close_soon()

    def _ended(self) -> None:
        for delivery in list(self._unanswered):
            delivery.end()
        self._changed.set()
        self._when_ended(self)
