"""The inbox: messages between the readers and the tasks that take them.

The inbox is a deque whose length RDY bounds. It uses no lock, event or task per message. A taker that finds
messages goes on without yielding, except for a checkpoint every few dozen messages or few milliseconds.

A received chunk wakes one of the waiting takers, which wakes the next one if there is more than one message.
So handlers that never wait are all called by the same task, and handlers that wait overlap at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio
import anyio.lowlevel

from ..connection.busy_poll import BusyPoll
from ..events import Emitter
from ..transport.event_loop import LoopEvent, clock, event_class
from .message import Message
from .wrapping import Wrapping

_MESSAGES_PER_CHECKPOINT = 64
_SECONDS_PER_CHECKPOINT = 0.005


class Stop:
    """Ends the takers that check it, once it is `reached`."""

    __slots__ = ("reached",)

    def __init__(self) -> None:
        self.reached: bool = False


class MessageSource(Protocol):
    """A source of messages for the workers of `run`: the inbox, or a stage in front of it."""

    @property
    def stopped(self) -> bool:
        """Whether there are no more messages."""
        ...

    async def wait_stopped(self) -> None:
        """Wait until there are no more messages."""
        ...

    async def take(self, stop: Stop | None = None) -> Message:
        """Wait for a message; raise `StopAsyncIteration` once ``stop`` is reached or no more come."""
        ...

    def end(self, stop: Stop) -> None:
        """End the takers that check ``stop``."""
        ...


class Inbox:
    """Messages that wait to be taken.

    :param max_deliveries: messages with more attempts go to ``give_up`` and are not returned
    :param give_up: answers such a message, or one whose last attempt failed with an error
    """

    def __init__(
        self, max_deliveries: int, give_up: Callable[[Message, BaseException | None], Awaitable[None]]
    ) -> None:
        self._messages: deque[Message] = deque()
        self._failed: deque[tuple[Message, BaseException]] = deque()
        self._takers: deque[LoopEvent] = deque()
        self._woken = 0  # takers that have not run since they were woken
        self._new_event: Callable[[], LoopEvent] | None = None  # found in the event loop, like the clock
        self._clock: Callable[[], float] = anyio.current_time
        self._max_deliveries = max_deliveries
        self._give_up = give_up
        self._busy_poll: BusyPoll | None = None
        self._stop = Stop()
        self._stopped = anyio.Event()
        self._now = 0.0
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._messages) + len(self._failed)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.reached

    @property
    def is_awaited(self) -> bool:
        """Whether a taker waits for a message."""
        return bool(self._takers)

    def put(self, messages: Sequence[Message], now: float) -> None:
        """Add the messages of one chunk, and wake a taker."""
        self._now = now
        self._messages.extend(messages)
        if self._takers:
            self._wake_next()

    def poll_next(self, busy_poll: BusyPoll | None) -> None:
        """Have the next taker poll if it finds no message: the answer just sent may bring one at once."""
        self._busy_poll = busy_poll

    def put_back(self, messages: Sequence[Message]) -> None:
        """Return messages that were taken but not started to the front of the inbox."""
        # Meanwhile they may have timed out, or their connection may have ended.
        held = [message for message in messages if message._arrival.delegate.holds(message)]
        if self._stop.reached:
            for message in held:
                message.requeue(0, backoff=False)
            return
        self._messages.extendleft(reversed(held))
        self._wake_next()

    def put_failed(self, message: Message, error: BaseException) -> None:
        """Add a message that failed for good with ``error``, so that the next taker gives it up."""
        self._failed.append((message, error))
        self._wake_next()

    async def give_up_failed(self) -> None:
        """Give up the messages of `put_failed` that no taker has given up yet."""
        while self._failed:
            await self._give_up(*self._failed.popleft())

    def update_time(self, now: float) -> None:
        """Update the cached time, which is used to skip expired messages."""
        self._now = now

    def discard(self, gone: Callable[[Message], bool]) -> None:
        """Drop the messages for which ``gone`` is true: nsqd no longer waits for their answers."""
        kept = [message for message in self._messages if not gone(message)]
        self._messages.clear()
        self._messages.extend(kept)

    def waiting(self) -> list[Message]:
        """Return the messages that no task has taken."""
        return list(self._messages)

    def stop(self) -> list[Message]:
        """End all takers, and return the messages that no task has taken."""
        left = list(self._messages)
        self._messages.clear()
        self._stopped.set()
        self.end(self._stop)
        return left

    async def wait_stopped(self) -> None:
        """Wait until `stop` is called."""
        await self._stopped.wait()

    def end(self, stop: Stop) -> None:
        """End the takers that check ``stop``, including waiting ones."""
        stop.reached = True
        self._wake(len(self._takers))

    async def take(self, stop: Stop | None = None) -> Message:
        """Wait for a message that is neither past its deadline nor past ``max_deliveries``.

        :param stop: ends this taker; None for a taker that ends when the inbox is stopped
        :raises StopAsyncIteration: once ``stop`` is reached, or, without it, once the inbox is stopped
        """
        stop = stop or self._stop
        while True:
            if stop.reached:
                self._wake_next()  # this taker may have been woken for a message that others have to take
                raise StopAsyncIteration
            # While messages are plentiful, only a checkpoint lets other tasks run, such as the writer.
            if (
                self._since_checkpoint >= _MESSAGES_PER_CHECKPOINT
                or time.monotonic() - self._checkpoint_at > _SECONDS_PER_CHECKPOINT
            ):
                await anyio.lowlevel.checkpoint()
                self._note_checkpoint()
                continue  # `stop` may have been reached meanwhile, and would not wake this taker
            if self._failed:
                await self.give_up_failed()
                continue
            if not self._messages:
                busy_poll, self._busy_poll = self._busy_poll, None
                if busy_poll is not None:
                    await busy_poll.poll()
                else:
                    await self._wait_for_put()
                continue
            message = self._messages.popleft()
            self._since_checkpoint += 1
            if message._arrival.deadline <= self._now:
                continue  # nsqd has requeued it; `InFlight.expire` counts it
            if message.attempts > self._max_deliveries:
                await self._give_up(message, None)
                continue
            return message

    async def wait(self, stop: Stop | None = None) -> None:
        """Wait until messages are put in, or this taker is ended.

        :raises StopAsyncIteration: once `stop` was called, or ``stop`` is reached
        """
        if self._stop.reached or (stop is not None and stop.reached):
            raise StopAsyncIteration
        await self._wait_for_put()

    def take_ready(self, most: int) -> list[Message]:
        """Take up to ``most`` messages that `take` would return without waiting, in one step.

        They count towards the next checkpoint of `take`.
        """
        messages = self._messages
        count = min(most, len(messages))
        taken = [messages.popleft() for _ in range(count)]
        now, max_deliveries = self._now, self._max_deliveries
        for place, message in enumerate(taken):
            if message.attempts > max_deliveries:
                messages.extendleft(reversed(taken[place:]))  # `take` gives it up
                taken = taken[:place]
                break
        self._since_checkpoint += len(taken)
        return [message for message in taken if message._arrival.deadline > now]

    def _note_checkpoint(self) -> None:
        self._since_checkpoint = 0
        self._checkpoint_at = time.monotonic()
        self._now = self._clock()

    async def _wait_for_put(self) -> None:
        if self._new_event is None:
            self._new_event, self._clock = event_class(), clock()
        event = self._new_event()
        self._takers.append(event)
        try:
            await event.wait()
        except BaseException:
            if event.is_set:
                self._woken -= 1
                self._wake_next()  # its message is left for another taker
            else:
                self._takers.remove(event)
            raise
        self._woken -= 1
        if len(self) > 1:
            self._wake_next()
        self._note_checkpoint()

    def _wake_next(self) -> None:
        """Wake a taker, unless one is awake that has not run yet, or there is nothing to take."""
        if not self._woken and len(self):
            self._wake(1)

    def _wake(self, count: int) -> None:
        for _ in range(min(count, len(self._takers))):
            self._woken += 1
            self._takers.popleft().set()


class Feed:
    """Takes many messages at a time. Made by `Consumer._feed`.

    :param offer: raises ``max_in_flight`` to what the takers can use, unless the user has set it
    :ivar emit: reports events of messages
    :ivar wrapping: the consumer's middleware; None if there is none
    """

    def __init__(
        self, inbox: Inbox, offer: Callable[[int], None], emit: Emitter, wrapping: Wrapping | None
    ) -> None:
        self.emit: Emitter = emit
        self.wrapping: Wrapping | None = wrapping
        self.offer: Callable[[int], None] = offer
        self._inbox = inbox

    async def take(self, most: int) -> list[Message]:
        """Wait for a message, and take it with up to ``most - 1`` others that are waiting.

        :raises StopAsyncIteration: once the consumer is stopped
        """
        first = await self._inbox.take()
        return [first, *self._inbox.take_ready(most - 1)]

    def take_ready(self, most: int) -> list[Message]:
        """Take up to ``most`` messages that are waiting."""
        return self._inbox.take_ready(most)
