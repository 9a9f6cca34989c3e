"""Taking messages in batches."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..consumer import Message as AsyncMessage
from ..consumer.batches import shareable
from ..errors import Closed
from .exchange import Exchange
from .handover import Over
from .message import Message


class Batches:
    """Collects lists of messages. Made by `Consumer.batches`.

    :param max_size: the most messages in a batch
    :param max_wait: seconds to wait for more messages after the first one
    :param max_attempts: from this attempt on, a message whose handling fails is given up; 0 for never
    :param is_starved: whether no more messages may come before the ones in flight are answered
    """

    def __init__(
        self,
        exchange: Exchange,
        max_size: int,
        max_wait: float,
        max_attempts: int,
        is_starved: Callable[[], bool],
    ) -> None:
        self._exchange = exchange
        self._max_size = max_size
        self._max_wait = max_wait
        self._max_attempts = max_attempts
        self._is_starved = is_starved

    def take(self) -> list[Message]:
        """Wait for the next batch of at least one message.

        :raises Over: if no more messages come
        """
        while True:
            batch = self._collect()
            # While the batch was filling, its first messages may have timed out or lost their connection.
            held = [message for message in batch if self._exchange.handover.is_current(message)]
            if held:
                return [Message(message, self._exchange) for message in held]

    def _collect(self) -> list[AsyncMessage]:
        """Wait for a first message, then for more until the batch is full, time is up, or it is starved."""
        handover, stop = self._exchange.handover, self._exchange.stopping
        batch: list[AsyncMessage] = []
        try:
            first = handover.take(None, stop)
            if first is None:
                return batch
            batch.append(first)
            if not shareable(batch, self._max_attempts):
                return batch
            deadline = time.monotonic() + self._max_wait
            while len(batch) < self._max_size:
                if self._add(batch, handover.take_ready(self._max_size - len(batch))) or self._has_all(batch):
                    break
                if not handover.wait(deadline, stop):
                    break
        except Over:
            if not batch:
                raise
        except BaseException:
            handover.put_back(batch)  # interrupted
            raise
        return batch

    def _has_all(self, batch: list[AsyncMessage]) -> bool:
        """Whether no more messages may come before some are answered."""
        try:
            if not self._is_starved():
                return False
        except Closed:
            return True
        # Some of the messages in flight may still be on their way to this thread.
        self._add(batch, self._exchange.take_ready(self._max_size - len(batch)))
        return True

    def _add(self, batch: list[AsyncMessage], taken: list[AsyncMessage]) -> bool:
        """Add what may share the batch; return whether that ends it."""
        count = shareable(taken, self._max_attempts)
        batch += taken[:count]
        if count < len(taken):
            self._exchange.handover.put_back(taken[count:])
            return True
        return len(batch) == self._max_size
