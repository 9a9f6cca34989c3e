"""`produce` for plain functions, and the producer that it creates."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from ..errors import Closed
from ..events import EventHook
from ..options import ConnectionOptions, ProducerOptions
from ..options.aliases import knowing_other_names
from ..options.declaration import options_or_default
from ..producer import Body, ProducerMiddleware, ProducerStatistics
from ..producer import Producer as AsyncProducer
from ..producer import produce as produce_async
from .lifetime import Lifetime
from .loop_thread import Backend
from .outcome import PublishFuture

_Publish = Callable[[AsyncProducer], Coroutine[Any, Any, None]]


class Producer(Lifetime[AsyncProducer]):
    """Publishes to one or several nsqds. Made by `produce`; any number of threads may share it."""

    _noun = "producer"
    _maker = "produce"

    def __repr__(self) -> str:
        return f"<sync {self._inner!r}>" if self._inner else "<sync Producer, not opened yet>"

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds to which this producer is connected now."""
        return self._read(lambda producer: producer.connections)

    def statistics(self) -> ProducerStatistics:
        """Return a snapshot of the counters; see `nsq_anyio.Producer.statistics`."""
        return self._read(AsyncProducer.statistics)

    def _measure(self, add: Callable[[AsyncProducer], object]) -> None:
        """Call ``add`` with the async producer, in its event loop."""
        self._read(add)

    def ready(self) -> None:
        """Wait until an nsqd is connected; see `nsq_anyio.Producer.ready`.

        :raises Closed: if the producer is closed before that, or in a forked child
        :raises PermanentRefusal: if an nsqd refuses permanently
        :raises WouldDeadlock: in ``on_event``
        """
        self._wait_for(AsyncProducer.ready, "a publish there waits for a connection by itself")

    def publish(
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

        Parameters and errors are those of `nsq_anyio.Producer.publish`. A signal handler that raises, such as
        the one for Ctrl-C, ends the wait; the message may still be published.

        :raises Closed: if the producer is closed, or in a forked child
        :raises WouldDeadlock: in ``on_event``, which is called in the thread that publishes
        """
        self._wait_for(
            lambda producer: producer.publish(
                topic, body, headers=headers, defer=defer, at=at, durable=durable
            )
        )

    def publish_many(
        self, topic: str, bodies: Iterable[Body], *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Publish several messages, all or none, and return once nsqd has stored them.

        Parameters and errors are those of `nsq_anyio.Producer.publish_many`. A signal handler that raises
        ends the wait; the messages may still be published.

        :raises WouldDeadlock: as `publish` does
        """
        bodies = list(bodies)  # run a caller's generator in the caller's thread
        self._wait_for(lambda producer: producer.publish_many(topic, bodies, headers=headers))

    def publish_soon(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
        at: datetime | None = None,
        durable: bool = False,
    ) -> Future[None]:
        """Publish one message without waiting; the future gets what `publish` would return or raise.

        Cancelling the future cancels the publish. If you ignore the future, failures go unnoticed, but the
        end of the block still waits for the message. `publish_soon` may be called in ``on_event``; a future
        from there cannot be cancelled.

        :raises Closed: if the producer is closed, or in a forked child
        """
        if isinstance(headers, Mapping):
            headers = dict(headers)  # the caller may change them before the loop's thread reads them
        thread, producer = self._open()
        future = PublishFuture()
        if thread.is_current:
            future.set_running_or_notify_cancel()
        try:
            outcome = thread.call_soon(
                lambda: producer.publish(topic, body, headers=headers, defer=defer, at=at, durable=durable),
                then=future.take,
            )
        except Closed:
            self._refuse(thread)
        future.add_done_callback(lambda future: thread.cancel(outcome) if future.cancelled() else None)
        return future

    def _wait_for(self, publish: _Publish, remedy: str = "use publish_soon there") -> None:
        """Wait for a publish; an interrupt cancels it."""
        thread, producer = self._open()
        self._check_wait(thread, remedy)
        try:
            outcome = thread.call_soon(lambda: publish(producer))
            try:
                outcome.result()
            except BaseException:
                thread.cancel(outcome)
                raise
        except Closed:
            self._refuse(thread)


@knowing_other_names
def produce(
    nsqd: str | Sequence[str] | None = None,
    *,
    nsqlookupd: str | Sequence[str] | None = None,
    copies: int = 1,
    on_event: EventHook | None = None,
    middleware: Sequence[ProducerMiddleware] = (),
    delays: str | None = None,
    options: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
    backend: Backend = "asyncio",
) -> Producer:
    """Publish to nsqds from code without an event loop.

    The producer opens at its first use, or when its ``with`` block is entered. The end of the block or
    `Producer.close` ends it. As with `nsq_anyio.produce`, the end waits up to ``drain_timeout`` seconds for
    nsqd's answers. A producer that is still open when the interpreter exits ends in the same way. In a forked
    child, every use of a producer that was open raises `Closed`; in the parent it continues.

    :param nsqd: one or several addresses of nsqds, as for `nsq_anyio.produce`
    :param nsqlookupd: one or several URLs of nsqlookupds, as for `nsq_anyio.produce`
    :param copies: how many different nsqds must store a message, as for `nsq_anyio.produce`
    :param on_event: called with each event, in the thread of the event loop
    :param middleware: as for `nsq_anyio.produce`. It runs in the event loop, and sees the context variables
        of the thread that publishes
    :param delays: the topic of a service for delays, as for `nsq_anyio.produce`
    :param options: the options of the producer
    :param connection: the options of each connection
    :param backend: AnyIO's backend for the event loop, ``asyncio`` or ``trio``; default ``asyncio``
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if neither ``nsqd`` nor ``nsqlookupd`` is given, or another value is not valid
    :raises PermanentRefusal: from the next call, the end of the block or `Producer.close`, if an nsqd refuses
        permanently
    """
    options = options_or_default("options", options, ProducerOptions)
    block = produce_async(
        nsqd,
        nsqlookupd=nsqlookupd,
        copies=copies,
        on_event=on_event,
        middleware=middleware,
        delays=delays,
        options=options,
        connection=connection,
    )
    return Producer(block, patience=options.drain_timeout, backend=backend)
