"""The declaration of subscribers and publishers, on a broker or on a router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from fast_depends.dependencies import Dependant
from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

import nsq_anyio as nsq
from nsq_anyio.names import check_channel, check_topic
from nsq_anyio.options.checks import check_integer, check_seconds

from .config import AS_BROKER, NsqBrokerConfig
from .message import RawMessage
from .publisher import (
    NsqPublisher,
    NsqPublisherConfig,
    NsqPublisherSpecification,
    NsqPublisherSpecificationConfig,
)
from .subscriber import NsqBatchSubscriber, NsqMessageSubscriber, NsqSubscriber
from .subscriber.config import NsqSubscriberConfig, NsqSubscriberSpecificationConfig
from .subscriber.specification import NsqSubscriberSpecification

__all__ = ["NsqRegistrator"]

_MAX_SIZE = 100
_MAX_WAIT = 1.0


class NsqRegistrator(Registrator[RawMessage, NsqBrokerConfig]):
    """The base of `NsqBroker` and `NsqRouter`."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        channel: str,
        *,
        max_workers: int = 1,
        max_in_flight: int | None = None,
        batch: bool = False,
        max_size: int | None = None,
        max_wait: float | None = None,
        keep_alive: bool = True,
        dead_letter: str | None = AS_BROKER,
        options: nsq.ConsumerOptions | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> NsqSubscriber:
        """Declare a subscriber of a channel; it decorates its handlers.

        :param topic: the topic, after the prefixes of the routers
        :param channel: the channel; the processes that name the same one share its messages
        :param max_workers: the most handlers that run at a time, 1 or more; default 1
        :param max_in_flight: the most messages that this process may hold, 1 or more; default: as many as
            ``max_workers`` handlers can use. If there are more nsqds than that, they take turns
        :param batch: whether a handler gets a list of messages
        :param max_size: with ``batch``, the most messages in a list, 1 or more; default 100
        :param max_wait: with ``batch``, seconds to wait for more messages, 0 or more; default 1. It must be
            shorter than ``msg_timeout``
        :param keep_alive: whether to touch messages while their handlers run, at most until nsqd's
            ``--max-msg-timeout``; default True. Without it, a handler of one message is cancelled when that
            times out
        :param dead_letter: the topic for its dead letters, None for none; default: the broker's
        :param options: further options of the consumer; default: the broker's. ``drain_timeout`` is always
            the broker's ``graceful_timeout``
        :param ack_policy: how messages are answered; default: the router's, the broker's, or NACK_ON_ERROR
        :param no_reply: whether results are not published to the ``reply_to`` of messages
        :param dependencies: dependencies of all its handlers
        :param parser: makes a message of FastStream from one of nsq_anyio
        :param decoder: makes a value from a message
        :param codec: decodes in place of ``decoder``
        :param persistent: whether the broker keeps the subscriber alive
        :param title: its name in AsyncAPI
        :param description: its description in AsyncAPI; default: the docstring of the handler
        :param include_in_schema: whether it is in AsyncAPI
        :raises InvalidName: if nsqd would refuse the topic or channel
        :raises InvalidOption: if a number is out of range, or belongs to ``batch``
        """
        check_integer("max_workers", max_workers, 1)
        check_integer("max_in_flight", max_in_flight, 1, special=(None,))
        if not batch and (max_size is not None or max_wait is not None):
            raise nsq.InvalidOption("max_size and max_wait are for batches: use batch=True, or omit them")
        size = _MAX_SIZE if max_size is None else max_size
        wait = _MAX_WAIT if max_wait is None else max_wait
        check_integer("max_size", size, 1)
        check_seconds("max_wait", wait, 0)
        outer = cast("NsqBrokerConfig", self.config)
        config = NsqSubscriberConfig(
            _outer_config=outer,
            _ack_policy=ack_policy,
            no_reply=no_reply,
            topic=check_topic(topic),
            channel=check_channel(channel),
            max_workers=max_workers,
            max_in_flight=max_in_flight or max_workers * (size if batch else 1),
            keep_alive=keep_alive,
            dead_letter=dead_letter,
            options=options,
        )
        calls = CallsCollection[RawMessage]()
        specification = NsqSubscriberSpecification(
            outer,
            NsqSubscriberSpecificationConfig(
                topic=topic,
                channel=channel,
                title_=title,
                description_=description,
                include_in_schema=include_in_schema,
            ),
            calls,
        )
        subscriber = (
            NsqBatchSubscriber(config, specification, calls, max_size=size, max_wait=wait)
            if batch
            else NsqMessageSubscriber(config, specification, calls)
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser,
            decoder_=decoder or self._decoder,
            codec_=codec,
            dependencies_=dependencies,
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        headers: dict[str, str] | None = None,
        reply_to: str = "",
        defer: float | None = None,
        envelope: bool | None = None,
        batch: bool = False,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
    ) -> NsqPublisher:
        """Declare a publisher to a topic; as a decorator, it publishes what a handler returns.

        :param topic: the topic, after the prefixes of the routers
        :param headers: headers of each message
        :param reply_to: the topic for the results of the handlers of its messages; default: none
        :param defer: seconds until nsqd delivers each message, 0 or more; default: at once
        :param envelope: whether messages are published with headers; default: the broker's setting
        :param batch: whether the items of a list that a handler returns are messages of their own,
            published all or none
        :param persistent: whether the broker keeps the publisher alive
        :param title: its name in AsyncAPI
        :param description: its description in AsyncAPI
        :param schema: the type of its messages in AsyncAPI; default: the type that its handler returns
        :param include_in_schema: whether it is in AsyncAPI
        :raises InvalidName: if nsqd would refuse the topic
        :raises InvalidOption: if ``defer`` is negative, or given together with ``batch``
        """
        check_seconds("defer", defer, 0, special=(None,))
        if batch and defer is not None:
            raise nsq.InvalidOption(
                f"defer={defer!r} and batch=True exclude each other: nsqd defers single messages"
            )
        outer = cast("NsqBrokerConfig", self.config)
        publisher = NsqPublisher(
            NsqPublisherConfig(
                _outer_config=outer,
                topic=check_topic(topic),
                headers=headers or {},
                reply_to=reply_to,
                defer=defer,
                envelope=envelope,
                batch=batch,
            ),
            NsqPublisherSpecification(
                outer,
                NsqPublisherSpecificationConfig(
                    topic=topic,
                    title_=title,
                    description_=description,
                    schema_=schema,
                    include_in_schema=include_in_schema,
                ),
            ),
        )
        super().publisher(publisher, persistent=persistent)
        return publisher

    def include_router(  # type: ignore[override]
        self,
        router: NsqRegistrator,
        *,
        prefix: str = "",
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        include_in_schema: bool | None = None,
    ) -> None:
        """Add the subscribers and publishers of a router.

        :param prefix: text in front of the router's topics
        :raises SetupError: if ``router`` belongs to another kind of broker
        """
        if not isinstance(router, NsqRegistrator):
            raise SetupError(f"router={router!r} is not valid: use an NsqRouter")
        super().include_router(
            router,
            prefix=prefix,
            dependencies=dependencies,
            middlewares=middlewares,
            include_in_schema=include_in_schema,
        )
