"""The producer that ``async with nsq.produce(...)`` yields."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from ..address import NsqdAddress
from ..connection.background import Background
from ..errors import Closed
from ..events import Emitter, EventHook
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..protocol import commands
from ..protocol.session import Command
from .batch import Batcher
from .bodies import Body, check_bodies, check_body, check_defer
from .dispatcher import Dispatcher
from .publication import Publication
from .statistics import ProducerStatistics

__all__ = ["Producer"]

_MAX_KNOWN_TOPICS = 1000


class Producer:
    """Publishes to one or several nsqds. Made by `produce`; any number of tasks may share it.

    A publish that is cancelled may still be executed; other publishes still get their own answers.
    """

    def __init__(
        self,
        nsqds: Sequence[NsqdAddress],
        *,
        on_event: EventHook | None,
        options: ProducerOptions,
        connection: ConnectionOptions,
    ) -> None:
        self._options = options
        self._timeout = options.publish_timeout
        self._max_msg_size = options.max_msg_size
        self._background = Background(self._run, self._shut_down)
        self._dispatcher = Dispatcher(
            nsqds,
            options=options,
            connection_options=connection,
            emit=Emitter("nsq_anyio.producer", on_event),
            fail=self._background.fail,
        )
        self._pool = self._dispatcher.pool
        self._batcher = Batcher(self._dispatcher, options) if options.coalesce else None
        self._topics: set[str] = set()  # topics whose names have been checked
        self._closed = False

    def __repr__(self) -> str:
        connections = ", ".join(
            f"{connection.nsqd} {'up' if connection.current else 'down'}"
            for connection in self._pool.connections
        )
        return f"<Producer {'closed' if self._closed else connections}>"

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds that the producer is connected to now."""
        return tuple(connection.nsqd for connection in self._pool.connections if connection.current)

    def statistics(self) -> ProducerStatistics:
        """Return a snapshot of the counters, of all connections since the block began."""
        connections = [connection.snapshot() for connection in self._pool.connections]
        return ProducerStatistics(
            connections=len(self._pool.open),
            outstanding=sum(each.outstanding for each in connections),
            outstanding_bytes=sum(each.outstanding_bytes for each in connections),
            waiting=self._dispatcher.waiting + (self._batcher.waiting if self._batcher else 0),
            published=sum(each.published for each in connections),
            per_connection=tuple(connections),
            **dataclasses.asdict(self._dispatcher.counters),
        )

    async def publish(self, topic: str, body: Body, *, defer: float | None = None) -> None:
        """Publish one message, and return once nsqd has stored it.

        This waits for a connection, and for room when too much is outstanding. A message that was certainly
        not stored is sent again until ``publish_timeout``.

        :param topic: 1 to 64 characters of ``[.a-zA-Z0-9_-]``, optionally ending in ``#ephemeral``
        :param body: 1 to ``max_msg_size`` bytes; a str is encoded as UTF-8
        :param defer: seconds until nsqd delivers the message, 0 to ``max_defer``; None for no delay
        :raises InvalidName: for a topic that nsqd would refuse
        :raises InvalidBody: for an empty or oversized body
        :raises InvalidOption: for a defer out of range
        :raises PublishRejected: if nsqd refuses the message
        :raises NotSent: if the message could not be sent in time, and was certainly not stored
        :raises OutcomeUnknown: if the connection was lost or ``publish_timeout`` passed before nsqd answered
        :raises Closed: outside the block
        """
        if type(topic) is not str or topic not in self._topics:
            self._check_new(topic)
        if type(body) is bytes and 0 < len(body) <= self._max_msg_size:
            data = body
        else:
            data = check_body(body, self._options)  # converts the body, or raises
        if defer is not None:
            milliseconds = check_defer(defer, self._options)
            await self._publish(Command.DPUB, topic, commands.dpub(topic, milliseconds, data), 1)
        elif self._batcher is None:
            await self._publish(Command.PUB, topic, commands.pub(topic, data), 1)
        else:
            if self._closed:
                raise _closed()
            batch, index = self._batcher.join(topic, data)
            try:
                await batch.event.wait()
            except BaseException:
                self._batcher.leave(batch, index)
                raise
            if batch.error is not None or not batch.done:
                await self._batcher.failed(batch, index)

    async def publish_many(self, topic: str, bodies: Iterable[Body]) -> None:
        """Publish several messages, all or none (MPUB), and return once nsqd has stored them.

        :param bodies: 1 or more, each of 1 to ``max_msg_size`` bytes. Their sizes, plus 4 bytes for each and
            4 for their number, add up to at most ``max_body_size``
        :raises NSQError: as `publish` does
        """
        check_topic(topic)
        checked = check_bodies(bodies, self._options)
        await self._publish(Command.MPUB, topic, commands.mpub(topic, checked), len(checked))

    async def _publish(self, command: Command, topic: str, data: bytes, messages: int) -> None:
        if self._closed:
            raise _closed()
        dispatcher = self._dispatcher
        now = anyio.current_time()
        event = dispatcher.new_event()
        publication = Publication(command, topic, data, messages, now, now + self._timeout, event)
        dispatcher.submit(publication, now)
        try:
            await publication.event.wait()
        except BaseException:
            dispatcher.abandon(publication)
            raise
        if publication.error is not None:
            raise publication.error

    def _check_new(self, topic: str) -> None:
        check_topic(topic)
        if len(self._topics) == _MAX_KNOWN_TOPICS:
            self._topics.clear()
        self._topics.add(topic)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Producer]:
        """Stay connected for the length of the user's block."""
        async with self._background.around_block():
            yield self

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._dispatcher.run)
            if self._batcher:
                tasks.start_soon(self._batcher.run)

    async def _shut_down(self, cancelled: bool) -> None:
        self._closed = True
        if self._batcher:
            self._batcher.flush()
        options = self._options
        timeout = options.cancelled_drain_timeout if cancelled else options.drain_timeout
        try:
            with anyio.move_on_after(timeout) as scope:
                await self._dispatcher.drain()
            with anyio.CancelScope(deadline=scope.deadline):
                self._dispatcher.end()
                await self._pool.close()
        finally:
            self._dispatcher.end()  # even if the drain was cancelled: callers must not wait forever


def _closed() -> Closed:
    return Closed("the producer's block has ended: publish inside `async with nsq.produce(...)`")
