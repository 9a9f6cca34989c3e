"""The work of a process of the command: it handles messages until it is told to stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio

from ...address import ListenAddress
from ...consumer import BatchHandler, DeadLetter, Handler, consume
from ...producer import produce
from ...service.endpoint import Metrics
from ...service.service import Service
from ..flags.connection import ConsumerFlags, ProducerFlags
from ..flags.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Handles messages, as the command's flags say.

    :ivar lifespan: entered before the first message and left after the last
    :ivar concurrency: the most handlers to run at a time for each topic
    :ivar max_per_second: the most handlers to start per second; None for no limit
    :ivar keep_alive: whether to touch each message while its handler runs
    :ivar dead_letter: the topic of the dead letters, or its template; None for no dead letters
    """

    handler: Handler | BatchHandler
    lifespan: AbstractAsyncContextManager[object]
    source: Source
    topics: Sequence[str]
    channel: str
    concurrency: int
    max_per_second: float | None
    keep_alive: bool
    dead_letter: str | None
    consumer: ConsumerFlags
    producer: ProducerFlags

    async def run(self, stop: anyio.Event, http_address: ListenAddress | None = None) -> None:
        """Handle messages until ``stop`` is set.

        :raises NSQError: as `Service.run` does
        """
        async with self.service(http_address=http_address) as service:
            await service.run(stop)

    @asynccontextmanager
    async def service(
        self, *, http_address: ListenAddress | None = None, metrics: Metrics | None = None
    ) -> AsyncGenerator[Service]:
        """Create the service. Run it within this block, which holds open what the handlers need."""
        if self.dead_letter is None:
            async with self.lifespan:
                yield self._service(None, http_address, metrics)
            return
        producing = produce(
            self.source.nsqd,
            nsqlookupd=self.source.nsqlookupd,
            options=self.producer.options,
            connection=self.producer.connection,
        )
        async with self.lifespan, producing as producer:
            dead_letter = DeadLetter(self.dead_letter, producer=producer)
            yield self._service(dead_letter, http_address, metrics)

    def _service(
        self, dead_letter: DeadLetter | None, http_address: ListenAddress | None, metrics: Metrics | None
    ) -> Service:
        is_given = "max_in_flight" in self.consumer.given
        blocks = [
            consume(
                topic,
                self.channel,
                nsqd=self.source.nsqd,
                nsqlookupd=self.source.nsqlookupd,
                # Messages that wait here could time out, so the default is one message per handler.
                max_in_flight=self.consumer.max_in_flight if is_given else None,
                dead_letter=dead_letter,
                options=self.consumer.options,
                connection=self.consumer.connection,
            )
            for topic in dict.fromkeys(self.topics)
        ]
        return Service(
            [(block, self.handler) for block in blocks],
            concurrency=self.concurrency,
            max_per_second=self.max_per_second,
            keep_alive=self.keep_alive,
            http_address=http_address,
            metrics=metrics,
        )
