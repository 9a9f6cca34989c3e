"""The producer that ``async with nsq.produce(...)`` yields, and its subclass with middleware."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal

import anyio
from anyio.lowlevel import checkpoint

from ..address import NsqdAddress
from ..connection.busy_poll import BusyPoll
from ..envelope import encode_headers
from ..errors import Closed, FewerCopies, InvalidOption, NotSent, OutcomeUnknown, PublishRejected
from ..events import Emitter, EventHook
from ..exceptions import leaves
from ..middleware import Around, in_own_context
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..protocol import commands
from ..protocol.mpub_encoding import EncodedBodies
from ..protocol.session import Command
from ..tasks import Background, is_stray
from ..unentered import InBlock
from .bodies import Body, check_bodies, check_body, sealed, sealed_bodies
from .coalescing import Batcher
from .deferral import deferral, wrapped
from .dispatcher import Dispatcher
from .meter import ProducerMeter, ProducerReadings
from .pool import Pool
from .publication import Publication
from .statistics import ProducerStatistics

_MAX_KNOWN_TOPICS = 1000

_Outcome = Literal["stored", "rejected", "not_sent", "unknown", "cancelled"]


class Producer(InBlock):
    """Publishes to one or several nsqds. Made by `produce`; any number of tasks may share it.

    A publish that is cancelled affects no other publish; `publish` says what happens to its message.
    """

    _dispatcher_class: ClassVar[type[Dispatcher]] = Dispatcher

    def __init__(
        self,
        nsqds: Sequence[NsqdAddress],
        nsqlookupds: Sequence[str],
        *,
        on_event: EventHook | None,
        middleware: Sequence[ProducerMiddleware] = (),
        options: ProducerOptions,
        connection: ConnectionOptions,
        delays: str | None = None,
    ) -> None:
        self._middleware = middleware  # used by `WrappedProducer`
        self._options = options
        self._timeout = options.publish_timeout
        self._max_msg_size = options.max_msg_size
        self._delays = delays
        self._background = Background(self._run, self._shut_down)
        emit = Emitter("nsq_anyio.producer", on_event, end=self._background.fail)
        new_pool: Callable[..., Pool] = partial(Pool, nsqds)
        if nsqlookupds:
            from .discovered_pool import DiscoveredPool  # noqa: PLC0415 - httpx takes long to import

            new_pool = partial(DiscoveredPool, nsqds, nsqlookupds)
        self._dispatcher = self._dispatcher_class(
            partial(
                new_pool,
                options=options,
                connection_options=connection,
                emit=emit,
                fail=self._background.fail,
            ),
            options=options,
            emit=emit,
            noting=bool(middleware),
        )
        self._pool = self._dispatcher.pool
        self._batcher = Batcher(self._dispatcher, options) if options.coalesce else None
        self._topics: set[str] = set()  # topics whose names have been checked
        self._closed = False
        self._ended = False
        self._last_task: object = None

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
        pool = self._pool
        connections = [connection.snapshot() for connection in (*pool.connections, *pool.leaving)]
        return ProducerStatistics(
            connections=len(pool.open),
            outstanding=sum(each.outstanding for each in connections),
            outstanding_bytes=sum(each.outstanding_bytes for each in connections),
            waiting=self._dispatcher.waiting + (self._batcher.waiting if self._batcher else 0),
            published=sum(pool.published_before.values()) + sum(each.published for each in connections),
            per_connection=tuple(connections),
            **dataclasses.asdict(self._dispatcher.counters),
        )

    async def ready(self) -> None:
        """Wait until an nsqd is connected. This is not needed before a publish, which waits by itself.

        Cancelling the wait changes nothing.

        :raises Closed: outside the block, or if it ends first
        :raises PermanentRefusal: if an nsqd refuses the connection options; the block ends then
        :raises RuntimeError: in another event loop than the block's
        """
        self._background.home.check()
        await checkpoint()
        while not self._pool.open or self._closed:
            if self._background.failure is not None:
                raise self._background.failure
            if self._closed:
                raise _closed()
            await self._dispatcher.changed()

    async def publish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
        at: datetime | None = None,
        durable: bool = False,
    ) -> None:
        """Publish one message, and return once nsqd has stored it.

        This waits for a connection, and for room when too much is outstanding. After an attempt that
        certainly stored nothing, the message is sent again until ``publish_timeout``, unless every nsqd would
        refuse it.

        If this is cancelled, the message is not sent any more. If it was sent before, nsqd may have stored
        it, or may still do so.

        :param topic: 1 to 64 characters of ``[.a-zA-Z0-9_-]``, optionally ending in ``#ephemeral``
        :param body: 1 to ``max_msg_size`` bytes; a str is encoded as UTF-8
        :param headers: names and their text values, sent with the body in an envelope (see
            `nsq_anyio.envelope`), to which ``max_msg_size`` applies; without headers, it is sent unchanged
        :param defer: seconds until nsqd delivers the message, 0 to ``max_defer``, or more if the producer has
            ``delays``; None for no delay
        :param at: when to deliver the message, instead of ``defer``: a datetime with a time zone. One in the
            past means now, and one beyond ``max_defer`` seconds from now needs ``delays``
        :param durable: whether the service of ``delays`` keeps the message even for a short time, with ``at``
            or ``defer``. nsqd holds deferred messages in memory, and loses them if it is killed; default
            False
        :raises InvalidName: for a topic that nsqd would refuse
        :raises InvalidBody: for an empty or oversized body
        :raises InvalidOption: for a ``defer`` or ``at`` that is out of range or needs ``delays``, or headers
            that an envelope cannot hold
        :raises PublishRejected: if nsqd refuses the message
        :raises NotSent: if the message could not be sent in time, and was certainly not stored
        :raises OutcomeUnknown: if the connection was lost or ``publish_timeout`` passed before nsqd answered
        :raises FewerCopies: if some nsqds have stored it, but fewer than ``copies``
        :raises Closed: outside the block
        :raises RuntimeError: in another event loop than the block's
        """
        if type(topic) is not str or topic not in self._topics:
            self._check_new(topic)
        if headers is not None:
            body = sealed(body, headers, self._options)
        if type(body) is bytes and 0 < len(body) <= self._max_msg_size:
            data = body
        else:
            data = check_body(body, self._options)  # converts the body, or raises
        if defer is not None or at is not None or durable:
            await self._publish_later(topic, data, defer, at, durable)
        elif self._batcher is None:
            await self._publish(Command.PUB, topic, commands.pub(topic, data), 1)
        else:
            home = self._background.home
            if self._closed or home.running() != home.loop:  # without a call, for the sake of speed
                self._check_open()
            batch, index = self._batcher.join(topic, data)
            try:
                await batch.event.wait()
            except BaseException:
                self._batcher.leave(batch, index)
                raise
            if batch.error is not None or not batch.done:
                await self._batcher.failed(batch, index)

    async def _publish_later(
        self, topic: str, body: bytes, defer: float | None, at: datetime | None, durable: bool
    ) -> None:
        """Publish a message that nsqd defers, or that a service for delays keeps until its time."""
        delays = self._delays
        until = deferral(
            defer=defer, at=at, durable=durable, max_defer=self._options.max_defer, delays=delays
        )
        if isinstance(until, int):
            await self._publish(Command.DPUB, topic, commands.dpub(topic, until, body), 1)
        else:
            assert delays is not None  # noqa: S101 - `deferral` has raised
            envelope = check_body(wrapped(topic, until, body), self._options)
            await self._publish(Command.PUB, delays, commands.pub(delays, envelope), 1)

    async def publish_many(
        self, topic: str, bodies: Iterable[Body], *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish several messages, all or none (MPUB), and return once nsqd has stored them.

        A cancellation has the same effect on all messages as on the message of `publish`.

        :param bodies: 1 or more, each of 1 to ``max_msg_size`` bytes. Their sizes, plus 4 bytes for each and
            4 for their number, add up to at most ``max_body_size``
        :param headers: the headers of every message, as for `publish`
        :raises NSQError: as `publish` does
        """
        check_topic(topic)
        if headers is not None:
            bodies = sealed_bodies(bodies, headers, self._options)
        checked = check_bodies(bodies, self._options)
        await self._publish(Command.MPUB, topic, commands.mpub(topic, checked), len(checked))

    async def _publish_encoded(self, topic: str, bodies: EncodedBodies) -> None:
        """Publish bodies that the caller has checked, as `publish_many` does, but without middleware."""
        await self._publish(Command.MPUB, topic, commands.mpub(topic, bodies), bodies.messages)

    async def _publish(self, command: Command, topic: str, data: bytes, messages: int) -> Publication:
        self._check_open()
        dispatcher = self._dispatcher
        now = dispatcher.now()
        event = dispatcher.new_event()
        publication = Publication(command, topic, data, messages, now, now + self._timeout, event)
        dispatcher.submit(publication, now)
        try:
            if (busy_poll := self._busy_poll(publication)) is not None:
                await busy_poll.poll()
            if not publication.done:
                await publication.event.wait()
        except BaseException:
            dispatcher.abandon(publication)
            raise
        if publication.error is not None:
            raise publication.error
        return publication

    def _busy_poll(self, publication: Publication) -> BusyPoll | None:
        """Return the poll for the answer; None if another task may want to publish meanwhile."""
        task = self._dispatcher.current_task()
        is_other, self._last_task = task is not self._last_task, task
        attempt = publication.attempt
        return None if is_other or attempt is None else attempt.connection.busy_poll

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()
        self._background.home.check()

    def _check_new(self, topic: str) -> None:
        check_topic(topic)
        if len(self._topics) == _MAX_KNOWN_TOPICS:
            self._topics.clear()
        self._topics.add(topic)

    def _measure(self, meter: ProducerMeter) -> ProducerReadings:
        """Report to a collector of metrics, and return the readings for it.

        :raises InvalidOption: if the producer already reports to a collector
        """
        if self._dispatcher.successes.meter is not None:
            raise InvalidOption(f"{self!r} is already measured: add it to one collector, once")
        self._dispatcher.measure(meter)
        return ProducerReadings(self._pool, self.statistics, lambda: self._ended)

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[Producer]:
        """Stay connected for the length of the user's block."""
        self._dispatcher.begin()
        try:
            async with self._background.around_block():
                yield self
        finally:
            self._ended = True

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


class Publishing:
    """One `Producer.publish` or `Producer.publish_many`: the argument of a producer's middleware.

    :ivar topic: the topic
    :ivar messages: the number of messages
    :ivar size: the size of their bodies together in bytes, without headers
    :ivar headers: the headers to send; a middleware may change them before it yields
    :ivar outcome: None until the publish has ended. Then "stored", also if an `error` says that fewer than
        ``copies`` nsqds have stored it; "rejected" (`PublishRejected`); "not_sent"
        (`NotSent`, or any error raised before anything was sent); "unknown" (`OutcomeUnknown`); or
        "cancelled". An error that a middleware raises or suppresses later does not change it
    :ivar nsqd: the address of the nsqd that stored the messages; None until then, if no nsqd stored them, or
        if ``coalesce`` sent them together with others
    :ivar error: the exception of the publish, or of a middleware inside this one; None if there is none
    """

    __slots__ = ("error", "headers", "messages", "nsqd", "outcome", "size", "topic")

    def __init__(self, topic: str, messages: int, size: int, headers: Mapping[str, str]) -> None:
        self.topic: str = topic
        self.messages: int = messages
        self.size: int = size
        self.headers: dict[str, str] = dict(headers)
        self.outcome: _Outcome | None = None
        self.nsqd: str | None = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Publishing {self.messages} messages to {self.topic}, {self.outcome or 'running'}>"

    def _ended(self, error: BaseException | None) -> None:
        """Set the error, and the outcome if it is not set, before the next middleware exits."""
        self.error = error
        if self.outcome is None:
            self.outcome = _outcome(error)


def _outcome(error: BaseException | None) -> _Outcome:
    match error:
        case None | FewerCopies():
            return "stored"
        case PublishRejected():
            return "rejected"
        case NotSent():
            return "not_sent"
        case OutcomeUnknown():
            return "unknown"
        case _:
            cancelled = anyio.get_cancelled_exc_class()
            if any(isinstance(leaf, cancelled) for leaf in leaves(error)) and not is_stray(error):
                return "cancelled"
            return "not_sent"


ProducerMiddleware = Callable[[Publishing], AbstractAsyncContextManager[object]]
"""A middleware of `produce`: takes a `Publishing`, and returns an async context manager."""


_current: ContextVar[Publishing] = ContextVar("publishing")
"""The publish that is running in this context."""


class WrappedProducer(Producer):
    """A `Producer` that enters its middleware around each publish, in a context of its own."""

    async def publish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
        at: datetime | None = None,
        durable: bool = False,
    ) -> None:
        """Publish one message. A middleware may raise errors of its own."""
        data = check_body(body, self._options)

        async def publish(headers: Mapping[str, str] | None) -> None:
            await super(WrappedProducer, self).publish(
                topic, data, headers=headers, defer=defer, at=at, durable=durable
            )

        await self._wrapped(topic, [data], headers, publish)

    async def publish_many(
        self, topic: str, bodies: Iterable[Body], *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish several messages. A middleware may raise errors of its own."""
        checked = check_bodies(bodies, self._options)

        async def publish(headers: Mapping[str, str] | None) -> None:
            await super(WrappedProducer, self).publish_many(topic, checked, headers=headers)

        await self._wrapped(topic, checked, headers, publish)

    async def _publish(self, command: Command, topic: str, data: bytes, messages: int) -> Publication:
        publication = await super()._publish(command, topic, data, messages)
        _current.get().nsqd = publication.stored_by
        return publication

    async def _wrapped(
        self,
        topic: str,
        bodies: list[bytes],
        headers: Mapping[str, str] | None,
        publish: Callable[[Mapping[str, str] | None], Coroutine[Any, Any, None]],
    ) -> None:
        check_topic(topic)
        if headers is not None:
            encode_headers(headers)  # checks them
        publishing = Publishing(topic, len(bodies), sum(map(len, bodies)), headers or {})
        around = Around(self._middleware, publishing, self._options.cancelled_drain_timeout)

        async def run() -> None:
            _current.set(publishing)
            async with around:
                await publish(publishing.headers or None)

        await in_own_context(run())
