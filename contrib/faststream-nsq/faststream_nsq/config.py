"""The configuration that a broker shares with its subscribers and publishers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from faststream._internal.configs import BrokerConfig
from faststream.exceptions import IncorrectState

import nsq_anyio as nsq
from nsq_anyio.events import EventHook

from .producer import NsqProducer

__all__ = ["AS_BROKER", "Common", "NsqBrokerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The settings that a broker's producer and consumers share; `NsqBroker` describes them."""

    nsqd: str | Sequence[str] | None
    nsqlookupd: str | Sequence[str] | None
    dead_letter: str | None
    on_event: EventHook | None
    options: nsq.ConsumerOptions
    connection: nsq.ConnectionOptions | None

    def produce(self, options: nsq.ProducerOptions | None) -> AbstractAsyncContextManager[nsq.Producer]:
        """Return the block of the producer."""
        return nsq.produce(
            self.nsqd,
            nsqlookupd=self.nsqlookupd if self.nsqd is None else None,
            on_event=self.on_event,
            options=options,
            connection=self.connection,
        )


@dataclass(kw_only=True)
class NsqBrokerConfig(BrokerConfig):
    """The configuration of a broker or a router.

    :ivar common: None in a router
    :ivar connection: the broker's producer, None if it is not connected
    """

    producer: NsqProducer = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=NsqProducer
    )
    common: Common | None = None
    connection: nsq.Producer | None = field(default=None, init=False, repr=False)

    def connect(self, producer: nsq.Producer) -> None:
        """Let publishers and dead letters use ``producer``."""
        self.connection = producer
        self.producer.connect(producer, self.fd_config._serializer, self.broker_codec)

    def disconnect(self) -> None:
        """Stop using the producer."""
        self.connection = None
        self.producer.disconnect()

    def fail(self, text: str, error: BaseException) -> None:
        """End the application, which must not continue without one of its parts; its end raises the error."""
        self.logger.log(f"{text}, the application ends: {error}", logging.CRITICAL, exc_info=error)
        self.exit_application()

    def exit_application(self) -> None:
        """Ask the application to exit, if there is one."""
        if (application := self.context.get("app")) is not None:
            application.exit()

    def consume(
        self,
        topic: str,
        channel: str,
        *,
        max_in_flight: int,
        dead_letter: str | None,
        options: nsq.ConsumerOptions | None,
    ) -> AbstractAsyncContextManager[nsq.Consumer]:
        """Return the block of a consumer; ``dead_letter`` may be `AS_BROKER`.

        :raises IncorrectState: if the broker is not connected
        :raises InvalidName: if nsqd would refuse a name
        """
        common, producer = self.common, self.connection
        if common is None or producer is None:
            raise IncorrectState("the broker is not connected: call `await broker.connect()` first")
        letters = common.dead_letter if dead_letter == AS_BROKER else dead_letter
        return nsq.consume(
            topic,
            channel,
            nsqd=common.nsqd if common.nsqlookupd is None else None,
            nsqlookupd=common.nsqlookupd,
            max_in_flight=max_in_flight,
            dead_letter=None if letters is None else nsq.DeadLetter(letters, producer),
            on_event=common.on_event,
            # After `stop`, handlers may go on for as long as FastStream waits for them.
            options=replace(options or common.options, drain_timeout=self.graceful_timeout or 0),
            connection=common.connection,
        )


AS_BROKER = ""
"""The ``dead_letter`` of a subscriber without a topic of its own; it stands for the broker's."""
