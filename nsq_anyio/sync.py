"""Publishing from plain functions: scripts, web frameworks, worker threads.

::

    with nsq.sync.produce(nsqd="127.0.0.1:4150") as producer:
        producer.publish("clicks", b"body")

An event loop in a thread of its own does the work for the length of the block.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Literal, NoReturn, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from .errors import Closed
from .events import EventHook
from .options import ConnectionOptions, ProducerOptions
from .producer import Body, ProducerStatistics
from .producer import Producer as AsyncProducer
from .producer import produce as produce_async

__all__ = ["Producer", "produce"]

T = TypeVar("T")


class Producer:
    """Publishes to one or several nsqds. Made by `produce`; any number of threads may share it."""

    def __init__(self, portal: BlockingPortal, producer: AsyncProducer, ended: Future[None]) -> None:
        self._portal = portal
        self._producer = producer
        self._ended = ended
        self._process = os.getpid()
        self._outstanding: set[Future[None]] = set()

    def __repr__(self) -> str:
        return f"<sync {self._producer!r}>"

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds that this producer is connected to now."""
        return self._call(lambda: self._producer.connections)

    def statistics(self) -> ProducerStatistics:
        """What was published so far; see `nsq_anyio.Producer.statistics`."""
        return self._call(self._producer.statistics)

    def publish(self, topic: str, body: Body, *, defer: float | None = None) -> None:
        """Publish one message, and return once nsqd has taken it.

        Parameters and errors are those of `nsq_anyio.Producer.publish`. A signal handler that raises, such as
        the one for Ctrl-C, ends the wait; the message may be published all the same.
        """
        _result(self.publish_soon(topic, body, defer=defer))

    def publish_many(self, topic: str, bodies: Iterable[Body]) -> None:
        """Publish several messages, all or none, and return once nsqd has taken them.

        Parameters and errors are those of `nsq_anyio.Producer.publish_many`.
        """
        bodies = list(bodies)  # a generator of the caller's runs in the caller's thread
        _result(self._start(lambda: self._producer.publish_many(topic, bodies)))

    def publish_soon(self, topic: str, body: Body, *, defer: float | None = None) -> Future[None]:
        """Publish one message without waiting: the future gets what `publish` would return or raise.

        Whoever drops the future does not learn of failures, but the end of the block waits for the message.
        """
        return self._start(lambda: self._producer.publish(topic, body, defer=defer))

    def _start(self, publish: Callable[[], Awaitable[None]]) -> Future[None]:
        self._check()
        try:
            future = self._portal.start_task_soon(publish)
        except RuntimeError:  # AnyIO's way to say that its loop has ended
            self._refuse()
        self._outstanding.add(future)
        future.add_done_callback(self._outstanding.discard)
        return future

    def _call(self, read: Callable[[], T]) -> T:
        self._check()
        try:
            return self._portal.call(read)
        except RuntimeError:
            self._refuse()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise Closed("the producer was made before this process was forked: make one in each process")
        if self._ended.done():
            self._refuse()

    def _refuse(self) -> NoReturn:
        if self._ended.done() and not self._ended.cancelled():
            self._ended.result()  # raises what has ended the producer
        raise Closed("the producer's block has ended: publish inside `with nsq.sync.produce(...)`") from None


@contextmanager
def produce(
    nsqd: str | Sequence[str],
    *,
    on_event: EventHook | None = None,
    options: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
    backend: Literal["asyncio", "trio"] = "asyncio",
) -> Generator[Producer]:
    """Publish to nsqds for the length of a ``with`` block, without an event loop of one's own.

    The end of the block waits until nsqd has answered everything, as `nsq_anyio.produce` does.

    :param nsqd: address or addresses; this and the next three are as for `nsq_anyio.produce`
    :param on_event: called in the thread of the event loop
    :param options: the options that are not for every day
    :param connection: the same for each connection
    :param backend: of AnyIO, in which the event loop runs; default ``asyncio``
    :raises InvalidAddress: for an address that is none
    :raises PermanentRefusal: from the next call or the end of the block, if an nsqd refuses for good
    """
    manager = produce_async(nsqd, on_event=on_event, options=options, connection=connection)

    async def run(*, task_status: TaskStatus[tuple[AsyncProducer, anyio.Event]]) -> None:
        async with manager as producer:
            leave = anyio.Event()
            task_status.started((producer, leave))
            await leave.wait()

    with start_blocking_portal(backend, name="nsq-anyio producer") as portal:
        ended, (producer, leave) = portal.start_task(run)
        facade = Producer(portal, producer, ended)
        block_error: Exception | None = None
        try:
            yield facade
        except Exception as error:  # noqa: BLE001 - raised below; whatever else leaves here cancels the loop
            block_error = error
        wait(facade._outstanding.copy())  # noqa: SLF001
        if not ended.done():
            portal.call(leave.set)
        failure = ended.exception()
        if block_error is not None:
            raise block_error
        if failure is not None:
            raise failure


def _result(future: Future[T]) -> T:
    """Wait for it; who is interrupted cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
