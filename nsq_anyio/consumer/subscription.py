"""One subscribed connection of a consumer, from before SUB to its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import anyio

from ..address import NsqdAddress
from ..connection import Connection, Request
from ..connection.flow import settled
from ..errors import ConnectionFailed
from ..events import ConnectionClosed, Disconnected
from ..protocol import commands, session
from ..protocol.identify import IdentifyReply
from .distribution import ReadyCount
from .in_flight import InFlight
from .message import Arrival, MakeMessage, Message
from .setup import Setup
from .statistics import ConnectionStatistics, Counters


class Subscription:
    """The `Receiver` of one connection.

    A subscription ends in one of three ways. `drain` hands back unanswered messages and waits until nsqd has
    confirmed that. `retire` first gives them time to be answered. `hand_back_at_once` waits for nothing.

    :ivar in_flight: its messages
    :ivar ready: its RDY count
    """

    def __init__(self, address: NsqdAddress, setup: Setup) -> None:
        self.address: NsqdAddress = address
        self.nsqd: str = str(address)
        self.in_flight: InFlight = _in_flight(self.nsqd, setup, self.may_proceed)
        self.ready: ReadyCount = ReadyCount(self.nsqd, self.in_flight, setup.emit)
        self.arrival: Callable[[float, int], Arrival] = self.in_flight.arrival
        self.make_message: MakeMessage = setup.make_message
        self._setup = setup
        self._put = setup.inbox.put if setup.claims is None else setup.claims.put
        self._emit = setup.emit
        self._redistribute = setup.redistribute
        self._lend_after = setup.options.lend_after
        self._connection: Connection[Arrival, Message] | None = None
        self._close_wait: Request | None = None
        self._stopping = False
        self._draining = False
        self._all_answered = anyio.Event()
        self._released = anyio.Event()

    def __repr__(self) -> str:
        return f"<Subscription {self.nsqd} rdy={self.ready.rdy} in_flight={len(self.in_flight)}>"

    @property
    def released(self) -> bool:
        """Whether `drain` is over, so that this side has ended the subscription."""
        return self._released.is_set()

    async def wait_released(self) -> None:
        """Wait until `drain` is over."""
        await self._released.wait()

    def statistics(self) -> ConnectionStatistics:
        """A snapshot of this connection."""
        connection = self._connection
        return ConnectionStatistics(
            nsqd=self.nsqd,
            identity=connection.identity if connection else IdentifyReply(),
            authorization=connection.authorization if connection else None,
            rdy=self.ready.rdy,
            max_rdy_count=self.ready.max_rdy_count,
            in_flight=len(self.in_flight),
            **dataclasses.asdict(self.in_flight.counters),
        )

    # The connection

    def attach(self, connection: Connection[Arrival, Message], now: float) -> None:
        """Use a connection, before SUB."""
        self._connection = connection
        self.in_flight.attach(connection, self.ready.awaits_flush, now)
        self.ready.attach(connection, now)

    def detach(self, counters: Counters) -> None:
        """Forget the connection, which has ended.

        :param counters: takes over the counts, as in `InFlight.detach`
        """
        self._connection = None
        self.ready.detach()
        self.in_flight.detach(counters)
        self._all_answered.set()

    # Called by the reader and the writer

    def received(self, messages: list[Message], now: float) -> None:
        """Register the messages of one chunk, and pass them on."""
        was_idle = now - self.in_flight.last_message_at >= self._lend_after
        self.in_flight.add(messages, now)
        if self._stopping:
            _hand_back(messages)
        else:
            self._put(messages, now)
            if was_idle:
                self._redistribute()  # the connection needs the slots back that it has lent

    def response_failed(self, failure: session.ResponseFailed) -> None:
        self.in_flight.response_failed(failure)

    def may_proceed(self) -> None:
        """Act on sent answers and on expired messages: slots may be free, or all messages answered."""
        if self.ready.has_surplus:
            self._redistribute()
        if self._stopping and not self.in_flight:
            self._all_answered.set()

    # The end

    def stop(self) -> None:
        """Send CLS. Messages in flight can still be answered; messages that arrive later are handed back."""
        if self._stopping:
            return
        self._stopping = True
        self.ready.stop(anyio.current_time())
        if self._connection is not None and not self._connection.ended:
            self._close_wait = self._connection.stop_messages()

    async def drain(self) -> None:
        """Stop, hand back unanswered messages, and wait until nsqd has handled all answers."""
        if self._draining:  # `retire` and the end of the consumer may both drain at the same time
            await self._released.wait()
            return
        self._draining = True
        confirmed = False
        try:
            if self._connection is not None:
                await self._stop_and_close(self._connection)
                confirmed = True
        except ConnectionFailed as error:
            self._emit(Disconnected(self.nsqd, error, None, **self._emit.source))
        finally:
            self._emit(ConnectionClosed(self.nsqd, confirmed, **self._emit.source))
            self._released.set()

    async def _stop_and_close(self, connection: Connection[Arrival, Message]) -> None:
        self.stop()
        # Handed back before the wait, in case nsqd never answers CLS.
        _hand_back(self.in_flight.unanswered())
        if self._setup.claims is not None:
            await self._setup.claims.flush(self._setup.options.close_timeout / 2)
        if self._close_wait is not None:
            await self._close_wait.wait()
            await settled(lambda: self.in_flight.last_message_at)
        await connection.close()

    async def retire(self) -> None:
        """Stop, wait for the messages in flight to be answered, and close: this nsqd is no longer listed."""
        if self._stopping:
            return
        self.stop()
        options = self._setup.options
        with anyio.move_on_after(options.drain_timeout):
            while self.in_flight:
                self._all_answered = anyio.Event()
                await self._all_answered.wait()
        with anyio.move_on_after(options.close_timeout):
            await self.drain()

    def hand_back_at_once(self) -> None:
        """Hand back unanswered messages without waiting for anything, if `drain` is not over.

        This is for an event loop that ends first: `asyncio.run` cancels all tasks when its main task is over,
        including the connection's reader and writer. Nothing can be sent then over a stream of a user's
        dialer.
        """
        connection = self._connection
        if connection is None or connection.ended or self._released.is_set():
            return
        if not self._stopping:
            self._stopping = True
            self.ready.stop(anyio.current_time())
            # RDY 0 goes first, or nsqd would push the requeued messages to this connection again. CLS would
            # not do: nsqd answers it, and if this process has ended by then, nsqd executes nothing more (seen
            # with deflate).
            connection.outbox.put_first(commands.rdy(0))
        if self._setup.claims is not None:
            self._setup.claims.answer_at_once()
        _hand_back(self.in_flight.unanswered())
        connection.end_now()


def _in_flight(nsqd: str, setup: Setup, expired: Callable[[], None]) -> InFlight:
    if setup.claims is None:
        return InFlight(nsqd, setup, expired)
    from .claimed_in_flight import ClaimedInFlight  # noqa: PLC0415 - few consumers need it

    return ClaimedInFlight(nsqd, setup, expired, setup.claims)


def _hand_back(messages: Iterable[Message]) -> None:
    """Send REQ with delay 0 for messages that will not be processed here."""
    for message in messages:
        message._requeue_now(0, backoff=False)
