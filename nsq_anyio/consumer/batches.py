"""Taking messages in batches."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from .inbox import Inbox
from .message import Message

__all__ = ["Batches"]


class Batches:
    """An iterator of batches. Made by `Consumer.batches`.

    :param is_starved: whether waiting for more messages may be in vain
    """

    def __init__(self, inbox: Inbox, max_size: int, max_wait: float, is_starved: Callable[[], bool]) -> None:
        self._inbox = inbox
        self._max_size = max_size
        self._max_wait = max_wait
        self._is_starved = is_starved

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> list[Message]:
        """Wait for the next batch, of one message at least."""
        while True:
            batch = await self._collect()
            # While more were waited for, the first ones may have timed out or lost their connection.
            now = anyio.current_time()
            held = [
                message
                for message in batch
                if message.delivery.deadline > now and message.delivery.delegate.holds(message)
            ]
            if held:
                return held

    async def _collect(self) -> list[Message]:
        """Wait for a first message, then for more until the batch is full, late, or starved."""
        inbox = self._inbox
        batch = [await inbox.take()]
        try:
            with anyio.move_on_after(self._max_wait):
                while len(batch) < self._max_size:
                    batch += inbox.take_ready(self._max_size - len(batch))
                    # What is left there is to be given up. That takes as long as `on_give_up` does, which
                    # neither the others should wait for nor `max_wait` cut short: the next batch begins so.
                    if len(batch) == self._max_size or len(inbox) or self._is_starved():
                        break
                    await inbox.wait()
        except StopAsyncIteration:
            pass  # the last batch; the next call raises it again
        except BaseException:
            inbox.put_back(batch)
            raise
        return batch
