"""The consumer that ``async with nsq.consume(...)`` yields."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ..address import NsqdAddress
from ..connection.flow import LoopWatch
from ..errors import Closed, InvalidOption
from ..events import Emitter, EventHook
from ..options import ConnectionOptions, ConsumerOptions
from ..options.checks import check_flag, check_integer, check_seconds
from ..tasks import Background
from ..unentered import InBlock
from .batches import Batches
from .dead_letter import DeadLetter, DeadLetters
from .distribution import Distribution
from .giving_up import GiveUp, GivingUp
from .handler import BatchHandler, Handler, check_handler
from .inbox import Feed, Inbox
from .keep_alive import Touching
from .message import ConsumerMiddleware, Message
from .meter import ConsumerMeter, ConsumerReadings
from .rate import Pace, RateLimit, as_rate_limit
from .setup import Setup
from .statistics import ConsumerStatistics, Counters
from .supervisor import BeforeSubscribing, Supervisor
from .workers import BatchWorkers, Workers
from .wrapping import Wrapping

if TYPE_CHECKING:
    from ..deduplication import Deduplicate
    from .claims import Claims

_STARVED_PART = 0.85
"""The part of a RDY count which, once in flight, makes further messages unlikely (building client libraries,
"Message Flow Starvation")."""


class Consumer(InBlock):
    """Receives the messages of one channel. Made by `consume`.

    Iterate over it, or call `run` with a handler. Several tasks may do so at once; they share the messages.

    Waiting for a message can be cancelled at any time, for example by `anyio.move_on_after`. No message is
    lost: the next task that waits gets it.
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqds: Sequence[NsqdAddress],
        nsqlookupds: Sequence[str],
        max_in_flight: int | None,
        limiter: anyio.CapacityLimiter | None,
        on_give_up: GiveUp | None,
        on_event: EventHook | None,
        dead_letter: DeadLetter | None,
        middleware: Sequence[ConsumerMiddleware],
        deduplicate: Deduplicate | None = None,
        options: ConsumerOptions,
        connection: ConnectionOptions,
        before_subscribing: BeforeSubscribing | None = None,
    ) -> None:
        self._options = options
        self._emit = emit = Emitter("nsq_anyio.consumer", on_event, topic, channel, end=self._fail)
        self._wrapping = Wrapping(middleware, options.cancelled_drain_timeout) if middleware else None
        dead_letters = DeadLetters(topic, channel, dead_letter, emit) if dead_letter else None
        giving_up = GivingUp(options.max_attempts, on_give_up, emit, self._wrapping, dead_letters)
        self._inbox = Inbox(options._most_deliveries, giving_up.give_up)
        self._claims: Claims | None = None
        if deduplicate is not None:
            from .claims import Claims  # noqa: PLC0415 - few consumers need it

            self._claims = Claims(topic, channel, deduplicate, self._inbox, emit)
        self._closed = False
        self._meter: ConsumerMeter | None = None
        discovery = None
        if nsqlookupds:
            from .topic_discovery import TopicDiscovery  # noqa: PLC0415 - httpx takes long to import

            secret = connection.auth_secret
            discovery = TopicDiscovery(topic, nsqlookupds, options=options, emit=emit, auth_secret=secret)
        self._distribution = distribution = Distribution(max_in_flight, limiter, options, emit, self._fail)
        self._setup = setup = Setup(
            topic,
            channel,
            options=options,
            connection=connection,
            emit=emit,
            fail=self._fail,
            inbox=self._inbox,
            backoff=distribution.backoff,
            redistribute=distribution.redistribute,
            make_message=self._wrapping.make_message if self._wrapping else Message,
            giving_up=giving_up,
            touching=Touching(),
            loop_watch=LoopWatch(),
            claims=self._claims,
        )
        self._supervisor = Supervisor(
            setup, distribution, nsqds=nsqds, discovery=discovery, before_subscribing=before_subscribing
        )
        self._background = Background(self._run, self._shut_down)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._supervisor.subscriptions)} connections"
        name = f"{self.topic}/{self.channel}"
        return f"<Consumer {name} {state}, {self.in_flight} of {self.max_in_flight} in flight>"

    # Taking messages

    def __aiter__(self) -> Consumer:
        self._distribution.offer(1)
        return self

    def __anext__(self) -> Awaitable[Message]:
        """Wait for the next message. `stop` ends the iteration; a cancelled wait takes no message.

        :raises Closed: outside the block
        :raises RuntimeError: in another event loop than the block's
        """
        home = self._background.home
        if self._closed or home.running() != home.loop:  # without a call: this runs for each message
            self._check_open()
        return self._inbox.take()

    async def run(
        self,
        handler: Handler | BatchHandler,
        *,
        concurrency: int = 1,
        max_per_second: float | RateLimit | None = None,
        keep_alive: bool = False,
    ) -> None:
        """Handle messages until `stop` is called, this call is cancelled, or the consumer fails.

        The message is finished when the handler returns, and requeued when it raises. A handler may raise
        `Requeue` or `Discard` to choose, or answer the message itself.

        A cancelled call starts no more handlers. Running handlers get ``cancelled_drain_timeout``
        seconds to finish (after `stop`: ``drain_timeout``), then they are cancelled and their messages are
        requeued. A handler is also cancelled when its message times out, unless ``cancel_at_deadline`` is
        off.

        A plain function is called in a worker thread, from which it can answer and touch its message. A
        thread cannot be cancelled: instead it is abandoned, and a `ThreadAbandoned` event reports it. A
        thread whose message has timed out counts towards ``concurrency`` until it ends.

        :param handler: an async or plain function of one message, or a `BatchHandler`
        :param concurrency: the most handlers to run at a time, 1 or more; default 1
        :param max_per_second: the most handlers to start per second, more than 0, or a shared `RateLimit`;
            default: no limit. RDY counts follow it, so that messages do not time out while they wait here.
            Not for a `BatchHandler`
        :param keep_alive: whether to touch each message while its handler runs, as `Message.keep_alive` does;
            default False
        :raises InvalidOption: if an option is out of range; if ``handler`` cannot be called or is a generator
            function; at its first message, if it is a plain function that returns an awaitable
        :raises Closed: outside the block
        :raises RuntimeError: in another event loop than the block's
        """
        check_integer("concurrency", concurrency, 1)
        check_flag("keep_alive", keep_alive)
        check_handler(handler, max_per_second)
        self._check_open()
        pace: Pace | None = None
        if max_per_second is not None:
            pace = Pace(as_rate_limit(max_per_second), self._inbox, self._distribution)
        make: Callable[..., Workers]
        if isinstance(handler, BatchHandler):
            batches = self.batches(handler.max_size, handler.max_wait)
            make = partial(BatchWorkers, batches, self._inbox, handler.function)
            wanted = concurrency * handler.max_size
        else:
            make = partial(Workers, pace or self._inbox, handler)
            wanted = concurrency
        workers = make(
            self._emit,
            drain_timeout=self._options.drain_timeout,
            cancelled_drain_timeout=self._options.cancelled_drain_timeout,
            cancel_at_deadline=self._options.cancel_at_deadline,
            wrapping=self._wrapping,
            meter=self._meter,
            keep_alive=keep_alive,
        )
        self._distribution.offer(wanted)
        with pace.joined() if pace else nullcontext():
            await workers.run(concurrency)

    def batches(self, max_size: int, max_wait: float = 1.0) -> Batches:
        """Iterate over lists of messages. Answer each message, or use ``async with batch:`` for all of them.

        A batch ends when it is full, ``max_wait`` seconds after its first message, or when the consumer
        `is_starved`: then no more messages may come before these are answered. A message that another failure
        would give up (``max_attempts``) comes alone: a batch fails as a whole, and one bad message must not
        have the others given up.

        If the wait for a batch is cancelled, the messages that it has collected stay in the consumer, and the
        next task that waits gets them.

        :param max_size: the most messages in a batch, 1 or more
        :param max_wait: seconds to wait for more messages, 0 or more; default 1
        :raises InvalidOption: if either is out of range
        :raises Closed: outside the block
        :raises RuntimeError: in another event loop than the block's
        """
        check_integer("max_size", max_size, 1)
        check_seconds("max_wait", max_wait, 0)
        self._check_open()
        self._distribution.offer(max_size)
        max_attempts = self._options.max_attempts
        return Batches(self._inbox, max_size, max_wait, max_attempts, lambda: self.is_starved, self._wrapping)

    def _take_ahead(self) -> None:
        """Report no `Starved` from now on."""
        self._supervisor.take_ahead()

    def _feed(self) -> Feed:
        """Return the source of messages for a facade that hands them to other threads."""
        return Feed(self._inbox, self._distribution.offer, self._emit, self._wrapping)

    def _measure(self, meter: ConsumerMeter) -> ConsumerReadings:
        """Report to a collector of metrics, and return the readings for it.

        :raises InvalidOption: if the consumer already reports to a collector
        """
        if self._meter is not None:
            raise InvalidOption(f"{self!r} is already measured: add it to one collector, once")
        self._meter = meter
        self._emit.observe(meter.happened)
        return ConsumerReadings(self._supervisor, self.statistics, lambda: self._closed)

    def pause(self) -> None:
        """Receive no more messages until `resume`. Messages already received can be taken and answered."""
        self._distribution.pause(paused=True)

    def resume(self) -> None:
        """Receive messages again, after `pause`."""
        self._distribution.pause(paused=False)

    def stop(self) -> None:
        """Take no more messages. Iterations end, and `run` returns once its handlers have ended.

        This waits for nothing, so no cancellation can interrupt it. Messages that no task has taken are
        handed back at once. Messages that were taken can be answered until the block ends.

        :raises RuntimeError: in another event loop than the block's, or in another thread
        """
        if not self._closed:
            self._background.home.check()
            self._supervisor.stop()

    async def ready(self) -> None:
        """Wait until the consumer is subscribed on a first nsqd.

        Cancelling the wait changes nothing.

        :raises Closed: outside the block, or if the block ends or `stop` is called first
        :raises RuntimeError: in another event loop than the block's
        """
        self._check_open()
        await self._supervisor.decided.wait()
        self._check_open()
        if not self._supervisor.has_subscribed:
            raise Closed("the consumer was stopped before an nsqd had accepted its subscription")

    # State

    @property
    def topic(self) -> str:
        """The topic that is consumed."""
        return self._setup.topic

    @property
    def channel(self) -> str:
        """The channel that is consumed."""
        return self._setup.channel

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be unanswered at once, over all connections. It can be set; 0 pauses.

        With a shared limiter it bounds this consumer's share.
        """
        return self._distribution.max_in_flight

    @max_in_flight.setter
    def max_in_flight(self, value: int) -> None:
        check_integer("max_in_flight", value, 0)
        self._distribution.limit(value)

    @property
    def in_flight(self) -> int:
        """The number of messages that were received and are not answered."""
        return sum(len(subscription.in_flight) for subscription in self._supervisor.subscriptions.values())

    @property
    def is_starved(self) -> bool:
        """Whether nearly as many messages as the RDY count allows are in flight on a connection.

        Then no more messages may come before some are answered.
        """
        return any(
            subscription.in_flight and len(subscription.in_flight) >= subscription.ready.rdy * _STARVED_PART
            for subscription in self._supervisor.subscriptions.values()
        )

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds that this consumer is subscribed to now."""
        return tuple(map(str, self._supervisor.subscriptions))

    def statistics(self) -> ConsumerStatistics:
        """Return a snapshot of the counters of all connections since the block began."""
        supervisor = self._supervisor
        subscriptions = supervisor.subscriptions.values()
        total = Counters()
        for counters in supervisor.counters().values():
            total.add(counters)
        return ConsumerStatistics(
            connections=len(subscriptions),
            in_flight=self.in_flight,
            waiting=len(self._inbox),
            backoff_level=self._distribution.backoff.level,
            per_connection=tuple(subscription.statistics() for subscription in subscriptions),
            **asdict(total),
        )

    # Lifetime

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[Consumer]:
        """Connect, and stay connected, around the user's block."""
        try:
            async with self._background.around_block():
                yield self
        finally:
            self._closed = True
            self._supervisor.decided.set()  # wakes the tasks in `ready`

    async def _run(self) -> None:
        async with self._claims.running() if self._claims else nullcontext():
            await self._supervisor.run()

    async def _shut_down(self, cancelled: bool) -> None:
        del cancelled  # the shutdown is bounded in either case, and handlers have ended with `run`
        self.stop()
        with anyio.move_on_after(self._options.cancelled_drain_timeout):
            await self._inbox.give_up_failed()
        await self._supervisor.drain()

    def _fail(self, error: BaseException) -> None:
        self._background.fail(error)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the consumer's block has ended: take messages inside `async with nsq.consume(...)`")
        self._background.home.check()
