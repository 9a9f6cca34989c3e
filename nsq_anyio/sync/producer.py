"""The producer for plain functions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from ..errors import Closed, WouldDeadlock
from ..events import EventHook
from ..options import ConnectionOptions, ProducerOptions
from ..producer import Body, ProducerStatistics
from ..producer import Producer as AsyncProducer
from ..producer import produce as produce_async
from .loop_thread import Backend, LoopThread

__all__ = ["Producer", "produce"]

T = TypeVar("T")


class Producer:
    """Publishes to one or several nsqds. Made by `produce`; any number of threads may share it."""

    def __init__(self, thread: LoopThread[AsyncProducer], producer: AsyncProducer) -> None:
        self._thread = thread
        self._producer = producer

    def __repr__(self) -> str:
        return f"<sync {self._producer!r}>"

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds to which this producer is connected now."""
        return self._read(lambda: self._producer.connections)

    def statistics(self) -> ProducerStatistics:
        """Return what was published so far; see `nsq_anyio.Producer.statistics`."""
        return self._read(self._producer.statistics)

    def publish(self, topic: str, body: Body, *, defer: float | None = None) -> None:
        """Publish one message, and return once nsqd has taken it.

        Parameters and errors are those of `nsq_anyio.Producer.publish`. A signal handler that raises, such as
        the one for Ctrl-C, ends the wait; the message may be published nevertheless.

        :raises WouldDeadlock: in ``on_event``, which is called in the thread that publishes
        """
        self._check_wait()
        _result(self.publish_soon(topic, body, defer=defer))

    def publish_many(self, topic: str, bodies: Iterable[Body]) -> None:
        """Publish several messages, all or none, and return once nsqd has taken them.

        Parameters and errors are those of `nsq_anyio.Producer.publish_many`.

        :raises WouldDeadlock: as `publish` does
        """
        self._check_wait()
        bodies = list(bodies)  # run a caller's generator in the caller's thread
        _result(self._start(lambda: self._producer.publish_many(topic, bodies)))

    def publish_soon(self, topic: str, body: Body, *, defer: float | None = None) -> Future[None]:
        """Publish one message without waiting: the future gets what `publish` would return or raise.

        Without the future, failures go unnoticed, but the end of the block still waits for the message. It
        can be called in ``on_event``, where the future cannot be cancelled.
        """
        return self._start(lambda: self._producer.publish(topic, body, defer=defer))

    def _start(self, publish: Callable[[], Coroutine[Any, Any, None]]) -> Future[None]:
        self._check_process()
        try:
            return self._thread.call_soon(publish)
        except Closed:
            self._refuse()

    def _read(self, function: Callable[[], T]) -> T:
        self._check_process()
        try:
            return self._thread.read(function)
        except Closed:
            self._refuse()

    def _check_process(self) -> None:
        if self._thread.is_forked:
            raise Closed("the producer was made before this process was forked: make one in each process")

    def _check_wait(self) -> None:
        if self._thread.is_current:
            raise WouldDeadlock(
                "publish in the thread of the event loop, where on_event is called, would wait for itself: "
                "use publish_soon there"
            )

    def _refuse(self) -> NoReturn:
        if self._thread.failure is not None:
            raise self._thread.failure from None
        raise Closed("the producer's block has ended: publish inside `with nsq.sync.produce(...)`") from None


class _Block(AbstractContextManager[Producer]):
    """The ``with`` block.

    A class and not a generator: the garbage collector would close an abandoned generator in any thread, and
    wait there.
    """

    def __init__(self, thread: LoopThread[AsyncProducer]) -> None:
        self._thread = thread

    def __enter__(self) -> Producer:
        return Producer(self._thread, self._thread.start())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread = self._thread
        thread.leave(cancelled=not (error is None or isinstance(error, Exception)))
        if error is None and thread.failure is not None:
            raise thread.failure


def produce(
    nsqd: str | Sequence[str],
    *,
    on_event: EventHook | None = None,
    options: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
    backend: Backend = "asyncio",
) -> AbstractContextManager[Producer]:
    """Publish to nsqds within a ``with`` block, without an event loop of the caller's.

    As with `nsq_anyio.produce`, the end of the block waits for nsqd's answers for up to ``drain_timeout``
    seconds. A block that nobody leaves ends in the same way when the interpreter exits. In a forked child the
    block ends at once, and continues in the parent.

    :param nsqd: address or addresses; this and the next three are as for `nsq_anyio.produce`
    :param on_event: called in the thread of the event loop
    :param options: the less common options
    :param connection: the options of each connection
    :param backend: AnyIO's backend for the event loop; default ``asyncio``
    :raises InvalidAddress: if an address is not valid
    :raises PermanentRefusal: from the next call or the end of the block, if an nsqd refuses permanently
    """
    options = options or ProducerOptions()
    block = produce_async(nsqd, on_event=on_event, options=options, connection=connection)
    thread = LoopThread(block, patience=options.drain_timeout, backend=backend, name="nsq-anyio producer")
    return _Block(thread)


def _result(future: Future[T]) -> T:
    """Wait for the future; an interrupt cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
