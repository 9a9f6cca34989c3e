"""The work of a process of the command: it handles messages until it is told to stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio

from ...address import ListenAddress
from ...consumer import BatchHandler, DeadLetter, Handler, consume
from ...producer import produce
from ...service.metrics import Metrics
from ...service.service import Service
from .command import RunFlags


@dataclass(frozen=True, slots=True)
class Job:
    """Handles messages.

    :ivar lifespan: entered before the first message and left after the last
    """

    flags: RunFlags
    handler: Handler | BatchHandler
    lifespan: AbstractAsyncContextManager[object]

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
        if self.flags.dead_letter is None:
            async with self.lifespan:
                yield self._service(None, http_address, metrics)
            return
        producing = produce(
            self.flags.source.nsqd,
            nsqlookupd=self.flags.source.nsqlookupd,
            options=self.flags.producer.options,
            connection=self.flags.producer.connection,
        )
        async with self.lifespan, producing as producer:
            dead_letter = DeadLetter(self.flags.dead_letter, producer=producer)
            yield self._service(dead_letter, http_address, metrics)

    def _service(
        self, dead_letter: DeadLetter | None, http_address: ListenAddress | None, metrics: Metrics | None
    ) -> Service:
        is_given = "max_in_flight" in self.flags.consumer.given
        blocks = [
            consume(
                topic,
                self.flags.channel,
                nsqd=self.flags.source.nsqd,
                nsqlookupd=self.flags.source.nsqlookupd,
                # Messages that wait here could time out, so the default is one message per handler.
                max_in_flight=self.flags.consumer.max_in_flight if is_given else None,
                dead_letter=dead_letter,
                options=self.flags.consumer.options,
                connection=self.flags.consumer.connection,
            )
            for topic in dict.fromkeys(self.flags.topic)
        ]
        return Service(
            [(block, self.handler) for block in blocks],
            concurrency=self.flags.concurrency,
            max_per_second=self.flags.max_per_second,
            keep_alive=self.flags.keep_alive,
            http_address=http_address,
            metrics=metrics,
        )
