"""A subscriber whose handlers get several messages at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import anyio
from faststream._internal.endpoint.subscriber.call_item import CallsCollection

import nsq_anyio as nsq

from .. import parser
from ..message import RawMessage
from .config import NsqSubscriberConfig
from .single import discarded_unread
from .specification import NsqSubscriberSpecification
from .usecase import NsqSubscriber

__all__ = ["NsqBatchSubscriber"]


class NsqBatchSubscriber(NsqSubscriber):
    """Runs up to ``max_workers`` handlers at a time, on a list of messages each."""

    def __init__(
        self,
        config: NsqSubscriberConfig,
        specification: NsqSubscriberSpecification,
        calls: CallsCollection[RawMessage],
        *,
        max_size: int,
        max_wait: float,
    ) -> None:
        config.parser, config.decoder = parser.parse_batch, parser.decode_batch
        super().__init__(config, specification, calls)
        self._max_size = max_size
        self._max_wait = max_wait
        self._handling: anyio.CancelScope | None = None

    async def handle_in_memory(self, messages: Sequence[nsq.Message]) -> None:
        readable = await _readable(messages)
        for start in range(0, len(readable), self._max_size):
            batch = readable[start : start + self._max_size]
            await self._process_in_memory(batch, batch)

    async def _take(self, consumer: nsq.Consumer) -> None:
        with anyio.CancelScope() as self._handling:
            async with anyio.create_task_group() as workers:
                for _ in range(self._config.max_workers):
                    workers.start_soon(self._work, consumer)

    async def _work(self, consumer: nsq.Consumer) -> None:
        async for batch in consumer.batches(self._max_size, self._max_wait):
            # The block requeues the messages that a cancelled handler leaves.
            async with batch, batch.keep_alive() if self._config.keep_alive else nullcontext():
                await self._handle(batch)

    async def _handle(self, batch: Iterable[nsq.Message]) -> None:
        messages = await _readable(batch)
        if not messages:
            return
        await self._process(messages)
        unanswered = [message for message in messages if not message.responded]
        if unanswered:
            self._warn_unanswered(unanswered[0])
            raise nsq.Requeue

    async def _next(self, consumer: nsq.Consumer, timeout: float | None) -> tuple[nsq.Message, ...] | None:
        with anyio.move_on_after(timeout):
            async for batch in consumer.batches(self._max_size, self._max_wait):
                if messages := await _readable(batch):
                    return messages
        return None

    def _stop_soon(self) -> None:
        super()._stop_soon()
        if self._handling is not None:  # `Consumer.run` bounds the time of its handlers itself
            self._handling.deadline = anyio.current_time() + (self._outer_config.graceful_timeout or 0)


async def _readable(batch: Iterable[nsq.Message]) -> tuple[nsq.Message, ...]:
    """Discard the messages whose envelope cannot be read, and return the others."""
    return tuple([message for message in batch if not await discarded_unread(message)])
