"""Takes every message that waits in a channel once, and puts back those that were not finished.

Messages that are not finished are held until the end, because a message that is put back earlier would come
again. A connection holds at most nsqd's --max-rdy-count messages, so when one is full, another takes over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

import anyio
import click

from ...consumer import Consumer, Message, consume
from ..flags.connection import ConsumerFlags
from ..flags.source import Source
from ..reach import check_reachable
from .flags import HELD_BY_ONE

__all__ = ["Visit", "Walk"]

T = TypeVar("T")

Visit = Callable[[Sequence[Message]], Awaitable[None]]
"""Called with messages; finishes those that should leave the channel."""

_BATCH = 500
_GATHER = 0.02
_NANO = 1e9
_PATIENCE = 10.0
"""Seconds until an nsqd must have accepted a subscription."""
_MAX_SLEEP = 0.5


class Walk:
    """Visits the messages that wait in a channel, each once.

    :param wait: seconds without a message after which the walk ends
    :param only_earlier: whether to skip messages that were published after the walk began, by the clock of
        this machine. Otherwise a message that fails again after a retry would be retried for ever
    :ivar nsqds: the addresses of the nsqds that were connected first
    """

    def __init__(
        self,
        source: Source,
        flags: ConsumerFlags,
        topic: str,
        channel: str,
        *,
        wait: float,
        only_earlier: bool = False,
    ) -> None:
        self.nsqds: tuple[str, ...] = ()
        self._source = source
        self._flags = flags.never_giving_up()
        self._topic = topic
        self._channel = channel
        self._wait = wait
        self._until = time.time() * _NANO if only_earlier else math.inf
        self._held: dict[Message, float] = {}  # when each is to be touched
        self._stack = AsyncExitStack()
        self._seen: set[tuple[str, str]] = set()

    async def run(self, visit: Visit, stop: anyio.Event) -> None:
        """Visit all messages; return when there are no more or ``stop`` is set.

        :raises click.ClickException: if no nsqd can be reached
        :raises NSQError: as `consume` does
        """
        await check_reachable(self._source, self._flags)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._touch)
            async with self._stack:
                consumers: list[Consumer] = []
                try:
                    while not stop.is_set():
                        consumer = await self.enter(self._consume())
                        consumers.append(consumer)
                        if not await self._empty(consumer, visit, stop):
                            break
                finally:
                    for consumer in consumers:
                        consumer.stop()  # or one would receive what another puts back
            tasks.cancel_scope.cancel()

    async def enter(self, block: AbstractAsyncContextManager[T]) -> T:
        """Enter a block that lasts until the walk ends; to be called in a visit."""
        return await self._stack.enter_async_context(block)

    def _consume(self) -> AbstractAsyncContextManager[Consumer]:
        is_given = "max_in_flight" in self._flags.given
        return consume(
            self._topic,
            self._channel,
            nsqd=self._source.nsqd,
            nsqlookupd=self._source.nsqlookupd,
            max_in_flight=self._flags.max_in_flight if is_given else HELD_BY_ONE,
            options=self._flags.options,
            connection=self._flags.connection,
        )

    async def _empty(self, consumer: Consumer, visit: Visit, stop: anyio.Event) -> bool:
        """Visit the messages of one consumer; return whether more may wait for which it has no room."""
        with anyio.move_on_after(_PATIENCE) as patience:
            await consumer.ready()
        if patience.cancelled_caught:
            raise click.ClickException(
                f"no nsqd has accepted a subscription to topic {self._topic} within {_PATIENCE:g} s"
            )
        self.nsqds = self.nsqds or consumer.connections
        taken = 0
        batches = consumer.batches(_BATCH, _GATHER)
        quiet_at = anyio.current_time() + self._wait
        while not stop.is_set():
            batch: list[Message] | None = None
            with anyio.CancelScope(deadline=quiet_at):
                batch = await anext(batches, None)
            if batch is None:
                break
            taken += len(batch)
            now = anyio.current_time()
            self._held.update((message, (now + message.deadline) / 2) for message in batch)
            new = [message for message in batch if self._is_new(message)]
            if new:
                await visit(new)
                quiet_at = anyio.current_time() + self._wait
        return taken > 0 and consumer.is_starved

    def _is_new(self, message: Message) -> bool:
        """Return whether to visit a message: not if it was visited before or is skipped."""
        key = (message.nsqd, message.id)
        if key in self._seen or message.timestamp > self._until:
            return False
        self._seen.add(key)
        return True

    async def _touch(self) -> None:
        """Touch each message that is held half-way to its deadline, as long as nsqd allows."""
        while True:
            now = anyio.current_time()
            for message, due in list(self._held.items()):
                if message.responded or not message.delivery.delegate.holds(message):
                    del self._held[message]
                elif due <= now < message.delivery.hard_deadline:
                    message.touch()
                    self._held[message] = (now + message.deadline) / 2
            await anyio.sleep(min([_MAX_SLEEP, *(max(due - now, 0.05) for due in self._held.values())]))
