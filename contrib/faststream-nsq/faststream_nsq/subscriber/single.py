"""A subscriber whose handlers get one message at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import anyio
from faststream._internal.endpoint.subscriber.call_item import CallsCollection

import nsq_anyio as nsq

from .. import parser
from ..message import RawMessage
from .config import NsqSubscriberConfig
from .specification import NsqSubscriberSpecification
from .usecase import NsqSubscriber

__all__ = ["NsqMessageSubscriber"]


class NsqMessageSubscriber(NsqSubscriber):
    """Runs up to ``max_workers`` handlers at a time, on one message each."""

    def __init__(
        self,
        config: NsqSubscriberConfig,
        specification: NsqSubscriberSpecification,
        calls: CallsCollection[RawMessage],
    ) -> None:
        config.parser, config.decoder = parser.parse, parser.decode
        super().__init__(config, specification, calls)

    async def handle_in_memory(self, messages: Sequence[nsq.Message]) -> None:
        for message in messages:
            if await discarded_unread(message):
                continue
            await self._process_in_memory(message, [message])

    async def _take(self, consumer: nsq.Consumer) -> None:
        await consumer.run(self._handle, concurrency=self._config.max_workers)

    async def _handle(self, message: nsq.Message) -> None:
        if await discarded_unread(message):
            return
        async with message.keep_alive() if self._config.keep_alive else nullcontext():
            await self._process(message)
        if not message.responded:
            self._warn_unanswered(message)
            raise nsq.Requeue

    async def _next(self, consumer: nsq.Consumer, timeout: float | None) -> nsq.Message | None:
        with anyio.move_on_after(timeout):
            async for message in consumer:
                if not await discarded_unread(message):
                    return message
        return None


async def discarded_unread(message: nsq.Message) -> bool:
    """Discard a message whose envelope cannot be read, now or at any later attempt; return whether it was."""
    try:
        _ = message.headers
    except nsq.InvalidEnvelope as error:
        await message._settle(nsq.Discard(str(error)))
        return True
    return False
