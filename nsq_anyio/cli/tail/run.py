"""What ``nsq-anyio tail`` does."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ...consumer import Consumer, Message, consume
from ...consumer.message import finish_all
from ..flags.connection import ConsumerFlags
from ..flags.source import Source
from ..output import Output
from ..reach import check_reachable
from .format import Format

__all__ = ["Tail"]

_MAX_WAIT = 0.005
"""Seconds that a message waits for others to be printed with; too short to see, and it makes large writes."""


class Tail:
    """Prints the messages of topics.

    :param format: of what is printed
    :param count: after how many messages, over all topics, it ends; 0 for never
    """

    def __init__(
        self, source: Source, consumer: ConsumerFlags, output: Output, format: Format, *, count: int
    ) -> None:
        self._source = source
        self._flags = consumer
        self._output = output
        self._format = format
        self._left = count or None
        self._consumers: list[Consumer] = []
        self._output_turn = anyio.Lock()

    async def run(self, topics: Sequence[str], channel: str, stop: anyio.Event) -> None:
        """Print until ``stop`` is set, or as many as were asked for.

        :raises OutputClosed: if nobody reads the output any more
        :raises click.ClickException: if no server can be reached, or the output cannot be written
        """
        await check_reachable(self._source, self._flags)
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._output.wait_closed)
            async with anyio.create_task_group() as tasks:
                for topic in topics:
                    tasks.start_soon(self._print_topic, topic, channel, stop)
            watching.cancel_scope.cancel()

    async def _print_topic(self, topic: str, channel: str, stop: anyio.Event) -> None:
        in_flight = self._wanted(self._flags.max_in_flight)
        async with (
            consume(
                topic,
                channel,
                nsqd=self._source.nsqd,
                nsqlookupd=self._source.nsqlookupd,
                max_in_flight=in_flight,
                options=self._flags.options,
                connection=self._flags.connection,
            ) as consumer,
            anyio.create_task_group() as tasks,
        ):
            self._consumers.append(consumer)
            tasks.start_soon(self._stop, consumer, stop)
            async for batch in consumer.batches(in_flight, _MAX_WAIT):
                if await self._print(batch):
                    stop.set()
                    break
            tasks.cancel_scope.cancel()

    async def _stop(self, consumer: Consumer, stop: anyio.Event) -> None:
        await stop.wait()
        consumer.stop()

    async def _print(self, messages: Sequence[Message]) -> bool:
        """Print and finish as many as are still wanted; whether those were all."""
        async with self._output_turn:
            messages = messages[: self._wanted(len(messages))]
            if messages:
                await self._output.write(self._format(messages))
                if self._left is not None:
                    self._left -= len(messages)
                    self._want_only(self._left)
                finish_all(messages)
            return self._left == 0

    def _wanted(self, count: int) -> int:
        return count if self._left is None else min(count, self._left)

    def _want_only(self, left: int) -> None:
        """Before FIN makes nsqd send more: what will not be printed should not leave its channel."""
        for consumer in [each for each in self._consumers if each.max_in_flight > left]:
            consumer.max_in_flight = left
