"""Batches of messages, and the iterator that collects them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

import anyio

from ..errors import Discard, Requeue
from ..exceptions import only_error
from ..middleware import Around
from .inbox import Inbox, Stop
from .message import Handling, Message, finish_all
from .wrapping import Wrapping, entered, is_in_generator, left


class Batch(list[Message]):
    """A list of messages. Made by `Consumer.batches`.

    At its end, an ``async with batch:`` block answers the messages that are still unanswered: FIN when the
    block ends normally, REQ when it raises. `Requeue` and `Discard` apply to each of them, and do not leave
    the block; any other exception does. If the block is cancelled, the messages are requeued without a delay,
    and backoff does not count that as a failure.
    """

    __slots__ = ("_around", "_entered", "_wrapping")

    def __init__(self, messages: Iterable[Message] = (), wrapping: Wrapping | None = None) -> None:
        super().__init__(messages)
        self._wrapping = wrapping
        self._around: Around[Handling] | None = None
        self._entered: tuple[Message, ...] = ()

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        """Touch the unanswered messages while a block runs, as `Message.keep_alive` does for one.

        ::

            async with batch, batch.keep_alive():
                await something_long(batch)
        """
        async with AsyncExitStack() as stack:
            for message in self:
                await stack.enter_async_context(message.keep_alive())
            yield self

    async def __aenter__(self) -> Self:
        self._entered = tuple(self)
        if self._wrapping is not None and self._entered:
            around = self._wrapping.around(self._entered, in_generator=is_in_generator())
            self._around = await entered(around, self._end_block)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        around, self._around = self._around, None
        return await left(around, exc_type, exc, traceback, self._end_block)

    async def _end_block(self, error: BaseException | None) -> bool:
        if error is None:
            finish_all([message for message in self._entered if not message.responded])
            return False
        left = list(self._entered)
        try:
            while left:
                await left[0]._end_block(error)
                left.pop(0)
        except BaseException as cut_short:  # while a dead letter was being published
            for message in left:
                message._answer_for(cut_short)
            raise
        return isinstance(only_error(error), Requeue | Discard)


class Batches:
    """An iterator over batches. Made by `Consumer.batches`.

    :param max_size: the most messages in a batch
    :param max_wait: seconds to wait for more messages after the first one
    :param max_attempts: from this attempt on, a message whose handling fails is given up; 0 for never
    :param is_starved: whether no more messages may come before the ones in flight are answered
    :param wrapping: the middleware around the blocks of batches; None if there is none
    """

    def __init__(
        self,
        inbox: Inbox,
        max_size: int,
        max_wait: float,
        max_attempts: int,
        is_starved: Callable[[], bool],
        wrapping: Wrapping | None,
    ) -> None:
        self._inbox = inbox
        self._max_size = max_size
        self._max_wait = max_wait
        self._max_attempts = max_attempts
        self._is_starved = is_starved
        self._wrapping = wrapping

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch:
        """Wait for the next batch. A cancelled wait leaves its messages to the next task that waits."""
        return await self.take()

    async def take(self, stop: Stop | None = None) -> Batch:
        """Wait for the next batch of at least one message.

        :param stop: ends this taker, which then puts back the messages that it has collected; None for a
            taker that returns a last batch when the inbox stops
        :raises StopAsyncIteration: once ``stop`` is reached, or, without it, once the inbox has stopped
        """
        while True:
            batch = await self._collect(stop)
            if stop is not None and (stop.reached or self._inbox.stopped):
                self._inbox.put_back(batch)
                continue
            # While the batch was filling, its first messages may have timed out or lost their connection.
            now = anyio.current_time()
            held = [
                message
                for message in batch
                if message._arrival.deadline > now and message._arrival.delegate.holds(message)
            ]
            if held:
                return Batch(held, self._wrapping)

    async def _collect(self, stop: Stop | None) -> list[Message]:
        """Wait for a first message, then for more until the batch is full, time is up, or it is starved."""
        inbox = self._inbox
        batch = [await inbox.take(stop)]
        if not shareable(batch, self._max_attempts):
            return batch
        try:
            with anyio.move_on_after(self._max_wait):
                while len(batch) < self._max_size:
                    taken = inbox.take_ready(self._max_size - len(batch))
                    count = shareable(taken, self._max_attempts)
                    batch += taken[:count]
                    if count < len(taken):
                        inbox.put_back(taken[count:])
                    # The messages still in the inbox must be given up, or come alone. `on_give_up` may take
                    # long: this batch must not wait for it, and `max_wait` must not cut it short.
                    if len(batch) == self._max_size or len(inbox) or self._is_starved():
                        break
                    await inbox.wait(stop)
        except StopAsyncIteration:
            pass  # the next call raises it again
        except BaseException:
            inbox.put_back(batch)
            raise
        return batch


def shareable(messages: Sequence[Message], max_attempts: int) -> int:
    """Return how many messages come before the first that gets a batch of its own.

    Such a message was delivered before, and is given up if its handling fails now. A batch fails as a whole,
    and one bad message must not have the others given up.
    """
    if max_attempts:
        for place, message in enumerate(messages):
            if message.attempts > 1 and message.attempts >= max_attempts:
                return place
    return len(messages)
