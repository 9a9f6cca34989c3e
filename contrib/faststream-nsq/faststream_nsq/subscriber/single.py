"""A subscriber whose handlers get one message at a time."""

from __future__ import annotations

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

    async def _take(self, consumer: nsq.Consumer) -> None:
        await consumer.run(self._handle, concurrency=self._config.max_workers)

    async def _handle(self, message: nsq.Message) -> None:
        check_readable(message)
        async with message.keep_alive() if self._config.keep_alive else nullcontext():
            await self._process(message)
        if not message.responded:
            self._warn_unanswered(message)
            raise nsq.Requeue

    async def _next(self, consumer: nsq.Consumer, timeout: float | None) -> nsq.Message | None:
        with anyio.move_on_after(timeout):
            async for message in consumer:
                try:
                    check_readable(message)
                except nsq.Discard as discard:
                    await message.settle(discard)
                else:
                    return message
        return None


def check_readable(message: nsq.Message) -> None:
    """Check that FastStream can be given a message.

    :raises Discard: if its envelope cannot be read, now or at any later attempt
    """
    try:
        _ = message.headers
    except nsq.InvalidEnvelope as error:
        raise nsq.Discard(str(error)) from error
