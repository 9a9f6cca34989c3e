"""The base of subscribers: a consumer that is open from `start` to `stop`."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import IncorrectState, StopConsume
from faststream.message import StreamMessage

import nsq_anyio as nsq
from nsq_anyio.contrib.held import Held
from nsq_anyio.tasks import is_stray

from ..config import NsqBrokerConfig
from ..message import RawMessage
from ..publisher import NsqReplyPublisher
from .config import NsqSubscriberConfig

__all__ = ["NsqSubscriber"]


class NsqSubscriber(SubscriberUsecase[RawMessage]):
    """The base of subscribers of single messages and of batches. Made by ``broker.subscriber``."""

    _outer_config: NsqBrokerConfig

    def __init__(
        self,
        config: NsqSubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[RawMessage],
    ) -> None:
        super().__init__(config, specification, calls)
        self._config = config
        self._held: Held[nsq.Consumer] | None = None
        self._consumer: nsq.Consumer | None = None

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    @property
    def channel(self) -> str:
        """The channel, which all processes of a service share."""
        return self._config.channel

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the consumer, such as a refusal by nsqd; None if there is none."""
        return None if self._held is None else self._held.failure

    async def start(self) -> None:
        """Begin to consume, unless already begun; called by the broker. This does not wait for a connection.

        :raises IncorrectState: if the broker is not connected
        :raises InvalidName: if nsqd would refuse the topic with its prefix
        """
        if self._consumer is not None and self._held is not None and not self._held.loop_is_closed:
            return
        await super().start()
        self._held = None
        if self.calls:
            await self._open(self._take)
        self._post_start()

    async def stop(self) -> None:
        """Take no more messages, let handlers end, hand back the rest, and disconnect; called by the broker.

        Handlers that do not end within the broker's ``graceful_timeout`` are cancelled, and their messages
        requeued. An earlier error of the consumer stays in `failure`, and the broker raises it.
        """
        self._stop_soon()
        try:
            if self._held is not None:
                with suppress(Exception):  # it is kept in `failure`
                    await self._held.close()
        finally:
            self._consumer = None
            await super().stop()

    async def get_one(self, *, timeout: float = 5.0) -> StreamMessage[Any] | None:
        """Wait for a message, in a program that has no handler for this subscriber. Answer it yourself.

        No other message comes until it is answered, unless ``max_in_flight`` allows more.

        :param timeout: seconds to wait; default 5
        :returns: the message, or the batch; None if none comes in time
        :raises IncorrectState: if the subscriber has handlers, or the broker is not connected
        """
        raw = await self._next(await self._for_iteration(), timeout)
        return None if raw is None else await self._parsed(raw)

    async def __aiter__(self) -> AsyncIterator[StreamMessage[Any]]:
        """Iterate over messages, as `get_one` returns them, until `stop`."""
        consumer = await self._for_iteration()
        while (raw := await self._next(consumer, None)) is not None:
            yield await self._parsed(raw)

    @abstractmethod
    async def handle_in_memory(self, messages: Sequence[nsq.Message]) -> None:
        """Handle messages that belong to no connection, as `TestNsqBroker` delivers them.

        :raises BaseException: the error of a handler
        """

    @abstractmethod
    async def _take(self, consumer: nsq.Consumer) -> None:
        """Handle messages until the consumer is stopped."""

    @abstractmethod
    async def _next(self, consumer: nsq.Consumer, timeout: float | None) -> RawMessage | None:
        """Wait for the next message or batch; None after ``timeout`` seconds, or when it is stopped."""

    def block(self) -> AbstractAsyncContextManager[nsq.Consumer]:
        """Return the block of the consumer, which `start` enters.

        :raises IncorrectState: if the broker is not connected
        :raises InvalidName: if nsqd would refuse the topic with its prefix, or that of its dead letters
        """
        config = self._config
        return self._outer_config.consume(
            self.topic,
            config.channel,
            max_in_flight=config.max_in_flight,
            dead_letter=config.dead_letter,
            options=config.options,
        )

    async def _open(self, body: Callable[[nsq.Consumer], Awaitable[None]] | None) -> nsq.Consumer:
        self._held = held = Held(self.block(), body, lambda: self._ended(held))
        self._consumer = await held.open()
        return self._consumer

    async def _for_iteration(self) -> nsq.Consumer:
        if self.calls:
            raise IncorrectState(f"{self.topic}/{self.channel} has handlers, which take its messages")
        return self._consumer or await self._open(None)

    async def _parsed(self, raw: RawMessage) -> StreamMessage[Any]:
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        message = await process_msg(
            msg=raw,
            middlewares=(middleware(raw, context=context) for middleware in self._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        assert message is not None  # noqa: S101 - it is None only for None
        return message

    def _stop_soon(self) -> None:
        self.running = False
        if self._consumer is not None:
            self._consumer.stop()

    async def _process_in_memory(self, raw: RawMessage, messages: Sequence[nsq.Message]) -> None:
        try:
            await self.process_message(raw)
        finally:
            for each in messages:
                if not each.responded:
                    self._warn_unanswered(each)
                    each.requeue()

    async def _process(self, raw: RawMessage) -> None:
        """Let FastStream handle a message or a batch, answer it, and log the errors of handlers."""
        try:
            await self.process_message(raw)
        except StopConsume:
            self._end_consuming()
        except SystemExit:
            self._end_consuming()
            self._outer_config.exit_application()
        except Exception:  # noqa: BLE001, S110 - it is logged, and the message answered as ack_policy says
            pass
        except asyncio.CancelledError as error:
            # If a handler awaited a task that other code cancelled, that is a failure like any other.
            if not is_stray(error):
                raise

    def _end_consuming(self) -> None:
        # A handler is running, so nothing may wait for the end of all handlers.
        self._stop_soon()
        self._consumer = None
        if self._held is not None:
            self._held.close_soon()

    def _ended(self, held: Held[nsq.Consumer]) -> None:
        if (error := held.failure) is not None:
            self._outer_config.fail(f"{self.topic}/{self.channel} is no longer consumed", error)

    def _warn_unanswered(self, message: nsq.Message) -> None:
        text = f"the handler of {self.topic}/{self.channel} left message {message.id} unanswered: requeued"
        self._log(logging.WARNING, text, extra=self.get_log_context(None))

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Sequence[PublisherProto]:
        return (NsqReplyPublisher(self._outer_config.producer, message.reply_to),)

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        """Return the fields of a log line about a message."""
        return {
            "topic": self.topic,
            "channel": self.channel,
            "message_id": message.message_id if message is not None else "",
        }
