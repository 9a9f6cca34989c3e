"""A broker in memory, for tests of handlers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from faststream._internal.testing.broker import EnterType, TestBroker, change_producer

import nsq_anyio as nsq

from .broker import NsqBroker
from .message import RawMessage
from .producer import NsqProducer
from .publisher import NsqPublisher
from .response import NsqPublishCommand
from .subscriber import NsqBatchSubscriber, NsqSubscriber

__all__ = ["TestNsqBroker"]

_CHANNEL = "test-nsq-broker#ephemeral"


class TestNsqBroker(TestBroker[NsqBroker, EnterType], broker=NsqBroker):
    """Hands what is published to the subscribers of the topic, once for each channel, without an nsqd.

    ::

        async with TestNsqBroker(broker) as test:
            await test.publish({"path": "cat.png"}, "images")
            resize.mock.assert_called_once_with({"path": "cat.png"})

    A publish returns when the handlers have, and raises what they raise. Deferred messages are delivered at
    once, and requeued messages are not delivered again.

    :param brokers: one or several brokers, which exchange messages
    :param with_real: whether to use the nsqds of the brokers
    :param connect_only: whether something else, such as FastStream's ``TestApp``, starts the brokers;
        default: it is found out from the ``async with`` statement
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
        """Return what records the messages of a publisher, and whether it is one of the user's."""
        for subscriber in _subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        return broker.subscriber(publisher.topic, _CHANNEL, persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: NsqBroker) -> Generator[None]:
        with change_producer(broker.config.broker_config, _ProducerInMemory(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: NsqBroker, *_: Any, **__: Any) -> None:
        del broker


class _ProducerInMemory(NsqProducer):
    """Hands messages to the subscribers of some brokers."""

    def __init__(self, broker: NsqBroker, brokers: Sequence[NsqBroker]) -> None:
        config = broker.config
        super().__init__(parser=config.broker_parser, decoder=config.broker_decoder)
        self._set_codec(config.fd_config._serializer, config.broker_codec)
        self._brokers = brokers

    async def publish(self, cmd: NsqPublishCommand) -> None:
        await self._deliver(cmd.destination, [await self.encode(cmd.body, cmd)])

    async def publish_batch(self, cmd: NsqPublishCommand) -> None:
        await self._deliver(cmd.destination, [await self.encode(body, cmd) for body in cmd.batch_bodies])

    async def _deliver(self, topic: str, bodies: list[bytes]) -> None:
        subscribers = [each for each in _subscribers(self._brokers) if each.topic == topic]
        first_of = {each.channel: each for each in reversed(subscribers)}
        for channel, subscriber in first_of.items():
            messages = [nsq.testing.message(body, topic=topic, channel=channel) for body in bodies]
            taken: list[RawMessage] = [*messages]
            if isinstance(subscriber, NsqBatchSubscriber):
                taken = [tuple(messages)]
            for each in taken:
                await subscriber.process_message(each)


def _subscribers(brokers: Sequence[NsqBroker]) -> list[NsqSubscriber]:
    every = [subscriber for broker in brokers for subscriber in broker.subscribers]
    return [each for each in every if isinstance(each, NsqSubscriber)]
