"""`consume` for plain functions, and the consumer that it creates."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from threading import Thread

import anyio

from ..child_process import end_child
from ..consumer import Consumer as AsyncConsumer
from ..consumer import ConsumerStatistics
from ..consumer import Message as AsyncMessage
from ..consumer import consume as consume_async
from ..consumer.batches import shareable
from ..consumer.message import ConsumerMiddleware
from ..deduplication import Deduplicate
from ..errors import Closed, InvalidOption
from ..events import EventHook
from ..options import ConnectionOptions, ConsumerOptions
from ..options.aliases import knowing_other_names
from ..options.checks import check_flag, check_integer, check_seconds
from ..options.declaration import options_or_default
from .exchange import Exchange
from .handlers import Handler, HandlerThreads
from .handover import Over
from .lifetime import Lifetime
from .loop_thread import Backend, LoopThread
from .message import Message

_REMEDY = "take messages in a thread of your own"


class Consumer(Lifetime[AsyncConsumer]):
    """Takes the messages of one channel. Made by `consume`; any number of threads may share it.

    Iterate over it, call `take` or `batches`, or call `run` with a handler. A signal handler that raises,
    such as the one for Ctrl-C, ends the wait of the main thread. A message that the thread was just taking is
    delivered again.
    """

    _noun = "consumer"
    _maker = "consume"

    def __init__(
        self,
        block: AbstractAsyncContextManager[AsyncConsumer],
        exchange: Exchange,
        options: ConsumerOptions,
        backend: Backend,
    ) -> None:
        # An event loop that has crashed has not ended the handover.
        super().__init__(exchange.running(block), patience=0, backend=backend, ended=exchange.handover.end)
        self._exchange = exchange
        self._options = options

    def __repr__(self) -> str:
        return f"<sync {self._inner!r}>" if self._inner else "<sync Consumer, not opened yet>"

    # Taking messages

    def __iter__(self) -> Consumer:
        self._open_to_wait()
        self._exchange.offer(1)
        return self

    def __next__(self) -> Message:
        """Wait for the next message. `stop` and `close` end the iteration.

        :raises WouldDeadlock: in ``on_event``, which is called in the thread that receives messages
        :raises Closed: if the consumer was closed before, or in a forked child
        """
        thread, _ = self._open()
        self._check_wait(thread, _REMEDY)
        try:
            message = self._exchange.handover.take(None, self._exchange.stopping)
        except Over:
            message = None
        if message is None:
            self._raise_failure(thread)
            raise StopIteration
        return Message(message, self._exchange)

    def take(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message; return None if none arrives within ``timeout`` seconds.

        :param timeout: seconds, 0 or more; default None: no limit
        :raises Closed: if the consumer is closed or `stopped`, or in a forked child
        :raises WouldDeadlock: in ``on_event``
        :raises InvalidOption: if the timeout is out of range
        """
        check_seconds("timeout", timeout, 0, special=(None,))
        thread, _ = self._open_to_wait()
        self._exchange.offer(1)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            message = self._exchange.handover.take(deadline, self._exchange.stopping)
        except Over:
            self._raise_failure(thread)
            if self.stopped:
                raise Closed("the consumer is stopped: check `stopped` before take()") from None
            self._refuse_closed()
        return None if message is None else Message(message, self._exchange)

    def batches(self, max_size: int, max_wait: float = 1.0) -> Iterator[list[Message]]:
        """Iterate over lists of messages, each of which must be answered.

        A batch ends when it is full, ``max_wait`` seconds after its first message, or when the consumer
        `is_starved`: then no more messages may come before these are answered. A message that another failure
        would give up (``max_attempts``) comes alone: a batch fails as a whole, and one bad message must not
        have the others given up.

        :param max_size: the most messages in a batch, 1 or more
        :param max_wait: seconds to wait for more messages, 0 or more; default 1
        :raises InvalidOption: if either is out of range
        :raises Closed: if the consumer is closed, or in a forked child
        :raises WouldDeadlock: in ``on_event``
        """
        check_integer("max_size", max_size, 1)
        check_seconds("max_wait", max_wait, 0)
        thread, _ = self._open_to_wait()
        self._exchange.offer(max_size)
        max_attempts = self._options.max_attempts
        batches = BatchCollector(self._exchange, max_size, max_wait, max_attempts, lambda: self.is_starved)
        return self._iterate(batches, thread)

    def _iterate(self, batches: BatchCollector, thread: LoopThread[AsyncConsumer]) -> Iterator[list[Message]]:
        try:
            while True:
                self._open()  # not in a forked child
                yield batches.take()
        except Over:
            self._raise_failure(thread)

    def run(self, handler: Handler, *, threads: int = 1, keep_alive: bool = False) -> None:
        """Handle messages in threads until the consumer is stopped or closed, or fails.

        The message is finished when the handler returns, and requeued when it raises. A handler may raise
        `Requeue` or `Discard` to choose, or answer the message itself.

        After `stop`, running handlers have ``drain_timeout`` seconds to return; after `close` or Ctrl-C they
        have ``cancelled_drain_timeout``. A handler that does not return in time is abandoned in its thread:
        its message is requeued, and a `ThreadAbandoned` event names the handler.

        :param handler: a plain function of one message
        :param threads: the number of threads that call it, 1 or more; default 1. The caller's thread waits
        :param keep_alive: whether to touch each message half-way to each deadline while its handler runs, as
            long as nsqd's ``max_msg_timeout`` allows; default False
        :raises InvalidOption: if an option is out of range, or ``handler`` is not a plain function
        :raises Closed: if the consumer is closed, or in a forked child
        :raises WouldDeadlock: in ``on_event``
        """
        check_integer("threads", threads, 1)
        check_flag("keep_alive", keep_alive)
        thread, _ = self._open_to_wait()
        workers = HandlerThreads(
            self._exchange,
            handler,
            drain_timeout=self._options.drain_timeout,
            cancelled_drain_timeout=self._options.cancelled_drain_timeout,
            keep_alive=keep_alive,
        )
        self._exchange.offer(threads)
        workers.run(threads)
        self._raise_failure(thread)

    def pause(self) -> None:
        """Receive no more messages until `resume`. Messages already received can be taken and answered."""
        self._read(AsyncConsumer.pause)

    def resume(self) -> None:
        """Receive messages again, after `pause`."""
        self._read(AsyncConsumer.resume)

    def stop(self) -> None:
        """Take no more messages. Iterations end, and `run` returns once its handlers have returned.

        Messages that no thread has taken are handed back at once. Messages that were taken can be answered
        until the consumer is closed. `stop` may be called anywhere, including in a signal handler. In a
        forked child it does nothing.
        """
        thread = self._thread
        if thread is None or not thread.is_forked:
            self._exchange.stop()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._exchange.stopping.reached

    def ready(self, timeout: float | None = None) -> None:
        """Wait until the consumer is subscribed on a first nsqd.

        :param timeout: seconds, 0 or more; default None: no limit
        :raises TimeoutError: if that takes longer than ``timeout``
        :raises Closed: if the consumer is closed or stopped first, or in a forked child
        :raises WouldDeadlock: in ``on_event``
        """
        check_seconds("timeout", timeout, 0, special=(None,))
        thread, consumer = self._open_to_wait()
        try:
            outcome = thread.call_soon(consumer.ready)
        except Closed:
            self._refuse(thread)
        try:
            outcome.result(timeout)
        except TimeoutError:
            thread.cancel(outcome)
            raise TimeoutError(f"no nsqd has accepted a subscription within {timeout:g} s") from None
        except Closed:
            self._raise_failure(thread)
            raise
        except BaseException:
            thread.cancel(outcome)
            raise

    # Its state

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be unanswered at once, over all connections. It can be set; 0 pauses."""
        return self._read(lambda consumer: consumer.max_in_flight)

    @max_in_flight.setter
    def max_in_flight(self, value: int) -> None:
        self._read(lambda consumer: setattr(consumer, "max_in_flight", value))

    @property
    def in_flight(self) -> int:
        """The number of messages that were received and are not answered yet."""
        return self._read(lambda consumer: consumer.in_flight)

    @property
    def is_starved(self) -> bool:
        """Whether nearly as many messages as the RDY count allows are in flight on a connection.

        Then no more messages may come before some are answered.
        """
        return self._read(lambda consumer: consumer.is_starved)

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds that this consumer is subscribed to now."""
        return self._read(lambda consumer: consumer.connections)

    def statistics(self) -> ConsumerStatistics:
        """Return a snapshot of the counters over all connections; see `nsq_anyio.Consumer.statistics`."""
        found = self._read(AsyncConsumer.statistics)
        return dataclasses.replace(found, waiting=found.waiting + len(self._exchange.handover))

    def _measure(self, add: Callable[[AsyncConsumer], object]) -> None:
        """Call ``add`` with the async consumer, in its event loop."""
        self._read(add)

    # Its life

    def _starts(self, thread: LoopThread[AsyncConsumer]) -> None:
        self._exchange.thread = thread

    def _open_to_wait(self) -> tuple[LoopThread[AsyncConsumer], AsyncConsumer]:
        opened = thread, _ = self._open()
        self._check_wait(thread, _REMEDY)
        if self._closed:
            self._refuse(thread)
        return opened

    def _raise_failure(self, thread: LoopThread[AsyncConsumer]) -> None:
        """Unless the consumer was stopped, wait for its end, and raise the error that ended it, if any."""
        if self.stopped:
            return
        thread.wait_for_end()
        if thread.failure is not None:
            raise thread.failure


class BatchCollector:
    """Collects lists of messages. Made by `Consumer.batches`.

    :param max_size: the most messages in a batch
    :param max_wait: seconds to wait for more messages after the first one
    :param max_attempts: from this attempt on, a message whose handling fails is given up; 0 for never
    :param is_starved: whether no more messages may come before the ones in flight are answered
    """

    def __init__(
        self,
        exchange: Exchange,
        max_size: int,
        max_wait: float,
        max_attempts: int,
        is_starved: Callable[[], bool],
    ) -> None:
        self._exchange = exchange
        self._max_size = max_size
        self._max_wait = max_wait
        self._max_attempts = max_attempts
        self._is_starved = is_starved

    def take(self) -> list[Message]:
        """Wait for the next batch of at least one message.

        :raises Over: if no more messages come
        """
        while True:
            batch = self._collect()
            # While the batch was filling, its first messages may have timed out or lost their connection.
            held = [message for message in batch if self._exchange.handover.is_current(message)]
            if held:
                return [Message(message, self._exchange) for message in held]

    def _collect(self) -> list[AsyncMessage]:
        """Wait for a first message, then for more until the batch is full, time is up, or it is starved."""
        handover, stop = self._exchange.handover, self._exchange.stopping
        batch: list[AsyncMessage] = []
        try:
            first = handover.take(None, stop)
            if first is None:
                return batch
            batch.append(first)
            if not shareable(batch, self._max_attempts):
                return batch
            deadline = time.monotonic() + self._max_wait
            while len(batch) < self._max_size:
                if self._add(batch, handover.take_ready(self._max_size - len(batch))) or self._has_all(batch):
                    break
                if not handover.wait(deadline, stop):
                    break
        except Over:
            if not batch:
                raise
        except BaseException:
            handover.put_back(batch)  # interrupted
            raise
        return batch

    def _has_all(self, batch: list[AsyncMessage]) -> bool:
        """Return whether no more messages may come before some are answered; if so, add the rest."""
        try:
            if not self._is_starved():
                return False
        except Closed:
            return True
        # Some of the messages in flight may still be on their way to this thread.
        self._add(batch, self._exchange.take_ready(self._max_size - len(batch)))
        return True

    def _add(self, batch: list[AsyncMessage], taken: list[AsyncMessage]) -> bool:
        """Add the messages that may share the batch; return whether the batch is complete."""
        count = shareable(taken, self._max_attempts)
        batch += taken[:count]
        if count < len(taken):
            self._exchange.handover.put_back(taken[count:])
            return True
        return len(batch) == self._max_size


GiveUp = Callable[[Message], object]
"""A plain function of one message, called in a thread of its own before the message is given up. If it
raises, the message is requeued."""


@knowing_other_names
def consume(
    topic: str,
    channel: str,
    *,
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int | None = None,
    on_give_up: GiveUp | None = None,
    dead_letter: str | None = None,
    on_event: EventHook | None = None,
    middleware: Sequence[ConsumerMiddleware] = (),
    deduplicate: Deduplicate | None = None,
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
    backend: Backend = "asyncio",
) -> Consumer:
    """Consume a channel of a topic from code without an event loop.

    ::

        with nsq.sync.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
            for message in consumer:
                with message:
                    print(message.payload)

    The consumer opens at its first use, or when its ``with`` block is entered. The end of the block or
    `Consumer.close` ends it, and hands unanswered messages back to nsqd, within ``close_timeout``. A consumer
    that is still open when the interpreter exits ends in the same way. In a forked child, every use of a
    consumer that was open raises `Closed`; in the parent it continues.

    The other parameters are those of `nsq_anyio.consume`, with the same ranges and defaults.

    :param max_in_flight: the most messages that may be unanswered at once, over all connections, 0 or more;
        default: as many as the caller can use: 1 for iteration, ``max_size`` for `Consumer.batches` and
        ``threads`` for `Consumer.run`
    :param on_give_up: a plain function, called in a thread of its own with each message that is given up,
        before it is finished
    :param dead_letter: the topic for messages that are given up or discarded, such as ``{topic}.dead``
    :param on_event: called in the thread of the event loop
    :param middleware: as for `nsq_anyio.consume`. It wraps each handler of `Consumer.run`, each ``with
        message:`` block, and each give-up. It runs in the event loop; the thread of the handler or block sees
        the context variables that it sets
    :param backend: AnyIO's backend for the event loop, ``asyncio`` or ``trio``; default ``asyncio``
    :raises InvalidName: if nsqd would refuse the topic or channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if another value is not valid
    :raises PermanentRefusal: from the next call, the end of the block or `Consumer.close`, if an nsqd refuses
        permanently
    """
    options = options_or_default("options", options, ConsumerOptions)
    if not isinstance(dead_letter, str | None):
        raise InvalidOption(f"dead_letter={dead_letter!r} is not valid: use a topic such as '{{topic}}.dead'")
    exchange = Exchange()
    block = consume_async(
        topic,
        channel,
        nsqd=nsqd,
        nsqlookupd=nsqlookupd,
        max_in_flight=max_in_flight,
        on_give_up=None if on_give_up is None else _in_thread(on_give_up, exchange),
        dead_letter=dead_letter,
        on_event=on_event,
        middleware=middleware,
        deduplicate=deduplicate,
        options=options,
        connection=connection,
    )
    return Consumer(block, exchange, options, backend)


def _in_thread(on_give_up: GiveUp, exchange: Exchange) -> Callable[[AsyncMessage], Awaitable[None]]:
    """Return an async function that calls ``on_give_up`` in a thread, because it may block.

    The thread is not one of AnyIO's, which may keep the interpreter from exiting.
    """
    if not callable(on_give_up) or inspect.iscoroutinefunction(on_give_up):
        raise InvalidOption(f"on_give_up={on_give_up!r} is not valid: use a plain function of one message")

    async def give_up(message: AsyncMessage) -> None:
        returned = anyio.Event()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                on_give_up(Message(message, exchange))
            except BaseException as error:  # noqa: BLE001 - raised in the event loop
                errors.append(error)
            if exchange.is_forked:
                end_child(errors[0] if errors else None)
            exchange.notify(returned.set)

        Thread(target=work, name="nsq-anyio on_give_up", daemon=True).start()
        await returned.wait()
        for error in errors:
            raise error if isinstance(error, Exception) else RuntimeError(repr(error))

    return give_up
