"""A runner of a handler on a single message."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from ..consumer import Handler
from ..consumer.inbox import Stop
from ..consumer.message import Message
from ..consumer.workers import Workers
from ..events import Emitter, Event, HandlerFailed
from .recorded import Answer, RecordedMessage

_CANCELLED_DRAIN_TIMEOUT = 1.0
"""The default of `ConsumerOptions.cancelled_drain_timeout`."""


async def handle(handler: Handler, message: RecordedMessage) -> Answer | None:
    """Run a handler on a message, as `Consumer.run` does, and return the message's answer.

    A plain function is called in a thread. An exception of the handler is logged, and returned as
    `Requeued.error`.

    :param handler: an async or plain function of one message; call the function of a `BatchHandler` with a
        `Batch`
    :param message: a message made by `nsq_anyio.testing.message`; its timeout starts now
    :returns: how the message was answered; None if it was not
    :raises InvalidOption: if `Consumer.run` would refuse the handler
    """
    message.deliver()

    def note_error(event: Event) -> None:
        if isinstance(event, HandlerFailed):
            message._note_error(event.error)

    workers = Workers(
        _SingleMessage(message),
        handler,
        Emitter("nsq_anyio.consumer", note_error, message.topic, message.channel),
        drain_timeout=0,  # nothing calls its `stop`
        cancelled_drain_timeout=_CANCELLED_DRAIN_TIMEOUT,
        cancel_at_deadline=True,
    )
    await workers.run(1)
    return message.answer


class _SingleMessage:
    """An inbox with one message; it stops when the message is taken."""

    def __init__(self, message: Message) -> None:
        self._message: Message | None = message

    @property
    def stopped(self) -> bool:
        return self._message is None

    async def wait_stopped(self) -> None:
        await anyio.sleep_forever()  # the worker ends by itself

    async def take(self, stop: Stop | None = None) -> Message:
        await anyio.lowlevel.checkpoint()
        if self._message is None or (stop is not None and stop.reached):
            if stop is not None:
                stop.reached = True
            raise StopAsyncIteration
        message, self._message = self._message, None
        return message

    def end(self, stop: Stop) -> None:
        stop.reached = True
