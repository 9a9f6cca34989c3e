"""The broker for FastStream."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

import anyio
from fast_depends import Provider, dependency_provider
from fast_depends.dependencies import Dependant
from fast_depends.library.serializer import SerializerProto
from faststream._internal.basic_types import LoggerProto, SendableMessage
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
from faststream.exceptions import IncorrectState
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response import PublishType
from faststream.specification.schema import BrokerSpec
from faststream.specification.schema.extra import Tag, TagDict

import nsq_anyio as nsq
from nsq_anyio.address import nsqd_addresses
from nsq_anyio.contrib.held import Held
from nsq_anyio.discovery import nsqlookupd_urls
from nsq_anyio.events import EventHook
from nsq_anyio.options.checks import check_seconds
from nsq_anyio.options.declaration import options_or_default
from nsq_anyio.transport.event_loop import on_asyncio

from .config import Common, NsqBrokerConfig
from .errors import RequestsUnsupported
from .logging import make_nsq_logger_state
from .message import RawMessage
from .producer import NsqProducer
from .registrator import NsqRegistrator
from .response import NsqPublishCommand
from .subscriber import NsqSubscriber

__all__ = ["NsqBroker"]


# As in FastStream's own brokers, the decorators take other parameters than the methods that they override.
class NsqBroker(  # pyright: ignore[reportIncompatibleMethodOverride]
    NsqRegistrator, BrokerUsecase[RawMessage, nsq.Producer, NsqBrokerConfig]
):
    """Publishes to topics of NSQ, and consumes channels of them. It runs on asyncio.

    :param nsqd: one or several addresses to publish to, and, without ``nsqlookupd``, to consume from
    :param nsqlookupd: one or several URLs of nsqlookupds that list the nsqds to consume from, and, without
        ``nsqd``, to publish to. At least one of ``nsqd`` and ``nsqlookupd`` must be given
    :param envelope: whether messages are published in nsq_anyio's envelope, with their headers, content type,
        correlation id and reply address; default True. Without it, only bare payloads are published, which
        consumers in other languages can read
    :param dead_letter: the topic for messages that are given up after ``max_attempts``, rejected, or in an
        envelope that cannot be read; default ``"{topic}.dead"``. None finishes them
    :param on_event: called with each event, see `nsq_anyio.events`
    :param consumer: further options of the consumers
    :param options: further options of the producer
    :param connection: options of each connection
    :param graceful_timeout: seconds for running handlers when the broker stops, 0 or more; default 15
    :param decoder: makes values from messages
    :param parser: makes messages of FastStream from those of nsq_anyio
    :param codec: encodes and decodes, in place of ``decoder``
    :param dependencies: dependencies of all handlers
    :param middlewares: middlewares of all handlers and publishers
    :param routers: routers to include
    :param ack_policy: how messages are answered; default: NACK_ON_ERROR
    :param id_generator: makes correlation ids
    :param specification_url: the address in AsyncAPI, with ``description`` and ``tags``; default: the nsqds,
        or else the nsqlookupds
    :param logger: the log; default: one on standard output; None for none
    :param log_level: the level of the log lines about each message; default: INFO
    :param apply_types: whether FastDepends validates and converts arguments
    :param serializer: the serializer that FastDepends uses for that
    :param provider: overrides of dependencies
    :param context: the context of FastStream
    :raises InvalidOption: if an address, URL or ``graceful_timeout`` is not valid, or no address or URL is
        given
    """

    def __init__(
        self,
        nsqd: str | Sequence[str] | None = None,
        *,
        nsqlookupd: str | Sequence[str] | None = None,
        envelope: bool = True,
        dead_letter: str | None = "{topic}.dead",
        on_event: EventHook | None = None,
        consumer: nsq.ConsumerOptions | None = None,
        options: nsq.ProducerOptions | None = None,
        connection: nsq.ConnectionOptions | None = None,
        graceful_timeout: float | None = 15.0,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[NsqRegistrator] = (),
        ack_policy: AckPolicy = EMPTY,
        id_generator: IdGenerator = gen_cor_id,
        specification_url: str | None = None,
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: SerializerProto | None = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
    ) -> None:
        if nsqd is None and nsqlookupd is None:
            raise nsq.InvalidOption("neither nsqd nor nsqlookupd is given: name nsqds, or nsqlookupds")
        urls = list(nsqlookupd_urls(nsqlookupd))
        if nsqd is not None:
            urls = [f"nsq://{address}" for address in nsqd_addresses(nsqd)]
        check_seconds("graceful_timeout", graceful_timeout, 0, special=(None,))
        self._common = Common(
            nsqd=nsqd,
            nsqlookupd=nsqlookupd,
            dead_letter=dead_letter,
            on_event=on_event,
            options=options_or_default("consumer", consumer, nsq.ConsumerOptions),
            connection=options_or_default("connection", connection, nsq.ConnectionOptions),
        )
        self._producer_options = options_or_default("options", options, nsq.ProducerOptions)
        self._held: Held[nsq.Producer] | None = None
        super().__init__(
            routers=routers,
            config=NsqBrokerConfig(
                common=self._common,
                producer=NsqProducer(parser=parser, decoder=decoder, envelope=envelope),
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_nsq_logger_state(logger=logger, log_level=log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                description=description,
                url=[specification_url] if specification_url else urls,
                protocol="nsq",
                protocol_version="V2",
                tags=tags,
                security=None,
            ),
        )

    async def _connect(self) -> nsq.Producer:
        if not on_asyncio():
            raise IncorrectState("NsqBroker runs on asyncio alone, as FastStream does: use asyncio.run")
        block = self._common.produce(self._producer_options)
        self._held = held = Held(block, when_ended=lambda: self._ended(held))
        producer = await held.open()
        self.config.broker_config.connect(producer)
        return producer

    def _ended(self, held: Held[nsq.Producer]) -> None:
        if (error := held.failure) is not None:
            self.config.broker_config.fail("nothing can be published", error)

    async def connect(self) -> nsq.Producer:
        """Connect, unless connected in an event loop that still exists."""
        if self._held is not None and self._held.loop_is_closed:
            self._connection = None
        return await super().connect()

    async def start(self) -> None:
        """Connect, and start all subscribers; called by the application.

        This does not wait for an nsqd: the broker connects once there is one.

        :raises NSQError: see `nsq_anyio.produce` and `nsq_anyio.consume`
        """
        await self.connect()
        try:
            await super().start()
        except BaseException:
            await self.stop()
            raise

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Stop all subscribers, hand back unanswered messages, and disconnect.

        :raises ExceptionGroup: the errors that had ended subscribers or the producer
        """
        held = self._held
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            self._connection = self._held = None
            if held is not None:  # last, because handlers and dead letters need it
                with suppress(Exception):  # it is raised below
                    await held.close()
            self.config.broker_config.disconnect()
        ended = [held.failure if held else None, *(each.failure for each in self._own_subscribers)]
        if failures := [failure for failure in ended if failure is not None]:
            raise BaseExceptionGroup("the broker has failed", failures)

    @property
    def _own_subscribers(self) -> list[NsqSubscriber]:
        return [each for each in self.subscribers if isinstance(each, NsqSubscriber)]

    async def ping(self, timeout: float | None = 5.0) -> bool:
        """Return whether an nsqd is connected, and all subscribers still consume.

        :param timeout: seconds to wait for a connection; None waits for ever
        """
        if self._connection is None or any(each.failure is not None for each in self._own_subscribers):
            return False
        with anyio.move_on_after(timeout), suppress(nsq.NSQError):  # it was refused, or is closed
            await self._connection.ready()
            return True
        return False

    async def publish(
        self,
        message: SendableMessage,
        topic: str,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        defer: float | None = None,
        envelope: bool | None = None,
    ) -> None:
        """Publish a message, and return once nsqd has stored it.

        :param message: the body: bytes, text, or a value that the serializer encodes
        :param topic: the topic
        :param headers: its headers, text by name
        :param correlation_id: default: a new one
        :param reply_to: a topic for the result of its handler; default: none
        :param defer: seconds until nsqd delivers it, 0 or more; default: at once
        :param envelope: whether it is published with headers; default: the broker's setting
        :raises IncorrectState: before `start` and after `stop`
        :raises NSQError: see `nsq_anyio.Producer.publish`
        """
        command = NsqPublishCommand(
            message,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            defer=defer,
            envelope=envelope,
            _publish_type=PublishType.PUBLISH,
        )
        await self._basic_publish(command, producer=self.config.producer)

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: SendableMessage,
        topic: str,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        envelope: bool | None = None,
    ) -> None:
        """Publish one or more messages, all or none, and return once nsqd has stored them.

        :param messages: their bodies, as for `publish`
        :raises NSQError: as `publish` does
        """
        command = NsqPublishCommand(
            *(messages or (None,)),
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            envelope=envelope,
            _publish_type=PublishType.PUBLISH,
        )
        await self._basic_publish_batch(command, producer=self.config.producer)

    async def request(self, message: SendableMessage, topic: str, *_: Any, **__: Any) -> NoReturn:
        """Refuse.

        :raises RequestsUnsupported: always
        """
        del message
        raise RequestsUnsupported(topic)
