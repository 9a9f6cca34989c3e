"""A broker in memory, for tests of handlers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast, overload

from faststream._internal.testing.broker import EnterType, TestBroker

import nsq_anyio as nsq
from nsq_anyio.names import check_topic
from nsq_anyio.producer.bodies import check_bodies, check_body
from nsq_anyio.producer.deferral import deferral

from .broker import NsqBroker
from .publisher import NsqPublisher
from .subscriber import NsqSubscriber

__all__ = ["TestNsqBroker"]

_CHANNEL = "test-nsq-broker#ephemeral"


class TestNsqBroker(TestBroker[NsqBroker, EnterType], broker=NsqBroker):
    """Hands published messages to the subscribers of the topic, once for each channel, without an nsqd.

    ::

        async with TestNsqBroker(broker) as test:
            await test.publish({"path": "cat.png"}, "images")
            resize.mock.assert_called_once_with({"path": "cat.png"})

    It refuses the names, sizes, delays and options that the broker and nsqd refuse. A publish returns once
    the handlers have returned, and raises their errors. Deferred messages are delivered at once, and requeued
    messages are not delivered again.

    :param brokers: one or several brokers, which exchange messages
    :param with_real: whether to use the nsqds of the brokers
    :param connect_only: whether something else, such as FastStream's ``TestApp``, starts the brokers;
        default: inferred from the ``async with`` statement
    """

    @overload
    def __init__(
        self: TestNsqBroker[NsqBroker],
        broker: NsqBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestNsqBroker[tuple[NsqBroker, ...]],
        *brokers: NsqBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(
        self, *brokers: NsqBroker, with_real: bool = False, connect_only: bool | None = None
    ) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    def create_publisher_fake_subscriber(
        self, broker: NsqBroker, publisher: NsqPublisher
    ) -> tuple[NsqSubscriber, bool]:
        """Return a subscriber that records a publisher's messages, and whether it is one of the user's."""
        for subscriber in _subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        return broker.subscriber(publisher.topic, _CHANNEL, persistent=False), False

    def _fake_start(self, broker: NsqBroker, *args: Any, **kwargs: Any) -> None:
        super()._fake_start(broker, *args, **kwargs)
        if not self.with_real:
            for subscriber in _subscribers([broker]):
                if subscriber.calls:
                    subscriber.block()  # it checks names and options, and is not entered

    @contextmanager
    def _patch_producer(self, broker: NsqBroker) -> Generator[None]:
        config = broker.config.broker_config
        before = config.connection
        options = broker._producer_options
        config.connect(cast("nsq.Producer", _ProducerInMemory(self.brokers, options)))
        try:
            yield
        finally:
            if before is None:
                config.disconnect()
            else:
                config.connect(before)

    async def _fake_connect(self, broker: NsqBroker, *_: Any, **__: Any) -> None:
        del broker


class _ProducerInMemory:
    """Stands in for a producer of nsq_anyio: it hands messages to the subscribers of some brokers."""

    def __init__(self, brokers: Sequence[NsqBroker], options: nsq.ProducerOptions) -> None:
        self._brokers = brokers
        self._options = options

    async def publish(self, topic: str, body: bytes, *, defer: float | None = None) -> None:
        check_topic(topic)
        body = check_body(body, self._options)
        if defer is not None:
            deferral(defer=defer, at=None, durable=False, max_defer=self._options.max_defer, delays=None)
        await self._deliver(topic, [body])

    async def publish_many(self, topic: str, bodies: list[bytes]) -> None:
        check_topic(topic)
        await self._deliver(topic, check_bodies(bodies, self._options))

    async def _deliver(self, topic: str, bodies: list[bytes]) -> None:
        subscribers = [each for each in _subscribers(self._brokers) if each.topic == topic]
        first_of = {each.channel: each for each in reversed(subscribers)}
        for channel, subscriber in first_of.items():
            messages = [nsq.testing.message(body, topic=topic, channel=channel) for body in bodies]
            await subscriber.handle_in_memory(messages)


def _subscribers(brokers: Sequence[NsqBroker]) -> list[NsqSubscriber]:
    every = [subscriber for broker in brokers for subscriber in broker.subscribers]
    return [each for each in every if isinstance(each, NsqSubscriber)]
